"""Routes: how a message reaches any process over the links of a communication graph.

Invariant (errata 16). Causal order on every hop is causal order end to end if all messages take their way over one
fixed forwarding graph each of whose blocks is complete: a tree, or broadcast networks joined in a tree. Between two
processes there is then one shortest path, and every chain of messages from one to the other passes the cut processes
on it, in its order. On a cycle without chords two ways lead to one place, a chain of messages can overtake on the
second, and no hop notices: the square s-a-d-b, s to d by way of a, then s to b, then b to d.

The other members of a separator are *witnesses* of the one that forwards: what is addressed to that one is addressed
too to those of its witnesses that a link joins with the sender, and they pass nothing of it on. So all of a separator
learns of what passes through it, as R9 wants, and no second way arises. A witness may forward elsewhere in the tree.

`Routes.shortest` takes any shortest path of the whole graph instead. It keeps no end-to-end order; it is there to
show it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations

import networkx as nx

from thence.errors import MisuseError
from thence.lab.topology.graph import Graph, check_graph, in_graph_order, known

Branches = dict[str, frozenset[str]]
"""next process on the way, and the destinations beyond it"""


class Routes:
    """For each process and destination the next process on the way, and the witnesses of each."""

    def __init__(self, graph: Graph, forwarding: Graph, witnesses: Mapping[str, Iterable[str]] | None = None) -> None:
        """Take the links, those of them that messages take, and for a forwarding process its witnesses."""
        check_graph(graph)
        check_graph(forwarding)
        self.graph, self.forwarding = graph, forwarding
        for one, two in forwarding.edges:
            if not graph.has_edge(one, two):
                raise MisuseError(f"messages are forwarded from {one} to {two}, which no link joins")
        self.witnesses = {name: frozenset(others) for name, others in (witnesses or {}).items()}
        self._check_witnesses()
        self._next = self._tables()
        self._block = {
            frozenset(link): number
            for number, block in enumerate(nx.biconnected_component_edges(forwarding))
            for link in block
        }

    @classmethod
    def fixed(cls, graph: Graph, forwarding: Graph, witnesses: Mapping[str, Iterable[str]] | None = None) -> Routes:
        """Return routes over a forwarding graph that keeps order end to end, or say which cycle is in the way."""
        for block in nx.biconnected_component_edges(forwarding):
            names = in_graph_order(forwarding, {name for link in block for name in link})
            for one, two in combinations(names, 2):
                if not forwarding.has_edge(one, two):
                    raise MisuseError(
                        f"two ways lead from {one} to {two} among {', '.join(names)}: order on every hop would be none "
                        "end to end; forward over a tree, or link them all"
                    )
        return cls(graph, forwarding, witnesses)

    @classmethod
    def tree(
        cls, graph: Graph, *, root: str | None = None, witnesses: Mapping[str, Iterable[str]] | None = None
    ) -> Routes:
        """Return routes over a breadth-first tree of the graph without its witnesses."""
        silent = frozenset[str]().union(*map(frozenset, (witnesses or {}).values()))
        rest = graph.subgraph(name for name in graph if name not in known(graph, silent, "a set of witnesses"))
        check_graph(rest)
        start = next(iter(rest)) if root is None else root
        if start not in rest:
            raise MisuseError(f"no tree can grow from {start}; roots may be {', '.join(rest)}")
        tree = Graph()
        tree.add_nodes_from(rest)
        tree.add_edges_from(nx.bfs_edges(rest, start))
        return cls.fixed(graph, tree, witnesses)

    @classmethod
    def shortest(cls, graph: Graph) -> Routes:
        """Return routes by shortest paths of the whole graph, of equal ones by the process named first."""
        return cls(graph, graph)

    def _check_witnesses(self) -> None:
        known(self.forwarding, self.witnesses, "the witnessed")
        seen = known(self.graph, (name for others in self.witnesses.values() for name in others), "a set of witnesses")
        idle = [name for name in self.graph if name not in self.forwarding and name not in seen]
        if idle:
            raise MisuseError(f"{', '.join(idle)}: neither in the forwarding graph nor a witness of a process in it")
        for name, others in self.witnesses.items():
            for witness in sorted(others):
                if not any(self.graph.has_edge(near, witness) for near in self.forwarding[name]):
                    raise MisuseError(
                        f"{witness} hears nothing that is sent to {name}: no link joins it to a neighbour of {name}"
                    )

    def _tables(self) -> dict[str, dict[str, str]]:
        tables: dict[str, dict[str, str]] = {name: {} for name in self.forwarding}
        for goal in self.forwarding:
            distance = nx.single_source_shortest_path_length(self.forwarding, goal)
            for name in self.forwarding:
                if name != goal:
                    nearer = (near for near in self.forwarding if self.forwarding.has_edge(name, near))
                    tables[name][goal] = min(nearer, key=lambda near: distance[near])
        return tables

    def path(self, source: str, destination: str) -> list[str]:
        """Return the processes a message passes from source to destination, both included."""
        passed = [source]
        while passed[-1] != destination:
            passed.append(self._next[passed[-1]][destination])
        return passed

    def branches(self, here: str, destinations: Iterable[str]) -> Branches:
        """Return where a message at `here` goes next (itself, if it is a destination), and what is beyond each."""
        found: dict[str, set[str]] = {}
        for destination in destinations:
            if destination not in self._next:
                raise MisuseError(f"no way leads to {destination}; messages can go to {', '.join(self._next)}")
            found.setdefault(here if destination == here else self._next[here][destination], set()).add(destination)
        return {name: frozenset(found[name]) for name in self.forwarding if name in found}

    def apart(self, here: str, branches: Branches) -> list[Branches]:
        """Group branches by the link or broadcast network they are on."""
        parts: dict[int, Branches] = {}
        for near, beyond in branches.items():
            parts.setdefault(self._block.get(frozenset({here, near}), -1), {})[near] = beyond
        return list(parts.values())

    def addressed(self, here: str, near: str) -> frozenset[str]:
        """Return the addressees of a hop from `here` to `near`: `near`, and its witnesses among the linked."""
        if near == here:
            return frozenset({here})
        return frozenset(w for w in self.witnesses.get(near, ()) if self.graph.has_edge(here, w)) | {near}
