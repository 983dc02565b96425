"""Routes, and messages of the application over them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import networkx as nx
import pytest
from support.neighbours import random_graph, unkind

from thence.core.model.order import judge
from thence.errors import MisuseError
from thence.lab.papers.chapter7.networks import broadcasts, office
from thence.lab.topology.extended import described
from thence.lab.topology.graph import Graph, broadcast, graph_of
from thence.lab.topology.routed import Routed
from thence.lab.topology.routed_driver import drive, requests
from thence.lab.topology.routes import Routes
from thence.lab.topology.separators import both_ways, even_separators

SQUARE = graph_of("s-a a-d d-b b-s")


def test_a_tree_has_one_way() -> None:
    routes = Routes.tree(graph_of("a-b b-c c-d d-a"), root="b")
    assert routes.path("d", "c") == ["d", "a", "b", "c"]
    assert routes.branches("b", "acdb") == {
        "a": frozenset("ad"),
        "b": frozenset("b"),
        "c": frozenset("c"),
    }


def test_broadcast_networks_in_a_tree_are_fixed_routes() -> None:
    graph = graph_of(broadcast("abg") + broadcast("gcd"))
    routes = Routes.fixed(graph, graph)
    assert routes.path("a", "d") == ["a", "g", "d"]
    assert routes.apart("a", routes.branches("a", "bcd")) == [{"b": frozenset("b"), "g": frozenset("cd")}]
    assert routes.apart("g", routes.branches("g", "abc")) == [
        {"a": frozenset("a"), "b": frozenset("b")},
        {"c": frozenset("c")},
    ]


def test_what_cannot_be_a_fixed_route_is_refused() -> None:
    with pytest.raises(MisuseError, match="two ways lead from s to d among s, a, d, b"):
        Routes.fixed(SQUARE, SQUARE)
    with pytest.raises(MisuseError, match="messages are forwarded from a to c, which no link joins"):
        Routes.fixed(graph_of("a-b b-c"), graph_of("a-c c-b"))
    with pytest.raises(MisuseError, match="c: neither in the forwarding graph nor a witness"):
        Routes.fixed(graph_of("a-b b-c"), graph_of("a-b"))
    with pytest.raises(MisuseError, match="c hears nothing that is sent to a"):
        Routes.fixed(graph_of("a-b a-c"), graph_of("a-b"), {"a": ["c"]})
    with pytest.raises(MisuseError, match="no tree can grow from w; roots may be a, b"):
        Routes.tree(graph_of("a-b b-w"), root="w", witnesses={"a": ["w"]})
    with pytest.raises(MisuseError, match="no way leads to w; messages can go to a, b"):
        Routes.tree(graph_of("a-b b-w"), witnesses={"a": ["w"]}).branches("a", ["w"])


def test_the_chain_of_chapter_7() -> None:
    """p1 → n1 → {d1, d2} → d3 → n3 → p6, and d2 passes nothing on."""
    routed = Routed(office().extended.routes)
    under_way = list(routed.send("pa", ["pf"]))
    while under_way:
        under_way += routed.arrive(under_way.pop(0))
    chain = [(e.process, e.destinations) for e in routed.hops.events if e.kind == "send"]
    assert chain == [("pa", ("na",)), ("na", ("da", "db")), ("da", ("dc",)), ("dc", ("nc",)), ("nc", ("pf",))]
    assert [(e.run, e.process, e.kind, e.message) for e in routed.rows.events] == [
        ("run", "pa", "send", "pa1"),
        ("run", "pf", "deliver", "pa1"),
    ]
    assert {e.run for e in routed.hops.events} == {"run/hops"}
    assert all(e.bytes for e in routed.hops.events if e.kind != "send")


def test_misuse_of_routed_messages() -> None:
    routes = office().extended.routes
    routed = Routed(routes)
    with pytest.raises(MisuseError, match="a message of pa names db, not in the graph"):
        routed.send("pa", ["db"])
    with pytest.raises(MisuseError, match="pa sends to no process"):
        routed.send("pa", [])
    with pytest.raises(MisuseError, match="protocol bss needs broadcast only, which routing"):
        Routed(routes, "bss")
    with pytest.raises(MisuseError, match="protocol ks has no option 'separators'"):
        Routed(routes, "ks", separators=office().extended.at(["S2"]))
    with pytest.raises(MisuseError, match="rate 0; messages per second above 0"):
        next(requests({"G": "ab"}, 0, Random(0)))
    with pytest.raises(MisuseError, match="group G holds a; a group has at least two members"):
        next(requests({"G": "a"}, 1, Random(0)))


def judged(routed: Routed, about: str) -> None:
    """Both orders, by definition: of the application's messages and of the hops."""
    for rows in (routed.rows, routed.hops):
        result = judge(rows.events)
        assert result.verdict == "causal", f"{about}: {result.violations}"
        assert not result.undelivered, f"{about}: {result.undelivered}"
        assert not result.duplicates, about
        assert not result.misdelivered, about
    assert not routed.pending(), about


def random_groups(names: list[str], rng: Random) -> dict[str, tuple[str, ...]]:
    return {f"G{n}": tuple(rng.sample(names, rng.randint(2, min(4, len(names))))) for n in range(rng.randint(1, 5))}


@pytest.mark.parametrize("protocol", ["ech-r9", "ech", "ks"])
def test_end_to_end_order_on_random_trees(protocol: str) -> None:
    for seed in range(50):
        rng = Random(f"tree {seed}")
        graph = random_graph(rng)
        separators = [s for members in even_separators(graph) for s in both_ways(graph, members)]
        filtered = separators if protocol == "ech-r9" else []
        routed = Routed(Routes.tree(graph), protocol, separators=filtered, together=seed % 3 == 0)
        groups = random_groups(list(graph), rng)
        drive(routed, groups, seed, messages=25, rate=50.0, delay=unkind)
        judged(routed, f"{protocol}, seed {seed}, {sorted(graph.edges)}, {groups}")


NETWORKS: dict[str, Callable[[], object]] = {
    "office": office,
    "office shared": lambda: office("ring 2-2-2 shared"),
    "office 10": lambda: office("ring 3-1-2", 10),
    "pairs": lambda: broadcasts("pairs", 3),
    "ring": lambda: broadcasts("ring", 3),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_end_to_end_order_with_witnesses(name: str) -> None:
    """Chapter 7's networks, where other members of a separator hear everything and forward nothing."""
    network = NETWORKS[name]()
    extended = network.extended
    for seed in range(14):
        routed = Routed(extended.routes, separators=extended.at(extended.separators), together=seed % 3 == 0)
        drive(routed, network.groups, seed, messages=25, rate=50.0, delay=unkind)
        judged(routed, f"{name}, seed {seed}")


def test_a_run_is_a_function_of_its_seed() -> None:
    def rows(seed: int) -> list:
        network = office()
        routed = Routed(network.extended.routes)
        drive(routed, network.groups, seed, messages=20)
        return routed.events

    assert rows(1) == rows(1)
    assert rows(1) != rows(2)


def test_self_addressed_messages_travel_too() -> None:
    routed = Routed(described({"nodes": {"na": ["pa", "pb"], "nb": ["pc"]}}).routes)
    under_way = list(routed.send("pa", ["pa", "pc"]))
    while under_way:
        under_way += routed.arrive(under_way.pop())
    judged(routed, "self-addressed")
    assert sum(e.kind == "deliver" for e in routed.rows.events) == 2


def test_forwarding_graphs_of_complete_blocks_have_one_shortest_path() -> None:
    """What `Routes.fixed` admits: by definition, one shortest path between any two."""
    for seed in range(40):
        graph = random_graph(Random(seed))
        try:
            Routes.fixed(graph, graph)
        except MisuseError:
            continue
        assert all(len(list(nx.all_shortest_paths(graph, a, b))) == 1 for a in graph for b in graph), f"seed {seed}"
    assert isinstance(Routes.shortest(SQUARE).graph, Graph)
