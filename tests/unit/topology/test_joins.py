"""Which scenario of section 4.4 a join is, what it changes, and what it is refused for."""

from __future__ import annotations

from random import Random

import networkx as nx
import pytest
from support.neighbours import Changing, random_graph, random_separators, unkind

from thence.core.model.order import judge
from thence.core.protocols.ech_r9 import ECHR9
from thence.errors import MisuseError
from thence.lab.papers.chapter7.networks import office
from thence.lab.topology.extended import Extended
from thence.lab.topology.graph import Graph, graph_of
from thence.lab.topology.joins import TopologyMembership, with_witnesses
from thence.lab.topology.routed import Routed
from thence.lab.topology.routed_driver import drive
from thence.lab.topology.separators import Separator, both_ways, check_separator, given


def line(*, stable: bool = False) -> TopologyMembership:
    """a - b - c - d, with {b} and {c} as separators."""
    graph = graph_of("a-b b-c c-d")
    return TopologyMembership(graph, [given(graph, "b", "a"), given(graph, "c", "d")], stable=stable)


@pytest.mark.parametrize(
    ("links", "scenario", "separators"),
    [
        ("a", "i", {"b:a,x|c,d", "c:d|a,b,x"}),
        ("ab", "i", {"b:a,x|c,d", "c:d|a,b,x"}),
        ("bc", "i", {"b:a|c,d,x", "c:d|a,b,x"}),
        ("ac", "iii", {"b,x:a|c,d", "c:d|a,b,x"}),
        ("ad", "iii", {"b,x:a|c,d", "c,x:d|a,b"}),
    ],
)
def test_scenarios_among_the_living(links: str, scenario: str, separators: set[str]) -> None:
    membership = line()
    join = membership.join("x", links)
    assert join.scenario == scenario
    assert {str(separator) for separator in join.separators} == separators
    for separator in membership.separators:
        check_separator(membership.graph, separator)
    assert membership.members["x"].separators == membership.members["a"].separators
    membership.members["x"].send(list(links))


def test_reconnecting_after_a_separator_failed() -> None:
    membership = line(stable=True)
    membership.fail("b")
    join = membership.plan("x", "ac")
    assert (join.scenario, membership.sources(join)) == ("iv", ["b"])
    membership.join("x", "ac")
    assert {str(separator) for separator in membership.separators} == {"b,x:a|c,d", "c:d|a,b,x"}
    membership.members["a"].send(["x"])
    with pytest.raises(MisuseError, match="b left; a send cannot name them"):
        membership.members["a"].send(["b"])


def test_a_checkpoint_asks_all_of_both_sides() -> None:
    membership = line()
    membership.fail("b")
    assert membership.sources(membership.plan("x", "ac")) == ["a", "c", "d"]


def two_parts(seed: int, rng: Random) -> TopologyMembership:
    """Two graphs that were never linked; the separators of the first know nothing of where the second will be."""
    first, second = random_graph(rng), random_graph(rng)
    graph = Graph()
    graph.add_nodes_from(first)
    graph.add_edges_from(first.edges)
    other = nx.relabel_nodes(second, {name: f"z{name}" for name in second})
    graph.add_nodes_from(other)
    graph.add_edges_from(other.edges)
    separators = [
        Separator(s.members, s.forward | set(other), s.backward)
        for members in {s.members for s in random_separators(first, rng, 3)}
        for s in both_ways(first, members)
    ]
    return TopologyMembership(graph, separators)


def test_linking_what_was_never_linked() -> None:
    """(ii): a new separator, and no history needed; random traffic before and after keeps its order."""
    for seed in range(40):
        rng = Random(f"never linked {seed}")
        membership = two_parts(seed, rng)
        run = Changing(membership, rng, slow=0.3)
        for _ in range(20):
            run.step()
        one, two = (rng.choice([n for n in membership.members if n.startswith("z") == far]) for far in (False, True))
        join = run.join("x", one, two)
        assert join.scenario == "ii", f"seed {seed}"
        assert Separator in {type(s) for s in join.separators if s.members == {"x"}}
        for separator in membership.separators:
            check_separator(membership.graph, separator)
        run.tour(one, "x", two, "x", one)
        for _ in range(30):
            run.step()
        result = run.drain()
        assert result.verdict == "causal", f"seed {seed}: {result.violations}"
        assert not result.undelivered, f"seed {seed}"


def test_misuse() -> None:
    membership = line()
    with pytest.raises(MisuseError, match="b was here before"):
        membership.join("b", "a")
    with pytest.raises(MisuseError, match="the links of x names y, not in the graph"):
        membership.join("x", "ay")
    with pytest.raises(MisuseError, match="x is linked to no process; it needs links to the living: a, b, c, d"):
        membership.join("x", "")
    membership.fail("b")
    with pytest.raises(MisuseError, match="x is linked to b; it needs links to the living: a, c, d"):
        membership.join("x", "ab")
    with pytest.raises(MisuseError, match="b cannot fail; alive are a, c, d"):
        membership.fail("b")
    with pytest.raises(MisuseError, match="b was here before; a process that comes back after a failure needs"):
        membership.join("b", "a")


def test_witnesses_for_f_faults() -> None:
    extended = office().extended
    for faults, expected in ((0, {"dc"}), (1, {"dc", "wa"}), (2, {"dc", "wa", "wb"})):
        grown = with_witnesses(extended, "S2", faults)
        assert grown.separators["S2"] == expected
        assert grown.routes.addressed("da", "dc") == expected
        assert grown.routes.addressed("nc", "dc") == expected
        for separator in grown.at(grown.separators):
            check_separator(grown.graph, separator)
    assert with_witnesses(extended, "S1", 1).separators["S1"] == {"da", "db"}
    with pytest.raises(MisuseError, match="no separator 'S9'; there are S1, S2, S3"):
        with_witnesses(extended, "S9", 1)
    with pytest.raises(MisuseError, match="-1 faults; 0 or more"):
        with_witnesses(extended, "S1", -1)
    with pytest.raises(MisuseError, match="a process pa is in the graph already"):
        with_witnesses(extended, "S2", 1, kind="p")


def test_witnesses_keep_order_and_their_histories_small() -> None:
    network = office()
    grown = with_witnesses(network.extended, "S2", 2)
    for seed in range(6):
        routed = Routed(grown.routes, separators=grown.at(grown.separators))
        drive(routed, network.groups, seed, messages=40, rate=50.0, delay=unkind)
        assert judge(routed.rows.events).verdict == judge(routed.hops.events).verdict == "causal", f"seed {seed}"
        assert routed.member("wa").log_size() < 40, f"seed {seed}"


@pytest.mark.parametrize(("takes_over", "missing"), [(True, []), (False, ["b1"])])
def test_a_newcomer_loads_what_was_witnessed(takes_over: bool, missing: list[str]) -> None:
    """f + 1 members, f failures: the one that is left hands over what the failed router knew, so (iv) never comes."""
    graph = graph_of("b-c b-s c-s s-f")
    extended = with_witnesses(Extended(graph, ("b", "c", "f"), graph, {}, {"S": frozenset("s")}), "S", 1)
    assert extended.separators["S"] == {"s", "wa"}
    run = Changing(TopologyMembership(extended.graph, extended.at(["S"])))
    run.send("b", "c")  # slow
    for copy in run.send("b", "s", "wa"):
        run.arrive(copy)
    (copy,) = run.send("s", "f")
    assert [ECHR9.dependencies(copy)[0][0].count] == [2], "b1 is left out of s1, b2 to the separator is not"
    run.arrive(copy)
    run.fail("s")
    join = run.membership.plan("x", "cf")
    assert (join.scenario, run.membership.sources(join)) == ("iii", ["wa"])
    run.join("x", "c", "f")
    if not takes_over:
        run.membership.members["x"] = ECHR9(
            run.membership.roster, "x", separators=run.membership.members["b"].separators
        )
    run.tour("f", "x", "c")
    assert [violation.missing for violation in run.drain().violations] == missing
