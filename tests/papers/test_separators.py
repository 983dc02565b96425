"""Rodrigues and Veríssimo 1995, with errata 15 to 17: R9 and its conditions, order end to end, joins, chapter 7."""

from __future__ import annotations

import pytest
from support.neighbours import Changing, changing, hop_walk, unkind
from support.walk import play

from thence.core.model.order import judge
from thence.core.protocols.ech_r9 import ECHR9
from thence.errors import MisuseError
from thence.lab.explorer.setting import Variant
from thence.lab.papers.chapter7.networks import broadcasts, gateway, office
from thence.lab.papers.variants.topology import LINE, SQUARE, VARIANTS, Anywhere, Unreported
from thence.lab.topology.graph import Graph, broadcast, graph_of
from thence.lab.topology.joins import JoinResult, TopologyMembership
from thence.lab.topology.routed import Routed
from thence.lab.topology.routed_driver import drive
from thence.lab.topology.routes import Routes
from thence.lab.topology.separators import both_ways
from thence.protocols import REGISTRY

# -- errata 15: R9 -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_r9_without_its_conditions_is_unsafe(variant: Variant) -> None:
    printed = play(variant.protocol, variant.processes, variant.smallest)
    assert printed.judge("causal").violations
    assert variant.name not in REGISTRY


def test_r9_with_its_conditions_is_safe_there() -> None:
    reported, anywhere = VARIANTS
    ours = play(ECHR9, 4, reported.smallest, options={"separators": SQUARE}, drain=True)
    assert not ours.judge().violations
    assert not ours.judge().undelivered
    with pytest.raises(MisuseError, match=r"c sends to b past a separator of 'a:c\|b'; neighbours of c: a"):
        play(ECHR9, 3, anywhere.smallest, options={"separators": LINE})


def test_r9_is_safe_among_neighbours() -> None:
    """Hundreds of random executions on random graphs; filtered somewhere in most, and never wrong."""
    for seed in range(200):
        hop_walk(seed, self_addressed=seed % 3 == 0).check()


def test_random_executions_would_find_it_out() -> None:
    """The judge of the test above: the same executions without `S ⊆ C` go wrong, one in ten or so."""
    wrong = next((seed for seed in range(100) if hop_walk(seed, Unreported).judge().violations), None)
    assert wrong is not None, "no seed from 0 to 99 shows R9 without its condition failing"


def test_any_to_any_is_unsafe_with_more_processes_too() -> None:
    run = play(Anywhere, 5, "a!1>b a!2>d d<a2 d!1>e e<d1 e!1>b b<e1", options={"separators": "a:cde|b"})
    assert [(v.destination, v.missing) for v in run.judge().violations] == [("b", "a1")]


# -- errata 16: order end to end -------------------------------------------------------------------------------------


def square(routes: Routes) -> Routed:
    """s→d:M1 (by way of a); s→b:M2; b→d:M3, and what M1 still needs comes last."""
    routed = Routed(routes, "ks")
    slow = list(routed.send("s", ["d"]))
    quick = list(routed.send("s", ["b"]))
    while quick:
        quick += routed.arrive(quick.pop(0))
        if ("b", "s2") in routed.landed:
            quick += routed.send("b", ["d"])
    while slow:
        slow += routed.arrive(slow.pop(0))
    return routed


def test_order_on_every_hop_is_not_order_end_to_end() -> None:
    graph = graph_of("s-a a-d d-b b-s")
    broken = square(Routes.shortest(graph))
    assert judge(broken.hops.events).verdict == "causal"
    (violation,) = judge(broken.rows.events).violations
    assert (violation.destination, violation.missing, violation.early) == ("d", "s1", "b1")
    with pytest.raises(MisuseError, match="two ways lead from s to d"):
        Routes.fixed(graph, graph)
    for root in graph:
        repaired = square(Routes.tree(graph, root=root))
        assert judge(repaired.rows.events).verdict == judge(repaired.hops.events).verdict == "causal"


def end_to_end(routes: Routes, protocol: str, seeds: range) -> list[int]:
    """Return the seeds whose runs break causal order end to end."""
    groups = {"G": tuple(routes.forwarding), "H": ("s", "d"), "I": ("s", "b"), "J": ("b", "d")}
    found = []
    for seed in seeds:
        routed = Routed(routes, protocol)
        drive(routed, groups, seed, messages=25, rate=50.0, delay=unkind)
        if protocol != "fifo":
            assert judge(routed.hops.events).verdict == "causal", f"seed {seed}"
        if judge(routed.rows.events).violations:
            found.append(seed)
    return found


def test_the_square_in_random_runs() -> None:
    graph = graph_of("s-a a-d d-b b-s")
    assert end_to_end(Routes.shortest(graph), "ech", range(40)), "seeds 0 to 39: shortest paths never broke the order"
    assert end_to_end(Routes.tree(graph), "ech", range(60)) == []


def test_on_a_tree_of_links_fifo_hops_are_enough() -> None:
    """Beyond the paper: where nobody has two ways, order on each link is order end to end; stamps add nothing to it.
    On a broadcast network, where every process speaks to every other, they are needed."""
    tree = Routes.tree(graph_of("s-a a-d d-b b-s"))
    assert end_to_end(tree, "fifo", range(60)) == []
    lan = graph_of([*broadcast("sdbg"), ("g", "x")])
    assert end_to_end(Routes.fixed(lan, lan), "fifo", range(20)), "seeds 0 to 19: fifo never broke the order"
    assert end_to_end(Routes.fixed(lan, lan), "ech-r9", range(40)) == []


# -- section 4.4: joins ----------------------------------------------------------------------------------------------


def members_of(links: str, *sets: str) -> tuple[Graph, list]:
    graph = graph_of(links)
    return graph, [separator for members in sets for separator in both_ways(graph, members)]


class Amnesia(TopologyMembership):
    """A newcomer that takes over nothing."""

    def sources(self, join: JoinResult) -> list[str]:
        return []


class LastToFail(TopologyMembership):
    """Only the stable memory of the last member to fail is read."""

    def sources(self, join: JoinResult) -> list[str]:
        return list(self.failed)[-1:]


class Hasty(TopologyMembership):
    """A newcomer waits for nothing."""

    def owed(self, join: JoinResult) -> list[str]:
        return []


def round_trip(run: Changing, newcomer: str, *, source: str = "f", destination: str = "c") -> list[str]:
    """From ahead of the separator through the newcomer to behind it, quickly; then all the rest. The missing."""
    run.arrive(run.send(source, newcomer)[0])
    run.arrive(run.send(newcomer, destination)[0])
    return [violation.missing for violation in run.drain().violations]


def expanded(kind: type[TopologyMembership]) -> list[str]:
    """(iii) Separator {s} between {b, c} and {f}. b1 to c is slow; s knows of it and leaves it out of s1; x joins s."""
    run = Changing(kind(*members_of("b-c b-s c-s s-f", "s")))
    run.send("b", "c")
    run.arrive(run.send("b", "s")[0])
    run.arrive(run.send("s", "f")[0])
    join = run.join("x", "f", "c")
    assert join.scenario == "iii"
    return round_trip(run, "x")


def test_a_newcomer_to_a_separator_takes_over_its_history() -> None:
    assert expanded(TopologyMembership) == []
    assert expanded(Amnesia) == ["b1"]


def reconnected(kind: type[TopologyMembership], *, stable: bool) -> list[str]:
    """(iv) As before, but s has failed when x reconnects the two sides."""
    run = Changing(kind(*members_of("b-c b-s c-s s-f", "s"), stable=stable))
    run.send("b", "c")
    run.arrive(run.send("b", "s")[0])
    run.arrive(run.send("s", "f")[0])
    run.fail("s")
    join = run.join("x", "f", "c")
    assert join.scenario == "iv"
    return round_trip(run, "x")


def test_who_reconnects_takes_over_stable_memory_or_a_checkpoint() -> None:
    assert reconnected(TopologyMembership, stable=True) == []
    assert reconnected(TopologyMembership, stable=False) == []
    assert reconnected(Amnesia, stable=True) == ["b1"]


def own_message(kind: type[TopologyMembership], *, wait: bool) -> list[str]:
    """(iv) s1 to c is slow, s2 to f leaves it out, s fails: nobody alive knows of s1."""
    run = Changing(kind(*members_of("b-c b-s c-s s-f", "s")))
    (slow,) = run.send("s", "c")
    run.arrive(run.send("s", "f")[0])
    run.fail("s")
    if wait:
        with pytest.raises(MisuseError, match="x joins a separator too early: first must be delivered s1 at c"):
            run.join("x", "f", "c")
        run.arrive(slow)
    run.join("x", "f", "c")
    return round_trip(run, "x")


def test_a_checkpoint_waits_for_what_the_failed_had_sent() -> None:
    """As printed, "obtain the causal histories of all members of the backward set", it is not enough."""
    assert own_message(Hasty, wait=False) == ["s1"]
    assert own_message(TopologyMembership, wait=True) == []


def two_members(kind: type[TopologyMembership], *, second: bool, wait: bool = False, stable: bool = False) -> list[str]:
    """Separator {s, t} between {c} and {f}. s1 to c is slow, s2 tells t of it and is slow too, s3 to f leaves s1 out.
    Then s fails, and t too if `second`; x joins before t has got s2."""
    run = Changing(kind(*members_of("c-s c-t s-f t-f s-t", "st"), stable=stable))
    run.send("s", "c")
    (news,) = run.send("s", "t")
    run.arrive(run.send("s", "f")[0])
    assert ECHR9.entries(run.under_way[-1]) == 1, "s2 carries s1"
    run.fail("s")
    if second:
        run.fail("t")
    if wait:
        with pytest.raises(MisuseError, match="too early: first must be delivered s2 at t"):
            run.join("x", "f", "c")
        run.arrive(news)
    join = run.join("x", "f", "c")
    assert join.scenario == ("iv" if second else "iii")
    return round_trip(run, "x")


def test_reported_to_a_survivor_does_not_mean_known_to_it() -> None:
    """(iii) after a failure: the history of the remaining members is not enough until what was under way to them is."""
    assert two_members(Hasty, second=False) == ["s1"]
    assert two_members(TopologyMembership, second=False, wait=True) == []
    assert two_members(TopologyMembership, second=False, stable=True) == []


def test_the_memory_of_the_last_to_fail_is_not_enough() -> None:
    """(iv) The paper reads "the stable memory of the last member to fail"; all members' memories are needed."""
    assert two_members(LastToFail, second=True, stable=True) == ["s1"]
    assert two_members(TopologyMembership, second=True, stable=True) == []


def test_a_history_is_handed_over_in_the_step_that_takes_the_new_separator() -> None:
    """In between, s still leaves out what x will never hear of."""
    violations = []
    for atomic in (True, False):
        graph, separators = members_of("b-c b-s c-s s-f", "s")
        membership = TopologyMembership(graph, separators)
        run = Changing(membership)
        early = membership.members["s"].fork().hand_over()
        run.send("b", "c")
        run.arrive(run.send("b", "s")[0])
        run.arrive(run.send("s", "f")[0])
        run.join("x", "f", "c")
        if not atomic:
            again = ECHR9(membership.roster, "x", separators=membership.members["x"].separators)
            again.take_over(early)
            membership.members["x"] = again
        violations.append(round_trip(run, "x"))
    assert violations == [[], ["b1"]]


def test_random_changes_of_membership_keep_order() -> None:
    """Members of separators fail, others join, in hundreds of random runs; what the living are sent, they deliver."""
    scenarios: dict[str, int] = {}
    for seed in range(120):
        run = changing(seed)
        result = run.drain()
        assert result.verdict == "causal", f"seed {seed}: {result.violations}"
        assert not result.undelivered, f"seed {seed}: {result.undelivered}"
        for join in run.joins:
            scenarios[join.scenario] = scenarios.get(join.scenario, 0) + 1
    assert min(scenarios.get(scenario, 0) for scenario in ("i", "iii", "iv")) > 20, scenarios


def test_random_changes_would_find_out_a_newcomer_without_history() -> None:
    wrong = next((seed for seed in range(120) if changing(seed, Amnesia).drain().violations), None)
    assert wrong is not None, "no seed from 0 to 119 shows a newcomer without history going wrong"


# -- chapter 7 -------------------------------------------------------------------------------------------------------


def test_the_networks_have_the_sizes_of_the_paper() -> None:
    six, ten = office(), office(processes=10)
    assert (six.matrix, six.vectors) == (36, 10)
    assert (ten.matrix, ten.vectors) == (100, 14)
    assert six.extended.routes.path("pa", "pf") == ["pa", "na", "da", "dc", "nc", "pf"]
    assert gateway().extended.routes.path("sa", "la") == ["sa", "g", "la"]
    for kind in ("pairs", "ring"):
        network = broadcasts(kind)
        assert network.extended.at(network.extended.separators)
