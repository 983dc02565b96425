"""The networks of chapter 7 of Rodrigues and Veríssimo, as data.

`office` is figure 7.1: p1 to p6 on the nodes n1 to n3, routers d1, d2 between n1, n2 and d3, and d3 before n3; S1 =
{d1, d2}, S2 = {d3}, S3 = {n3}; groups GA, GB, GC, GD of 3, 3, 2 and 2, GC = {p1, p6}. For ten processes, GA gets two
more at n1 and GD two more at n3. Who sits where, and who is in GA, GB and GD, was in a figure that is lost:
`PLACEMENTS` are guesses that fit the text (errata 17). Show all of them; the best-fitting one confirms nothing.

`gateway` is figure 7.5: a small group beside a large one, one gateway, two groups across it. `broadcasts` is figure
7.6: three broadcast networks; `pairs` joins them in a row by two pairs of gateways, `ring` in a ring by three
gateways, so that each network has two. Both fit "both gateways" of the text; the sizes are open too.

Simulated names are letters only, so p1 is `pa`, n2 is `nb`, d3 is `dc`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from thence.core.model.roster import letters
from thence.errors import MisuseError
from thence.lab.topology.extended import Extended, described
from thence.lab.topology.graph import Graph, broadcast, graph_of


@dataclass(frozen=True)
class GroupNetwork:
    """An extended graph, the groups its processes send to, and what chapter 7 looks at."""

    name: str
    extended: Extended
    groups: dict[str, tuple[str, ...]]
    watched: tuple[str, ...]
    """processes whose histories are measured"""
    focus: str | None = None
    """the group whose own stamps are measured apart"""

    @property
    def matrix(self) -> int:
        """Elements of a matrix clock over the application processes."""
        return len(self.extended.processes) ** 2

    @property
    def vectors(self) -> int:
        """Elements of one vector clock for each group."""
        return sum(map(len, self.groups.values()))


@dataclass(frozen=True)
class Placement:
    """The processes on n1, n2, n3 and those in GA, GB, GD, by the paper's numbers."""

    nodes: tuple[str, str, str]
    a: str
    b: str
    d: str
    shared: bool = False
    """whether d1 forwards for n1 and d2 for n2; else d1 forwards for both and d2 is its witness"""


PLACEMENTS: dict[str, Placement] = {
    "ring 2-2-2": Placement(("12", "34", "56"), "123", "345", "56"),
    "ring 3-1-2": Placement(("123", "4", "56"), "123", "345", "56"),
    "ring 2-1-3": Placement(("12", "3", "456"), "123", "345", "56"),
    "ring 2-3-1": Placement(("12", "345", "6"), "123", "345", "56"),
    "overlap 2-2-2": Placement(("12", "34", "56"), "123", "234", "56"),
    "overlap 3-1-2": Placement(("123", "4", "56"), "123", "234", "56"),
    "halves 2-2-2": Placement(("12", "34", "56"), "123", "456", "56"),
    "ring 2-2-2 shared": Placement(("12", "34", "56"), "123", "345", "56", shared=True),
}
SEPARATORS = {"S1": frozenset({"da", "db"}), "S2": frozenset({"dc"}), "S3": frozenset({"nc"})}


def office(placement: str = "ring 2-2-2", processes: int = 6) -> GroupNetwork:
    """Return figure 7.1 in one of its placements, for 6 or 10 processes."""
    if placement not in PLACEMENTS:
        raise MisuseError(f"no placement {placement!r}; there are {', '.join(PLACEMENTS)}")
    if processes not in (6, 10):
        raise MisuseError(f"{processes} processes; chapter 7 has 6 and 10")
    chosen = PLACEMENTS[placement]
    first, second, third = (_names("p", numbers) for numbers in chosen.nodes)
    groups = {"GA": _names("p", chosen.a), "GB": _names("p", chosen.b), "GC": ["pa", "pf"], "GD": _names("p", chosen.d)}
    if processes == 10:
        first, groups["GA"] = [*first, "pg", "ph"], [*groups["GA"], "pg", "ph"]
        third, groups["GD"] = [*third, "pi", "pj"], [*groups["GD"], "pi", "pj"]
    extended = described(
        {
            "departments": {
                "east": {"routers": ["da", "db"], "nodes": {"na": first, "nb": second}},
                "west": {"routers": ["dc"], "nodes": {"nc": third}},
            }
        }
    )
    forwarding, witnesses = extended.forwarding, extended.witnesses
    if chosen.shared:
        forwarding = Graph(forwarding)
        forwarding.remove_edge("nb", "da")
        forwarding.add_edges_from([("nb", "db"), ("db", "dc")])
        witnesses = {"da": frozenset({"db"}), "db": frozenset({"da"})}
    return GroupNetwork(
        f"office {placement}, n = {processes}",
        Extended(extended.graph, extended.processes, forwarding, witnesses, SEPARATORS),
        _frozen(groups),
        watched=("pc", "db", "dc"),
    )


def gateway(small: int = 4, large: int = 32) -> GroupNetwork:
    """Return figure 7.5: G1 (small) and G2 (large) on two broadcast networks, G3 and G4 across the gateway `g`."""
    here, there = _many("s", small), _many("l", large)
    graph = graph_of(broadcast([*here, "g"]) + broadcast([*there, "g"]))
    groups = {"G1": here, "G2": there, "G3": [here[0], there[0]], "G4": [here[1], there[1]]}
    extended = Extended(graph, (*here, *there), graph, {}, {"S": frozenset({"g"})})
    return GroupNetwork(f"gateway {small}|{large}", extended, _frozen(groups), watched=("sa", "g"), focus="G1")


def broadcasts(kind: str = "pairs", size: int = 6) -> GroupNetwork:
    """Return figure 7.6: a group in each of three broadcast networks and one across them; `kind` is pairs or ring."""
    if kind not in ("pairs", "ring"):
        raise MisuseError(f"no kind {kind!r} of joining broadcast networks; there are pairs and ring")
    x, y, z = (_many(name, size) for name in "xyz")
    at = {"x": ["ga", "gb"], "y": ["ga", "gb", "gc", "gd"], "z": ["gc", "gd"]}
    if kind == "ring":
        at = {"x": ["ga", "gc"], "y": ["ga", "gb"], "z": ["gb", "gc"]}
    ahead = {"pairs": ("ga", "gc"), "ring": ("ga", "gb")}[kind]
    graph, forwarding = Graph(), Graph()
    for name, members in zip("xyz", (x, y, z), strict=True):
        graph.add_edges_from(broadcast([*members, *at[name]]))
        forwarding.add_edges_from(broadcast([*members, *(g for g in at[name] if g in ahead)]))
    witnesses = {"ga": frozenset({"gb"}), "gc": frozenset({"gd"})}
    separators = {"Sx": frozenset({"ga", "gb"}), "Sz": frozenset({"gc", "gd"})}
    if kind == "ring":
        witnesses = {"ga": frozenset({"gb", "gc"}), "gb": frozenset({"ga", "gc"})}
        separators = {f"S{name}": frozenset(gates) for name, gates in at.items()}
    extended = Extended(graph, (*x, *y, *z), forwarding, witnesses, separators)
    groups = {"G1": x, "G2": y, "G3": z, "G4": [x[0], y[0], z[0]]}
    return GroupNetwork(f"broadcasts {kind} {size}", extended, _frozen(groups), watched=("xa", "ga"), focus="G1")


def _names(kind: str, numbers: str) -> list[str]:
    return [kind + letters(int(number) - 1) for number in numbers]


def _many(kind: str, count: int) -> list[str]:
    if count < 2:
        raise MisuseError(f"{count} processes on a broadcast network; two or more are accepted")
    return [kind + letters(position) for position in range(count)]


def _frozen(groups: Mapping[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(members) for name, members in groups.items()}
