"""Krishnamurthy and Mukund: Protocols 2 to 4, their claims, and where the printed text fails (errata 11, 22-24)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil, log2
from random import Random
from typing import ClassVar

import pytest
from support.definition import needless
from support.soak import first
from support.some import some
from support.walk import Walk, assert_in_order, destinations_for, play, start, walk

from thence.core.model.events import render
from thence.core.model.message import MESSAGE, Copy
from thence.core.model.roster import Roster
from thence.core.protocols.bounded import Bounded
from thence.core.protocols.epochs import Epochs, ThreeEpochs
from thence.core.protocols.gossip import Gossip, GossipReceiver
from thence.core.protocols.timestamp_vectors import PackedRow
from thence.core.protocols.wire import HEADER_BYTES, encode
from thence.core.wire.reader_cy import Reader
from thence.errors import MisuseError, PeerError
from thence.lab.explorer.search import explore
from thence.lab.explorer.setting import Setting, Variant
from thence.lab.papers.variants.bounded import VARIANTS, NeverAged, OwnDelivKept, OwnSentKept
from thence.protocols import REGISTRY, Deferred, Deliver, Effect, Member, create

FAMILY = ("gossip", "epochs", "bounded")
SEEDS = 100


def turns(number: int, *, first: str = "b!1>a a<b1 a!1>b b<a1") -> str:
    """Errata 22: so many turns a, c, b, a; then a message of a to b is delayed, and what follows it comes round."""
    counts = {"a": 1, "b": 1, "c": 0}
    script = [first]

    def send(sender: str, to: str, *, arrives: bool = True) -> None:
        counts[sender] += 1
        script.append(f"{sender}!{counts[sender]}>{to}" + (f" {to}<{sender}{counts[sender]}" if arrives else ""))

    for _ in range(number):
        send("a", "c")
        send("c", "b")
        send("b", "a")
    send("a", "b", arrives=False)
    send("a", "c")
    send("c", "b")
    return " ".join(script)


def walks(protocol: str | type[Epochs], seeds: int = SEEDS, *, messages: int = 40) -> Iterator[Walk]:
    """Random executions of all kinds: 2 to 5 processes, FIFO or not, self-addressed, repeated, twins, as bytes."""
    for seed in range(seeds):
        yield walk(
            protocol,
            2 + seed % 4,
            5 + seed % messages,
            seed,
            fanout="unicast" if seed % 5 == 0 else "uniform",
            fifo=seed % 3 == 0,
            self_addressed=seed % 2 == 0,
            duplicates=seed % 4 == 0,
            twins=0.1,
            wire=seed % 2 == 1,
            options={"bound": 1 + seed % 6} if protocol == "bounded" else None,
        )


# -- claims ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILY)
def test_safe_live_and_no_needless_waiting(name: str) -> None:
    for run in some(walks(name)):
        run.check(deadlock=name == "bounded")
        assert not needless(run.events), f"needless waiting in {run}"


def test_the_example_that_opens_the_paper() -> None:
    """p updates x at r by M1, then tells q by M2; q changes x at r by M3, which comes first and must wait."""
    for name in FAMILY:
        run = play(name, ("p", "q", "r"), "p!1>r p!2>q q<p2 q!1>r r<q1")
        (held,) = run.members[2].pending()
        assert held.message == "q1"
        assert [str(cause) for cause in held.waits_for] == ["p1" if name == "gossip" else "p#1"]
        run.arrive(run.network.oldest())
        assert run.delivered[-2:] == [("r", "p1"), ("r", "q1")]


def test_stamps_count_two_matrices() -> None:
    for name in FAMILY:
        run = walk(name, 5, 10, 0)
        assert {type(run.members[0]).entries(copy) for copy in run.copies} == {2 * 5**2}


# -- Protocol 3: three epoch values, as good as infinitely many --------------------------------------------------------


class Lexicographic(ThreeEpochs):
    """Unbounded epochs: Protocol 3 before its last paragraph."""

    values = 1 << 30

    def stamp(self, epoch: int, tick: int) -> int:
        return epoch << 32 | tick

    def in_epoch(self, stamp: int, epoch: int) -> bool:
        return stamp != 0 and stamp >> 32 == epoch

    def later(self, one: int, other: int) -> bool:
        return one > other

    def aged(self, stamp: int, latest: int) -> int:
        return stamp


class UnboundedEpochs(Epochs):
    name = "epochs-unbounded"
    code = 250
    times: ClassVar[ThreeEpochs] = Lexicographic()


def epochs(run: Walk) -> list[int]:
    return [member.epoch for member in run.members if isinstance(member, Epochs)]


def test_three_values_give_the_executions_of_unbounded_epochs() -> None:
    for one, other in some(zip(walks("epochs", 100), walks(UnboundedEpochs, 100), strict=True)):
        assert render(one.events) == render(other.events), f"{one}\ndiffers from\n{other}"
        assert epochs(one) == [epoch % 3 for epoch in epochs(other)], f"{one}"


@pytest.mark.parametrize(("processes", "messages"), [(2, 300), (3, 700), (4, 900)])
def test_so_they_do_through_thirty_epochs(processes: int, messages: int) -> None:
    seen = 0
    for seed in range(3):
        runs = [
            walk(protocol, processes, messages, seed, fanout="unicast", self_addressed=seed == 2, network="random")
            for protocol in ("epochs", UnboundedEpochs)
        ]
        assert render(runs[0].events) == render(runs[1].events), f"{runs[0]}"
        seen = max(seen, *epochs(runs[1]))
    assert seen >= 30, f"only {seen} epochs were passed"


def test_epochs_deliver_what_gossip_delivers() -> None:
    """Waiting for causes only, one network leaves one execution."""
    for one, other in some(zip(walks("gossip", 50), walks("epochs", 50), strict=True)):
        assert one.delivered == other.delivered, f"{one}\ndiffers from\n{other}"


# -- errata ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v.fault != "stuck"], ids=lambda v: v.name)
def test_printed_form_fails_and_ours_does_not(variant: Variant) -> None:
    printed = play(variant.protocol, variant.processes, variant.smallest, fifo=variant.fifo)
    ours = play(variant.of, variant.processes, variant.smallest, fifo=variant.fifo, drain=True)
    if variant.of == "bounded":
        assert (printed.deferred, ours.deferred) == (0, 1)
        return
    ours.check()
    assert printed.judge().violations


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v.fault == "unsafe"], ids=lambda v: v.name)
def test_printed_form_fails_at_random_too(variant: Variant) -> None:
    seeds = range(300)
    runs = (walk(variant.protocol, 3, 30, seed, self_addressed=seed % 2 == 0) for seed in seeds)
    assert any(run.judge().violations for run in runs), f"no failure with seeds {seeds}"


def test_wrapping_epochs_fail_after_two_turns_and_after_three() -> None:
    """Errata 22: n + 3 compares as equal, n + 2 as older; on FIFO channels."""
    wrap, null = (v.protocol for v in VARIANTS if v.name in ("epochs-wrap", "epochs-null"))
    assert [bool(play(wrap, 3, turns(k), fifo=True).judge().violations) for k in range(6)] == [0, 0, 1, 1, 0, 1]
    assert any(play(null, 3, turns(k), fifo=True).judge().violations for k in range(6))
    for number in range(12):
        play("epochs", 3, turns(number), fifo=True, drain=True).check()


def test_null_as_a_stamp_fails() -> None:
    """Errata 22: 0 to 1, 1 to 2, 2 to 0, 0 to 1, each delivered; then m5 of 1 to 0 overtakes m4."""
    script = "a!1>b b<a1 b!1>c c<b1 c!1>a a<c1 a!2>b b<a2 b!2>a b!3>a a<b3"
    null = next(v.protocol for v in VARIANTS if v.name == "epochs-null")
    assert play(null, 3, script).judge().violations
    play("epochs", 3, script, drain=True).check()


class _NotInTheTest(GossipReceiver):
    def _awaits(self, copy: Copy, r: int) -> bool:
        kept = r == self.me or self.times.later(copy.stamp[1][r][self.me], self.deliv[r])
        return kept and super()._awaits(copy, r)


class _NotInDeliv(GossipReceiver):
    def _take(self, copy: Copy) -> None:
        kept = self.deliv[:]
        super()._take(copy)
        kept[copy.sender] = self.deliv[copy.sender]
        self.deliv = kept


@pytest.mark.parametrize("part", [_NotInTheTest, _NotInDeliv, OwnSentKept, OwnDelivKept])
def test_each_part_of_the_ageing_is_needed(part: type[GossipReceiver]) -> None:
    """Leave one out, and some execution violates causal order or gets stuck."""

    class Ablated(Epochs):
        name = "epochs-ablated"
        code = 251

        @classmethod
        def alone(cls, roster: Roster, me: int) -> GossipReceiver:
            return part(roster, me, cls.kinds, cls.times, pairwise=True)

    runs = [play(Ablated, 3, turns(k), fifo=True) for k in range(6)]
    runs += [walk(Ablated, 2, 40, seed, fanout="unicast", self_addressed=True) for seed in range(60)]
    assert any(run.judge().violations or run.stuck for run in runs)


def test_ageing_of_sent_is_needed() -> None:
    class Ablated(Epochs):
        name = "epochs-ablated"
        code = 251

        def __init__(self, roster: Roster, process: str | int, *, label: str | None = None) -> None:
            super().__init__(roster, process, label=label)
            self.times = NeverAged()  # type: ignore[misc]  # of the log alone; the receiver has its own

    assert any(walk(Ablated, 3, 40, seed, fanout="unicast").stuck for seed in range(60))


# -- Protocol 4 --------------------------------------------------------------------------------------------------------


def test_bound_one_deadlocks_three_processes() -> None:
    """Errata 23: 1 to 0, 0 to 2, 2 to 0, all delivered, and nobody can send any more."""
    run = play("bounded", 3, "b!1>a a<b1 a!1>c c<a1 c!1>a a<c1", options={"bound": 1})
    refused = [run.send(place, 1 << (place + 1) % 3) for place in range(3)]
    assert all(isinstance(answer, Deferred) for answer in refused)
    assert [answer.waits_for for answer in refused if isinstance(answer, Deferred)] == [("b",), ("a", "c"), ("a", "b")]
    run.finish()
    assert run.deadlocked
    assert [(pending.what, pending.sender, pending.processes) for _, pending in run.stuck] == [
        ("send", "a", ("b",)),
        ("send", "b", ("a", "c")),
        ("send", "c", ("a", "b")),
    ]


def test_bound_two_deadlocks_two_processes() -> None:
    dead = [run for seed in range(60) if (run := walk("bounded", 2, 12, seed, options={"bound": 2})).deadlocked]
    assert dead
    for run in dead:
        run.check(deadlock=True)


def test_deferred_sends_leave_in_order_when_the_epoch_turns() -> None:
    run = play("bounded", 2, "a!1>b a!2>b a!3>b a!4>b b<a1 b!1>a", options={"bound": 1})
    assert run.deferred == 3
    assert [(p.ticket, p.processes) for p in run.members[0].pending()] == [(1, ("b",)), (2, ("b",)), (3, ("b",))]
    run.arrive(run.network.oldest())
    assert [e.message for e in run.events if e.kind == "send"] == ["a1", "b1", "a2"]
    assert [p.ticket for p in run.members[0].pending()] == [2, 3]


@pytest.mark.parametrize("bound", [1, 2, 5])
def test_no_stamp_exceeds_the_bound(bound: int) -> None:
    """O(log B) bits for each of 2n² stamps, whatever the length of the run; as printed, one more send an epoch."""
    printed = next(v.protocol for v in VARIANTS if v.of == "bounded")
    for protocol, most in (("bounded", bound), (printed, bound + 1)):
        row, counts = (1 + ceil(3 * ceil(log2(turn * most + 1)) / 8) for turn in (3, 2))
        largest = 0
        for seed in range(5):
            run = _conversation(protocol, bound, seed)
            run.check(deadlock=True)
            for copy in run.copies:
                largest = max(largest, *(max(stamps) for rows in copy.stamp[:2] for stamps in rows))
                out = bytearray()
                Bounded.kinds[MESSAGE].write(copy.stamp, out, 3)
                assert len(out) <= 2 * 3 * row + counts, f"{copy} in {run}"
        assert 3 * (most - 1) < largest <= 3 * most


def _conversation(protocol: str | type[Member], bound: int, seed: int) -> Walk:
    """Send at random, but only who may: the traffic that Protocol 4 asks for."""
    rng = Random(seed)
    run = start(protocol, 3, rng, options={"bound": bound}, about=f"_conversation({protocol}, {bound}, {seed})")
    for _ in range(400):
        place = rng.randrange(3)
        if run.network and (rng.random() < 0.6 or run.members[place].pending()):
            run.arrive(run.network.take())
        elif not any(p.what == "send" for p in run.members[place].pending()):
            run.send(place, destinations_for(rng, "uniform", 3, place, self_addressed=True))
    while run.network:
        run.arrive(run.network.take())
    run.finish()
    return run


class Bytewise(Bounded):
    """Takes every copy as the bytes it would come as, and wants them to say what was sent."""

    name = "bytewise"
    code = 199

    def receive(self, copy: Copy) -> list[Effect]:
        again = self.decode(self.encode(copy), source=copy.source)
        assert again == copy, f"{copy} arrived as {again}"
        effects = super().receive(again)
        repeat = self.decode(self.encode(copy), source=copy.source)  # its sender is known to be one epoch on at most
        assert repeat == copy, f"a repeat of {copy} arrived as {repeat}"
        return effects


def _in_turns(protocol: str | type[Member], bound: int, seed: int, rounds: int) -> Walk:
    """Let the processes speak in turn, each having heard what is on its way to it; all else arrives at any time."""
    rng = Random(seed)
    run = start(protocol, 3, rng, options={"bound": bound}, about=f"_in_turns({protocol}, {bound}, {seed}, {rounds})")
    for turn in range(3 * rounds):
        place = turn % 3
        while any(copy.destination == place for lane in run.network.lanes.values() for copy in lane):
            run.arrive(run.network.take())
        for _ in range(rng.randrange(bound)):
            run.send(place, destinations_for(rng, "uniform", 3, place, self_addressed=True))
        run.send(place, 0b111 & ~(rng.getrandbits(1) << place))
    while run.network:
        run.arrive(run.network.take())
    run.finish()
    return run


@pytest.mark.parametrize("bound", first(3, [1, 2, 7, 3]))
def test_counts_come_back_from_bytes_at_any_time_before_delivery(bound: int) -> None:
    """Long after counts modulo 2B have come round: whoever a copy meets, it is read as the message that was sent."""
    for seed in range(8 if bound < 7 else 3):
        run = _in_turns(Bytewise, bound, seed, 60)
        run.check()
        assert min(member.count for member in run.members) >= 60
        _conversation(Bytewise, bound, seed).check(deadlock=True)


@pytest.mark.parametrize(("processes", "messages", "destinations", "bound"), [
    (3, 3, "any", 1), (3, 3, "any", 2), (3, 4, "unicast", 1), (2, 6, "any", 1), (2, 6, "any", 2),
])  # fmt: skip
def test_counts_come_back_from_bytes_in_every_execution(
    processes: int, messages: int, destinations: str, bound: int
) -> None:
    variant = Variant(Bytewise, "bounded", 0, "unsafe", "", "")
    options = {"bound": bound}
    setting = Setting("bytewise", processes, messages, destinations=destinations, options=options, variant=variant)
    coverage = explore(setting, properties=frozenset({"causal order"}))
    assert (coverage.verdict, coverage.complete) == ("holds", True)
    print(f"{coverage.states} states")


def test_a_stamp_does_not_grow_with_the_run() -> None:
    """Header, count, destinations, 6 rows of time-stamps and one of counts, each with its width; true counts grow."""
    for bound in (1, 3):
        run = _in_turns("bounded", bound, 5, 200)
        sizes = [len(run.members[copy.source].encode(copy)) for copy in run.copies]
        assert max(copy.count for copy in run.copies) >= 200
        row, counts = (1 + ceil(3 * ceil(log2(turn * bound + 1)) / 8) for turn in (3, 2))
        assert max(sizes) <= HEADER_BYTES + 4 + 6 * row + counts, f"B = {bound}"
        assert len(encode(Bounded, run.copies[-1], run.roster)) > len(run.members[0].encode(run.copies[-1]))


def test_a_stamp_beyond_the_bound_is_refused() -> None:
    a, b = (create("bounded", "ab", name, bound=2) for name in "ab")
    copy = a.send(["b"]).copies[0]  # type: ignore[union-attr]
    gossip, sent, shorts = copy.stamp
    for stamp in (
        (((7, 0), gossip[1]), sent, shorts),
        (gossip, (sent[0], (0, 7)), shorts),
        (gossip, sent, (0, 5)),
        (gossip, sent, (1, 0)),
    ):
        with pytest.raises(PeerError, match="with a bound of 2 they reach 6 and 4"):
            b.receive(replace(copy, stamp=stamp))
    assert [type(effect) for effect in b.receive(copy)] == [Deliver]


def test_bound_must_be_positive() -> None:
    for bound in (0, -1, "many", 1 << 40):
        with pytest.raises(MisuseError, match="at least 1"):
            create("bounded", "abc", "a", bound=bound)


def test_one_process_keeps_its_first_epoch() -> None:
    walk("epochs", 1, 30, 3, self_addressed=True).check()
    assert walk("bounded", 1, 30, 3, self_addressed=True, options={"bound": 4}).deadlocked


# -- the rest of the contract ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILY)
def test_a_destination_that_never_sends_can_run_the_receiver_alone(name: str) -> None:
    """Process d never sends. Its receiver, fed in another order, delivers all in causal order."""
    for seed in range(40):
        rng = Random(seed)
        run = start(name, 4, rng, about=f"seed {seed}")
        for _ in range(30):
            if run.network and rng.random() < 0.6:
                run.arrive(run.network.take())
            else:
                sender = rng.randrange(3)
                run.send(sender, destinations_for(rng, "uniform", 4, sender, self_addressed=True))
        arrived = [copy for copy in run.copies if copy.destination == 3]
        rng.shuffle(arrived)
        alone = REGISTRY[name].protocol.alone(run.roster, 3)  # type: ignore[attr-defined]
        got = [e.copy for copy in arrived for e in alone.receive(copy) if isinstance(e, Deliver)]
        assert sorted(map(run.name, got)) == sorted(map(run.name, arrived)), f"{run}"
        assert_in_order(run, "d", [run.name(copy) for copy in got])


def test_a_receiver_alone_replays_what_gossip_recorded_in_any_order() -> None:
    """Absolute stamps bear it, whoever the destination is; three epochs do not, and the registry says so."""
    assert REGISTRY["gossip"].receive_only
    assert not REGISTRY["epochs"].receive_only
    for seed in range(40):
        run = walk("gossip", 4, 30, seed, self_addressed=True)
        for place, process in enumerate(run.roster):
            arrived = [copy for copy in run.copies if copy.destination == place]
            Random(seed).shuffle(arrived)
            alone = Gossip.alone(run.roster, place)
            got = [e.copy for copy in arrived for e in alone.receive(copy) if isinstance(e, Deliver)]
            assert len(got) == len(arrived), f"{run}"
            assert_in_order(run, process, [run.name(copy) for copy in got])


@pytest.mark.parametrize("name", FAMILY)
def test_the_membership_is_fixed(name: str) -> None:
    member = create(name, "abc", "a")
    for change in (member.join, member.leave):
        with pytest.raises(MisuseError, match="fixed membership"):
            change("b")
    with pytest.raises(MisuseError, match="context"):
        member.send(["b"], context={})


def test_rows_are_packed_and_nothing_else_is_read() -> None:
    rng = Random(1)
    for _ in range(3000):
        size = rng.randint(1, 9)
        row = tuple(rng.choice((0, 1, rng.randrange(1 << rng.randint(1, 40)))) for _ in range(size))
        out = bytearray()
        PackedRow().write(row, out, size)
        reader = Reader(bytes(out), size)
        assert PackedRow().read(reader) == row
        reader.done()
    read = 0
    for _ in range(20_000):
        size, data = rng.randint(1, 9), rng.randbytes(rng.randint(0, 12))
        data = bytes([rng.randint(0, 9)]) + data if rng.random() < 0.9 else data
        reader = Reader(data, size)
        try:
            row = PackedRow().read(reader)
        except PeerError:
            continue
        read += 1
        out = bytearray()
        PackedRow().write(row, out, size)
        assert bytes(out) == data[: reader.at]
    assert read > 1000
