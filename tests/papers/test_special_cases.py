"""KS98 section 7.1: what special cases save, shown on our protocols, and where the short text leaves a trap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from support.definition import needless
from support.some import some
from support.walk import Walk, assert_in_order, destinations_for, play, start, walk

from thence.core.model.message import MESSAGE, Copy
from thence.core.model.order import Execution
from thence.core.model.roster import Roster
from thence.core.protocols.hierarchy import read_zones
from thence.core.protocols.serial_broadcast import SerialBroadcast
from thence.core.wire.dependency_log_cy import Log
from thence.core.wire.sets import rename_mask
from thence.errors import MisuseError, PeerError
from thence.lab.papers.variants.serial import LogAlone, OwnIsAwaited, OwnIsDelivered
from thence.protocols import REGISTRY, Deferred, Deliver, Sent, create

SERIAL = ("serial-broadcast", "serial-multicast")
UNICAST = ("synchronous", "acked")
RELAYED = ("central", "hierarchy")
SPECIAL = (*SERIAL, *UNICAST, "two-hop", *RELAYED)
CHANGING = {"central": {"coordinator": "b"}, "hierarchy": {"zones": "ac|bd"}}


def walks(name: str, seeds: int = 90) -> Iterator[Walk]:
    """Random executions of all kinds: 2 to 6 processes, FIFO or not, self-addressed, repeated, twins, as bytes."""
    for seed in range(seeds):
        yield walk(
            name,
            2 + seed % 5,
            5 + seed % 40,
            seed,
            fifo=seed % 3 == 0,
            self_addressed=seed % 2 == 0,
            duplicates=seed % 4 == 0,
            twins=0.1,
            wire=seed % 2 == 1,
        )


@pytest.mark.parametrize("name", SPECIAL)
def test_keeps_its_promise(name: str) -> None:
    for run in some(walks(name)):
        run.check()
        if REGISTRY[name].waits == "causes only":
            assert not needless(run.events), f"needless waiting in {run}"


LEVELS = {
    "three": "(ac|bd)|(eg|fh)",
    "three, some alone": "(h|gf|e)|(d)|(cba)",
    "four": "((ab|c)|(d|e))|((f|g|h))",
    "eight": "((((((ab|cd)))))|(((((e|f))))))|((((((gh))))))",
}


@pytest.mark.parametrize("zones", LEVELS.values(), ids=LEVELS)
def test_hierarchies_of_more_levels_keep_their_promise(zones: str) -> None:
    """KS98 7.1, representatives of representatives: any order, repeats, twins from snapshots, as bytes, labels."""
    for seed in range(12):
        run = walk(
            "hierarchy", 8, 10 + 5 * seed, seed, fifo=seed % 3 == 0, self_addressed=seed % 2 == 0,
            duplicates=seed % 4 == 0, twins=0.1, wire=True, labels=(None, "red"), options={"zones": zones},
        )  # fmt: skip
        run.check()
        assert {"lift"} <= {copy.kind for copy in run.others} <= {"request", "lift"}
        assert all(not member.pending() and not member.carried for member in run.members)  # type: ignore[attr-defined]


def test_a_message_takes_as_many_hops_as_levels_allow() -> None:
    """With k levels, a message crosses at most 2k - 1 hops."""
    for zones, most in (("ab|cd", 3), ("(ab|c)|(de|f)", 5), ("((ab|c)|(d))|((ef|g))", 7)):
        names = sorted(set(zones) - set("()|"))
        members = {name: create("hierarchy", names, name, zones=zones) for name in names}
        sent = members["b"].send([names[-1], "e" if "e" in names else "d"])
        assert isinstance(sent, Sent)
        hops, copies = 0, list(sent.copies)
        while copies:
            hops += 1
            effects = [effect for copy in copies for effect in members[names[copy.destination]].receive(copy)]
            copies = [copy for effect in effects for copy in getattr(effect, "copies", ())]
        assert hops <= most


def test_what_a_lift_cannot_say() -> None:
    """A lift is refused unless it brings the message it names, from whom it came, to a level that has lifts."""
    zones = "(ab|c)|(de|f)"
    a, c = (create("hierarchy", "abcdef", name, zones=zones) for name in "ac")
    (request,) = c.send(["a"]).copies  # type: ignore[union-attr]
    assert request.kind == "lift"
    for wrong, text in (
        (replace(request, stamp=replace(request.stamp, sender=0)), "brings another message than it names"),
        (replace(request, stamp=replace(request.stamp, source=3)), "brings another message than it names"),
        (replace(request, stamp=replace(request.stamp, label="red")), "brings another message than it names"),
        (replace(request, stamp=replace(request.stamp, destination=3)), "came to position 0"),
        (replace(request, kind="relay", stamp=(1, 1, Log())), "a relay of c1 came to a level that has none"),
    ):
        before = a.snapshot()
        with pytest.raises(PeerError, match=text):
            a.receive(wrong)
        assert a.snapshot() == before
    flat = create("hierarchy", "abcdef", "a", zones="abc|def")
    with pytest.raises(PeerError, match="a lift of c1 came to a level that has none"):
        flat.receive(request)


@pytest.mark.parametrize(
    ("zones", "text"),
    [
        ("(ab|c)|d", "must have as many levels everywhere"),
        ("(ab", r"'\(ab' is not a zone; abc\|def and \(ab\|cd\)\|\(ef\|g\) are accepted, up to 8 levels"),
        ("()|abcd", "'' is not a zone"),
        (f"{'(' * 7}abcd{')' * 7}", "up to 8 levels"),
        ("(ab|b)|(c|d)", "must hold each of a, b, c, d once"),
    ],
)
def test_zones_that_are_not_accepted(zones: str, text: str) -> None:
    with pytest.raises(MisuseError, match=text):
        create("hierarchy", "abcd", "a", zones=zones)


@pytest.mark.parametrize("name", SPECIAL)
def test_keeps_its_promise_over_hundreds_of_messages(name: str) -> None:
    for seed in range(2):
        walk(name, 5 + 4 * seed, 120 if name == "two-hop" else 300, seed, wire=True).check()


@pytest.mark.parametrize("name", ["serial-broadcast", "serial-multicast", *RELAYED[:1]])
def test_one_order_for_all(name: str) -> None:
    """Serialized messages are delivered in one order wherever two processes get the same ones."""
    for run in some(walks(name, 60)):
        execution = Execution(run.events)
        delivered = {process: execution.delivered(process) for process in run.roster}
        for one in some(delivered.values()):
            for other in some(delivered.values()):
                assert [m for m in one if m in other] == [m for m in other if m in one], f"{run}"


@pytest.mark.parametrize("name", [n for n in SPECIAL if REGISTRY[n].receive_only])
def test_the_receiver_alone_replays_in_any_order(name: str) -> None:
    """What was recorded on the way to a process suffices to deliver it in order, whatever order it is read in."""
    for seed in range(40):
        run = walk(name, 4, 30, seed)
        for place, process in some(enumerate(run.roster)):
            arrived = [copy for copy in run.copies if copy.destination == place]
            Random(seed).shuffle(arrived)
            alone = REGISTRY[name].protocol.alone(run.roster, place)  # type: ignore[attr-defined]
            got = [e.copy for copy in arrived for e in alone.receive(copy) if isinstance(e, Deliver)]
            assert len(got) == len(arrived), f"{run}"
            assert_in_order(run, process, [run.name(copy) for copy in got], REGISTRY[name].guarantee)


class Bag:
    """A network from which copies are taken by what they are."""

    def __init__(self) -> None:
        self.copies: list[Copy] = []

    def put(self, copy: Copy) -> None:
        self.copies.append(copy)


@pytest.mark.parametrize("name", [*SPECIAL, "gossip", "epochs", "bounded"])
def test_states_follow_a_renaming(name: str) -> None:
    """Two runs that differ in the names of the processes alone: renaming the states of one gives those of the other."""
    size, rename = 4, (2, 0, 3, 1)
    needs = REGISTRY[name].needs
    fanout = "broadcast" if "broadcast only" in needs else "unicast" if "unicast only" in needs else "uniform"
    options: dict[str, Any] = CHANGING.get(name, {"bound": 2} if name == "bounded" else {})
    letters = str.maketrans("abcd", "".join("abcd"[new] for new in rename))
    moved = {key: value.translate(letters) if isinstance(value, str) else value for key, value in options.items()}
    for seed in range(15):
        rng = Random(seed)
        one = start(name, size, rng, options=options, about=f"seed {seed}")
        two = start(name, size, rng, options=moved)
        bags = one.network, two.network = Bag(), Bag()  # type: ignore[assignment]
        for _ in range(60):
            if bags[0].copies and rng.random() < 0.6:
                copy = bags[0].copies.pop(rng.randrange(len(bags[0].copies)))
                key = (rename[copy.sender], copy.count, rename[copy.source], rename[copy.destination], copy.kind)
                place = next(
                    i
                    for i, c in enumerate(bags[1].copies)
                    if (c.sender, c.count, c.source, c.destination, c.kind) == key
                )
                one.arrive(copy)
                two.arrive(bags[1].copies.pop(place))
                here = copy.destination
            else:
                here = rng.randrange(size)
                mask = destinations_for(rng, fanout, size, here, self_addressed=True)
                one.send(here, mask)
                two.send(rename[here], rename_mask(mask, rename))
            assert one.members[here].state(rename) == two.members[rename[here]].state(), f"{one}"
            assert hash(one.members[here].state(rename)) is not None


# -- serialized ------------------------------------------------------------------------------------------------------


def test_serialized_broadcasts_carry_one_entry_and_multicasts_n() -> None:
    run = walk("serial-broadcast", 6, 30, 0)
    counts = Counter(map(SerialBroadcast.entries, run.copies))
    assert counts[0] + counts[1] == 30 * 5
    assert counts[0] == 5 + 1  # the first broadcast, and the second on its way to the first one's sender
    run = walk("serial-multicast", 6, 30, 0)
    assert {type(run.members[0]).entries(copy) for copy in run.copies} == {6}
    for copy in run.copies:
        facts = type(run.members[0]).dependencies(copy) or []
        assert sum(mask.bit_count() for _, mask in facts) == type(run.members[0]).facts(copy)


def test_the_broadcast_before_may_be_ones_own() -> None:
    """b broadcasts before it has delivered a1. c delivers both and broadcasts; at b its predecessor is b's own."""
    script = "a!1>bc b!1>ac c<a1 c<b1 c!1>ab b<c1"
    naive = play(OwnIsDelivered, 3, script)
    assert [(v.early, v.missing) for v in naive.judge().violations] == [("c1", "a1")]
    assert play(OwnIsAwaited, 3, script, drain=True).stuck
    ours = play("serial-broadcast", 3, script)
    (held,) = ours.members[1].pending()
    assert (held.message, [str(cause) for cause in held.waits_for]) == ("c1", ["a1"])
    play("serial-broadcast", 3, script, drain=True).check()


def test_so_it_may_several_times_in_a_row() -> None:
    script = "a!1>bc b!1>ac b!2>ac c<a1 c<b1 c<b2 c!1>ab b!3>ac c<b3 c!2>ab b<c2 b<c1"
    run = play("serial-broadcast", 3, script)
    assert [e.message for e in run.events if e.process == "b" and e.kind == "deliver"] == []
    play("serial-broadcast", 3, script, drain=True).check()


def test_mutual_exclusion_alone_is_not_enough() -> None:
    """b sends after a, but has not heard of a1: nothing orders them at c, and d keeps the later one only."""
    script = "a!1>cd b!1>cd d<a1 d<b1 d!1>c c<b1 c<d1"
    naive = play(LogAlone, 4, script)
    assert [(v.early, v.missing) for v in naive.judge().violations] == [("d1", "a1")]
    ours = play("serial-multicast", 4, script)
    assert [p.message for p in ours.members[2].pending()] == ["b1", "d1"]
    play("serial-multicast", 4, script, drain=True).check()


@pytest.mark.parametrize("name", SERIAL)
def test_a_token_is_needed_and_must_be_the_latest(name: str) -> None:
    a, b = (create(name, "abc", process) for process in "ab")
    first = a.send(["b", "c"])
    assert isinstance(first, Sent)
    for copy in first.copies:
        if copy.destination == 1:
            b.receive(copy)
    with pytest.raises(MisuseError, match="token is missing"):
        a.send(["b", "c"])
    with pytest.raises(MisuseError, match="token is missing"):
        b.send(["a", "c"])
    second = b.send(["a", "c"], token=first.token)
    assert isinstance(second, Sent)
    third = b.send(["a", "c"], token=second.token)
    assert isinstance(third, Sent)
    with pytest.raises(MisuseError, match=r"latest|is of send"):
        b.send(["a", "c"], token=second.token)
    for wrong in (7, "token", (), ((9, 9), None, 3), (1, 2)):
        with pytest.raises(MisuseError, match="serialized sends"):
            b.send(["a", "c"], token=wrong)
    assert isinstance(a.send(["b", "c"], token=third.token), Sent)


def test_a_broadcast_goes_to_all_others() -> None:
    with pytest.raises(MisuseError, match="broadcast only"):
        create("serial-broadcast", "abc", "a").send(["b"])
    with pytest.raises(MisuseError, match="broadcast only"):
        create("serial-broadcast", "abc", "a").send(["a", "b", "c"])


# -- one at a time ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", UNICAST)
def test_no_control_information_and_one_copy_on_its_way(name: str) -> None:
    for seed in range(30):
        rng = Random(seed)
        run = start(name, 4, rng, about=f"seed {seed}")
        for _ in range(60):
            if run.network and rng.random() < 0.5:
                run.arrive(run.network.take())
            else:
                sender = rng.randrange(4)
                run.send(sender, destinations_for(rng, "unicast", 4, sender, self_addressed=True))
            away = [copy for lane in run.network.lanes.values() for copy in lane if copy.kind == MESSAGE]
            assert max(Counter(copy.source for copy in away).values(), default=0) <= 1, f"{run}"
        assert {type(run.members[0]).entries(copy) for copy in run.copies} == {0}
        assert not run.holds


def test_synchronous_sends_wait_for_the_delivery_of_the_one_before() -> None:
    run = play("synchronous", 3, "a!1>b a!2>c a!3>b")
    assert [(p.what, p.message, p.processes, p.ticket) for p in run.members[0].pending()] == [
        ("send", None, ("b",), 1),
        ("send", None, ("b",), 2),
    ]
    assert run.members[0].pending()[0].reason == "b has not acknowledged a1"
    for _ in range(2):  # a1 at b, its acknowledgement at a
        run.arrive(run.network.oldest())
    assert [e.message for e in run.events if e.kind == "send"] == ["a1", "a2"]
    assert run.members[0].pending()[0].processes == ("c",)


def test_acked_sends_go_on_and_copies_wait_in_the_output_buffer() -> None:
    run = play("acked", 3, "a!1>c a!2>b a!3>c")
    assert [e.message for e in run.events if e.kind == "send"] == ["a1", "a2", "a3"]
    assert [run.name(copy) for copy in run.copies] == ["a1"]
    assert [(p.message, p.processes) for p in run.members[0].pending()] == [("a2", ("c",)), ("a3", ("c",))]
    for _ in range(2):  # a1 at c, its acknowledgement at a
        run.arrive(run.network.oldest())
    assert [run.name(copy) for copy in run.copies] == ["a1", "a2"]


@pytest.mark.parametrize("name", UNICAST)
def test_unicast_only(name: str) -> None:
    with pytest.raises(MisuseError, match="unicast only"):
        create(name, "abc", "a").send(["b", "c"])


@pytest.mark.parametrize("name", UNICAST)
def test_an_acknowledgement_counts_once(name: str) -> None:
    run = play(name, 2, "a!1>b a!2>b a!3>b b<a1")
    (ack,) = run.others
    run.arrive(run.network.oldest())
    before = run.members[0].state()
    run.arrive(ack)
    assert run.members[0].state() == before


# -- chains of two ---------------------------------------------------------------------------------------------------


def test_chains_of_two_are_kept_and_chains_of_three_are_not() -> None:
    """Theorem 8: a chain of three would need n² entries."""
    three = play("two-hop", 4, "a!1>d a!2>b b<a2 b!1>c c<b1 c!1>d d<c1")
    assert not three.judge("two-hop").violations
    assert [(v.early, v.missing) for v in three.judge("causal").violations] == [("c1", "a1")]
    two = play("two-hop", 3, "a!1>c a!2>b b<a2 b!1>c c<b1")
    assert [str(cause) for cause in two.members[2].pending()[0].waits_for] == ["a1"]


def test_a_multicast_counts_for_all_its_destinations() -> None:
    run = play("two-hop", 3, "a!1>bc b<a1 b!1>c c<b1")
    assert [str(cause) for cause in run.members[2].pending()[0].waits_for] == ["a1"]


def test_two_hop_carries_two_rows_and_breaks_causal_order_somewhere() -> None:
    runs = [walk("two-hop", 5, 60, seed) for seed in range(20)]
    assert {type(run.members[0]).entries(copy) for run in runs for copy in run.copies} == {2 * 5}
    assert any(run.judge("causal").violations for run in runs)
    for copy in runs[0].copies:
        facts = type(runs[0].members[0]).dependencies(copy) or []
        assert sum(mask.bit_count() for _, mask in facts) == type(runs[0].members[0]).facts(copy)
        assert len(facts) <= 2 * 5


# -- coordinators ----------------------------------------------------------------------------------------------------


def test_a_message_goes_by_the_coordinator() -> None:
    run = play("central", 3, "b!1>ac a<b1", options={"coordinator": "a"})
    (request,) = run.others
    assert (request.kind, request.source, request.destination) == ("request", 1, 0)
    assert [(c.sender, c.source, c.destination, c.kind) for c in run.copies] == [(1, 0, 0, MESSAGE), (1, 0, 2, MESSAGE)]


def test_requests_are_taken_in_their_order() -> None:
    run = play("central", 3, "b!1>c b!2>c a<b2")
    assert not run.copies
    (early,) = run.members[0].pending()
    assert (early.message, [str(cause) for cause in early.waits_for]) == ("b2", ["b1"])
    run.arrive(run.network.find(run.name, "b1", 0))
    assert [run.name(copy) for copy in run.copies] == ["b1", "b2"]
    run.arrive(run.network.find(run.name, "b2", 2))
    (held,) = run.members[2].pending()
    assert (held.message, [str(cause) for cause in held.waits_for]) == ("b2", ["b1"])


def test_every_coordinator_does() -> None:
    for seed in range(20):
        walk("central", 4, 40, seed, options={"coordinator": "abcd"[seed % 4]}, self_addressed=True, twins=0.1).check()
    with pytest.raises(MisuseError, match="no process 'z'"):
        create("central", "abc", "a", coordinator="z")


def test_a_request_to_somebody_else_is_refused() -> None:
    sent = create("central", "abc", "b").send(["c"])
    assert isinstance(sent, Sent)
    with pytest.raises(PeerError, match="the coordinator of b is a"):
        create("central", "abc", "c").receive(sent.copies[0])


@pytest.mark.parametrize("zones", ["abcdefg", "a|b|c|d|e|f|g", "ab|cdefg", "gf|ed|cba", "da|b|gc|ef"])
def test_any_zones_do(zones: str) -> None:
    for seed in range(8):
        run = walk("hierarchy", 7, 60, seed, options={"zones": zones}, self_addressed=True, twins=0.05, wire=True)
        run.check()


def test_zones_as_text() -> None:
    roster = Roster("abcdefghij")
    assert read_zones(roster, "") == [[0, 0, 0, 3, 3, 3, 6, 6, 6, 6]]
    assert read_zones(roster, "cab|defghij") == [[2, 2, 2, 3, 3, 3, 3, 3, 3, 3]]
    assert read_zones(Roster(["aa", "b", "cc"]), "aa,b|cc") == [[0, 0, 2]]
    assert read_zones(Roster(["aa"]), "") == [[0]]
    assert read_zones(Roster.of(7), "(ab|cd)|(ef|g)") == [[0, 0, 2, 2, 4, 4, 6], [0, 1, 0, 3, 4, 5, 4]]
    for zones in ("abc|def", "abcdefghij|a", "abcde|fghij|", "abcdefghiz"):
        with pytest.raises(MisuseError):
            create("hierarchy", roster, "a", zones=zones)


def test_representatives_run_ks_among_themselves() -> None:
    """b asks a, a tells its zone and d, d tells its zone; a copy to a process carries one entry at most."""
    run = play("hierarchy", 6, "b!1>cef a<b1", options={"zones": "abc|def"}, drain=True)
    run.check()
    hops = [(c.kind, c.source, c.destination) for c in [*run.others, *run.copies]]
    assert hops == [("request", 1, 0), ("relay", 0, 3), (MESSAGE, 0, 2), (MESSAGE, 3, 4), (MESSAGE, 3, 5)]
    long = walk("hierarchy", 9, 200, 1)
    protocol = type(long.members[0])
    assert max(map(protocol.entries, long.copies)) == 1
    representatives = 3
    relays = [copy for copy in long.others if copy.kind == "relay"]
    assert max(protocol.facts(copy) or 0 for copy in relays) <= representatives**2


def test_a_relay_waits_for_earlier_relays() -> None:
    """a tells zones b and c; b, having heard, tells c: at c the second relay comes first."""
    run = play("hierarchy", 3, "a!1>bc b<a1 b<a1 b!1>c c<b1", options={"zones": "a|b|c"})
    (held,) = run.members[2].pending()
    assert (held.message, held.processes, held.waits_for) == ("b1", ("a",), ())
    assert "relay" in held.reason
    done = play("hierarchy", 3, "a!1>bc b<a1 b<a1 b!1>c c<b1", options={"zones": "a|b|c"}, drain=True)
    assert [m for p, m in done.delivered if p == "c"] == ["a1", "b1"]


@pytest.mark.parametrize("name", SPECIAL)
def test_no_contexts_and_a_fixed_membership(name: str) -> None:
    member = create(name, "ab", "a")
    with pytest.raises(MisuseError, match="context"):
        member.send(["b"], context={})
    with pytest.raises(MisuseError, match="fixed membership"):
        member.join("c")


def test_deferral_is_told_at_the_send() -> None:
    member = create("synchronous", "abc", "a")
    member.send(["b"])
    second = member.send(["c"])
    assert isinstance(second, Deferred)
    assert second.waits_for == ("b",)
