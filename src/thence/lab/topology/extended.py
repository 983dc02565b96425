"""The extended communication graph: application processes, the routers between them, and where separators stand.

Invariant (Rodrigues and Veríssimo, chapter 5). Every node has a router, its communication server, through which all
messages of its processes pass; departments and organisations have routers of their own. All links into a unit go
through its routers, so these are a causal separator between the unit and everything else. The first router of a unit
forwards, the others are its witnesses.

A description is a table (a dict, or TOML) of organisations, departments and nodes, any level left out where there is
only one; a node is named after its router and lists its processes:

    [departments.east]
    routers = ["da", "db"]
    nodes.na = ["pa", "pb"]
    nodes.nb = ["pc", "pd"]

    [departments.west]
    routers = ["dc"]
    nodes.nc = ["pe", "pf"]

A unit's routers are linked to those of each unit within it. Units that stand side by side at the top are linked all
with all. Each separator is named after its unit.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

from thence.core.model.plain import Fields, Json
from thence.errors import MisuseError
from thence.lab.topology.graph import Graph, check_graph
from thence.lab.topology.routes import Routes
from thence.lab.topology.separators import Separator, both_ways

LEVELS = ("organisations", "departments", "nodes")


@dataclass(frozen=True)
class Extended:
    """A graph with routers in it, the ways messages take, and its named separators."""

    graph: Graph
    processes: tuple[str, ...]
    """the application's; the others are routers and gateways"""
    forwarding: Graph
    witnesses: dict[str, frozenset[str]]
    separators: dict[str, frozenset[str]]

    @cached_property
    def routes(self) -> Routes:
        """The ways of messages, checked."""
        return Routes.fixed(self.graph, self.forwarding, self.witnesses)

    def at(self, names: Iterable[str]) -> list[Separator]:
        """Return the separators of these names, each part that they leave against the rest, both ways."""
        found: list[Separator] = []
        for name in names:
            if name not in self.separators:
                raise MisuseError(f"no separator {name!r}; there are {', '.join(self.separators)}")
            found += both_ways(self.graph, self.separators[name])
        return found


def from_toml(text: str) -> Extended:
    """Read a description in TOML."""
    try:
        return described(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise MisuseError(f"the description is not TOML: {error}") from None


def described(table: Fields) -> Extended:
    """Read a description given as a table."""
    reading = _Reading()
    fronts = reading.unit(table, "", 0)
    for one, two in combinations(fronts, 2):
        reading.graph.add_edges_from((a, b) for a in one for b in two)
        reading.forwarding.add_edge(one[0], two[0])
    check_graph(reading.graph)
    found = Extended(reading.graph, tuple(reading.processes), reading.forwarding, reading.witnesses, reading.separators)
    check_graph(found.routes.graph)
    return found


@dataclass
class _Reading:
    """What has been read so far; `unit` returns the routers by which each unit is linked to what is above it."""

    graph: Graph = field(default_factory=Graph)
    forwarding: Graph = field(default_factory=Graph)
    processes: list[str] = field(default_factory=list)
    witnesses: dict[str, frozenset[str]] = field(default_factory=dict)
    separators: dict[str, frozenset[str]] = field(default_factory=dict)

    def unit(self, table: Fields, path: str, level: int) -> list[list[str]]:
        """Read what stands in one table: the units of each level in it."""
        allowed = LEVELS[level:]
        for key in table:
            if key not in allowed and not (path and key == "routers"):
                raise MisuseError(f"{path or 'the description'} has {key!r}; accepted are {', '.join(allowed)}")
        fronts: list[list[str]] = []
        for kind in allowed:
            for name, inner in table.get(kind, {}).items():
                where = f"{path}.{kind}.{name}".lstrip(".")
                fronts.append(self._node(name, inner, where) if kind == "nodes" else self._within(name, inner, where))
        if not fronts:
            raise MisuseError(f"{path or 'the description'} holds no {' or '.join(allowed)}")
        return fronts

    def _within(self, name: str, table: Json, where: str) -> list[str]:
        if not isinstance(table, Mapping):
            raise MisuseError(f"{where} is {table!r}; a table with routers and what is within is accepted")
        routers = _names(table.get("routers", []), f"{where}.routers")
        fronts = self.unit(table, where, LEVELS.index(where.split(".")[-2]) + 1)
        self._new(routers, where)
        for front in fronts:
            self.graph.add_edges_from((router, below) for router in routers for below in front)
            self.forwarding.add_edge(routers[0], front[0])
        self._separate(name, routers, where)
        return routers

    def _node(self, router: str, processes: Json, where: str) -> list[str]:
        names = _names(processes, where)
        self._new([router, *names], where)
        self.graph.add_edges_from((router, name) for name in names)
        self.forwarding.add_edges_from((router, name) for name in names)
        self.processes += names
        self._separate(router, [router], where)
        return [router]

    def _new(self, names: list[str], where: str) -> None:
        for name in names:
            if name in self.graph:
                raise MisuseError(f"{where} names {name}, which stands elsewhere already; names must be distinct")
        self.graph.add_nodes_from(names)

    def _separate(self, name: str, routers: list[str], where: str) -> None:
        if name in self.separators:
            raise MisuseError(f"{where}: a unit named {name} stands elsewhere already; names must be distinct")
        self.separators[name] = frozenset(routers)
        if len(routers) > 1:
            self.witnesses[routers[0]] = frozenset(routers[1:])


def _names(value: Json, where: str) -> list[str]:
    if not isinstance(value, list | tuple) or not value or not all(isinstance(name, str) for name in value):
        raise MisuseError(f"{where} is {value!r}; a list of one or more names is accepted")
    return list(value)
