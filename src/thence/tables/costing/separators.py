"""Causal separators in recorded traffic: processes whose removal disconnects the communication graph.

Invariant: two processes are neighbours if one of them sent to the other. A process whose removal parts its connected
graph is a separator; with each part as forward set and the other parts as backward set it is written as `ech-r9`
reads it: `d:abc|efg`, in both directions. No message of the run passes between two parts but through it.
"""

from __future__ import annotations

from collections.abc import Iterable

from thence.core.model.events import Event
from thence.core.model.roster import Roster

Graph = dict[str, set[str]]
MOST_SEPARATORS = 16
"""separators that are written down"""


def traffic_graph(events: Iterable[Event], roster: Roster) -> Graph:
    """Return the communication graph: for each process, those it exchanges messages with."""
    near: Graph = {name: set() for name in roster}
    for event in events:
        if event.kind == "send":
            for other in event.destinations or ():
                if other != event.process:
                    near[event.process].add(other)
                    near[other].add(event.process)
    return near


def components_without(near: Graph, without: str | None = None) -> list[list[str]]:
    """Return the connected components that remain without a process, each sorted by name."""
    left = [name for name in sorted(near) if name != without]
    seen: set[str] = set()
    found: list[list[str]] = []
    for start in left:
        if start in seen:
            continue
        part, stack = {start}, [start]
        while stack:
            fresh = near[stack.pop()] - part - {without}
            part |= fresh
            stack += fresh
        seen |= part
        found.append(sorted(part))
    return found


def separating(near: Graph) -> list[str]:
    """Return the separators of a connected graph, by depth-first search (Hopcroft and Tarjan)."""
    if not near:
        return []
    root = min(near)
    depth, low, found = {root: 0}, {root: 0}, set()
    children = 0
    stack = [(root, iter(sorted(near[root])))]
    while stack:
        here, rest = stack[-1]
        other = next(rest, None)
        if other is None:
            stack.pop()
            if stack:
                above = stack[-1][0]
                low[above] = min(low[above], low[here])
                if above != root and low[here] >= depth[above]:
                    found.add(above)
        elif other not in depth:
            depth[other] = low[other] = depth[here] + 1
            children += here == root
            stack.append((other, iter(sorted(near[other]))))
        else:
            low[here] = min(low[here], depth[other])
    if children > 1:
        found.add(root)
    return sorted(found)


def separators_option(near: Graph) -> str:
    """Return the separators as the option of `ech-r9`; empty if there are none, or names do not go into it."""
    if any(mark in name for name in near for mark in ":|;,") or len(components_without(near)) != 1:
        return ""
    texts = []
    for cut in separating(near)[:MOST_SEPARATORS]:
        sides = components_without(near, cut)
        for side in sides:
            others = [name for each in sides if each is not side for name in each]
            texts.append(f"{_names([cut])}:{_names(side)}|{_names(sorted(others))}")
    return ";".join(texts)


def _names(names: list[str]) -> str:
    return ",".join([*names, ""])
