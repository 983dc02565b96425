"""Causal separators: given, computed, and checked.

Invariant (Rodrigues and Veríssimo, chapter 3). A set S of processes with a forward set F and a backward set B is a
separator if the three are disjoint, together hold every process, and every path from F to B passes through S; which
is to say that no process of F is linked to one of B. R9 filters what goes from S to F; a separator that is to filter
both ways is used twice, with F and B exchanged.

Any set whose removal leaves more than one part is a separator, in as many ways as its parts can be put on two sides.
`both_ways` gives, for a set, each part against the rest, both ways, which is what a router between several nodes
wants. `balance` says how evenly a separator divides: 1 if F and B are of one size, near 0 if one of them is small.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import networkx as nx

from thence.errors import MisuseError
from thence.lab.topology.graph import Graph, components, in_graph_order, known

MOST_CUTS = 1000
"""how many minimum cuts are looked at before the best are chosen"""


@dataclass(frozen=True, slots=True)
class Separator:
    """A set of processes with its forward and its backward set."""

    members: frozenset[str]
    forward: frozenset[str]
    backward: frozenset[str]

    @property
    def reversed(self) -> Separator:
        """The same set, the other way."""
        return Separator(self.members, self.backward, self.forward)

    @property
    def balance(self) -> float:
        """Size of the smaller side over that of the larger."""
        sizes = len(self.forward), len(self.backward)
        return min(sizes) / max(sizes)

    def __str__(self) -> str:
        return option_text([self])


def option_text(separators: Iterable[Separator]) -> str:
    """Write separators as the option `separators` of `ech-r9`."""
    return ";".join(f"{_text(s.members)}:{_text(s.forward)}|{_text(s.backward)}" for s in separators)


def _text(names: Collection[str]) -> str:
    return ",".join(sorted(names))


def check_separator(graph: Graph, separator: Separator) -> Separator:
    """Return the separator; raise the error that says why it does not separate this graph."""
    sets = {"members": separator.members, "forward set": separator.forward, "backward set": separator.backward}
    whole = f"separator {separator}"
    for what, names in sets.items():
        if not known(graph, names, whole):
            raise MisuseError(f"{whole} has no {what}; each of the three needs a process")
    twice = sorted(name for name in graph if sum(name in names for names in sets.values()) > 1)
    if twice:
        raise MisuseError(f"{whole} names {', '.join(twice)} twice; its sets are disjoint")
    absent = [name for name in graph if not any(name in names for names in sets.values())]
    if absent:
        raise MisuseError(f"{whole} leaves out {', '.join(absent)}; its sets hold every process of the graph")
    for one, two in graph.edges:
        if len({one, two} & separator.forward) == len({one, two} & separator.backward) == 1:
            raise MisuseError(f"{whole} separates nothing: the link {one}-{two} joins its forward and backward sets")
    return separator


def given(graph: Graph, members: Iterable[str], forward: Iterable[str]) -> Separator:
    """Return the separator of these members whose forward set is the parts that hold the `forward` processes."""
    inside, ahead = known(graph, members, "a separator"), known(graph, forward, "a forward set")
    if inside & ahead:
        raise MisuseError(f"{', '.join(sorted(inside & ahead))} cannot be both in a separator and ahead of it")
    parts = _components(graph, inside)
    sides = [frozenset(part) for part in parts if ahead & set(part)]
    front = frozenset[str]().union(*sides)
    return check_separator(graph, Separator(inside, front, frozenset(graph) - inside - front))


def _components(graph: Graph, members: Collection[str]) -> list[list[str]]:
    parts = components(graph, members)
    if len(parts) < 2:
        names = ", ".join(in_graph_order(graph, members)) or "no process"
        raise MisuseError(f"without {names} the graph is still connected; a separator leaves at least two components")
    return parts


def both_ways(graph: Graph, members: Iterable[str]) -> list[Separator]:
    """Return each part that a set leaves against the rest, both ways."""
    inside = known(graph, members, "a separator")
    found: dict[Separator, None] = {}
    for part in _components(graph, inside):
        one = Separator(inside, frozenset(part), frozenset(graph) - inside - set(part))
        found.setdefault(one)
        found.setdefault(one.reversed)
    return list(found)


def most_even(graph: Graph, members: Iterable[str]) -> Separator:
    """Return the separator of a set that puts its parts, largest first, on whichever side is smaller so far."""
    inside = frozenset(members)
    sides: tuple[list[str], list[str]] = ([], [])
    for part in sorted(_components(graph, inside), key=len, reverse=True):
        min(sides, key=len).extend(part)
    return Separator(inside, frozenset(sides[0]), frozenset(sides[1]))


def articulations(graph: Graph) -> list[frozenset[str]]:
    """Return the separators of one process, in the order of the graph."""
    return [frozenset({name}) for name in in_graph_order(graph, set(nx.articulation_points(graph)))]


def minimum_cuts(graph: Graph) -> list[frozenset[str]]:
    """Return the smallest separators of a graph, at most `MOST_CUTS`; a complete graph has none."""
    if nx.density(graph) == 1.0 or len(graph) < 3:
        return []
    cuts: Iterator[set[str]] = islice(nx.all_node_cuts(graph), MOST_CUTS)
    return sorted((frozenset(cut) for cut in cuts), key=sorted)


def between(graph: Graph, one: str, two: str) -> frozenset[str]:
    """Return a smallest set that separates two processes, which may not be linked."""
    known(graph, (one, two), "a cut")
    if one == two or graph.has_edge(one, two):
        raise MisuseError(f"nothing separates {one} from {two}: they are {'one' if one == two else 'linked'}")
    return frozenset(nx.minimum_node_cut(graph, one, two))


def even_separators(graph: Graph, *, balance: float = 0.0, most: int | None = None) -> list[frozenset[str]]:
    """Return the articulation points and minimum cuts that divide at least so evenly, smallest and most even first."""
    if not 0.0 <= balance <= 1.0:
        raise MisuseError(f"balance {balance}; from 0 (any) to 1 (two sides of one size) is accepted")
    found = dict.fromkeys([*articulations(graph), *minimum_cuts(graph)])
    ranked = sorted(
        ((len(cut), -most_even(graph, cut).balance, sorted(cut), cut) for cut in found), key=lambda row: row[:3]
    )
    return [cut for _, unevenness, _, cut in ranked if -unevenness >= balance][:most]
