"""Communication graphs: who can speak to whom directly.

Invariant (Rodrigues and Veríssimo, chapter 3). Processes are the vertices; there is a link between p and q if each can
send to the other. The graph is connected. Processes without a link reach each other through others, along a path.

Graphs are networkx graphs whose vertices are process names, in the order in which they were first named: that is their
order in the roster too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import combinations
from typing import TYPE_CHECKING

import networkx as nx

from thence.core.model.roster import Roster
from thence.errors import MisuseError

if TYPE_CHECKING:
    Graph = nx.Graph[str]
else:
    Graph = nx.Graph


def graph_of(links: str | Iterable[tuple[str, str]], *, processes: Iterable[str] = ()) -> Graph:
    """Read a connected graph from links: pairs, or text as in `a-b b-c`; `processes` fixes an order of names."""
    graph = Graph()
    graph.add_nodes_from(processes)
    for link in links.split() if isinstance(links, str) else links:
        one, two = _pair(link)
        if one == two:
            raise MisuseError(f"link {one}-{two} joins a process to itself; links join two processes")
        graph.add_edge(one, two)
    check_graph(graph)
    return graph


def _pair(link: str | tuple[str, str]) -> tuple[str, str]:
    ends = tuple(link.split("-")) if isinstance(link, str) else tuple(link)
    if len(ends) != 2 or not all(ends):
        raise MisuseError(f"link {link!r} does not join two processes; a-b is accepted")
    return ends


def check_graph(graph: Graph) -> None:
    """Raise MisuseError unless the graph is connected and its vertices are process names."""
    Roster(graph)
    if not graph:
        raise MisuseError("a communication graph without processes; name at least one link")
    parts = components(graph)
    if len(parts) > 1:
        apart = " and ".join("{" + ", ".join(part) + "}" for part in parts)
        raise MisuseError(f"the communication graph has {len(parts)} components: {apart}; it must be connected")


def known(graph: Graph, names: Iterable[str], what: str) -> frozenset[str]:
    """Return the names as a set, or say which of them the graph does not have."""
    found = frozenset(names)
    strangers = sorted(found - set(graph))
    if strangers:
        raise MisuseError(f"{what} names {', '.join(strangers)}, not in the graph; it holds {', '.join(graph)}")
    return found


def in_graph_order(graph: Graph, names: Collection[str]) -> list[str]:
    """Return names in the order of the graph."""
    return [name for name in graph if name in names]


def components(graph: Graph, without: Collection[str] = ()) -> list[list[str]]:
    """Return what the graph falls into when some processes are taken out, each part and all of them in order."""
    rest = graph.subgraph(name for name in graph if name not in without)
    parts = [in_graph_order(graph, part) for part in nx.connected_components(rest)]
    place = {name: position for position, name in enumerate(graph)}
    return sorted(parts, key=lambda part: place[part[0]])


def broadcast(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return the links of a broadcast network: every process with every other."""
    return list(combinations(names, 2))
