"""What the fault-tolerant multicasts keep of a message, and for how long: bounded in long runs with crashes.

A record is forgotten once everybody trusted is known to have delivered the message; without `counts`, at F-delivery. No
step of any execution depends on which.
"""

from __future__ import annotations

from typing import Any

import pytest
from papers.multicast import FOUND, MEASURE
from support.soak import first
from support.some import some

from thence.core.model.faults import legal
from thence.core.model.message import Copy
from thence.core.protocols.ack_member import AckMember
from thence.core.protocols.ack_receiver import GATHERED
from thence.core.protocols.base import Member
from thence.core.protocols.effects import Deliver, Duplicate, Effect, Sent, Transmit
from thence.core.protocols.registry import create
from thence.errors import MisuseError
from thence.lab.explorer.random_walk import RandomWalk, walk
from thence.lab.explorer.search import explore
from thence.lab.explorer.setting import Setting
from thence.lab.papers.rejected_designs import AFifoLazy
from thence.lab.papers.variants import setting_of
from thence.lab.simulator import RunRecorder, Scenario, Simulation

FT = ["a-fifo", "a-causal", "ks-ft"]
AT_DELIVERY: dict[str, Any] = {"counts": False}


@pytest.mark.parametrize("spread", first(1, [True, False]), ids=["crashes spread", "crashes at once"])
@pytest.mark.parametrize("options", first(1, [{}, AT_DELIVERY]), ids=["counts", "at delivery"])
@pytest.mark.parametrize("protocol", first(1, FT[::-1]))
def test_state_stays_bounded_in_a_long_run_with_crashes(protocol: str, options: dict[str, Any], spread: bool) -> None:
    """Three of six processes crash, early on or one after each 500 messages: no more is kept later than before."""
    how = {"counts": not options, "spread": spread}
    run: RandomWalk = MEASURE["long_run"](protocol, **how)
    assert run.faulty.bit_count() == 3
    crashes = [place / len(run.events) for place, event in enumerate(run.events) if event.kind == "crash"]
    assert (min(crashes) > 0.2) == (max(crashes) > 0.6) == spread
    assert not run.problems()
    quarters = MEASURE["quarters"](run.kept)
    means = [sum(part) / len(part) for part in MEASURE["quarters"](run.sizes)]
    assert MEASURE["records"](run) == FOUND["records"][MEASURE["name_of"](protocol, **how)], "the page quotes these"
    assert max(run.kept) < 250, "sends held back from a crash until the detector says so are the most there is"
    assert sum(quarters[3]) <= 1.1 * max(map(sum, quarters[:3])), "and they go when it does"
    living = [m for m in run.members if isinstance(m, AckMember) and not run.faulty >> m.me & 1]
    assert run.kept[-1] <= 20 + len(living) * 6 * GATHERED * (not options), "what is not looked through yet, too"
    assert sum(len(m.on_record()) + len(m.queue) for m in living) <= 20
    assert max(run.sizes) < 3000
    assert means[3] < 1.1 * means[2], "counters grow by a byte now and then, tables do not"


@pytest.mark.parametrize("protocol", FT)
def test_no_step_depends_on_what_is_kept_after_delivery(protocol: str) -> None:
    """The same executions with and without delivery counts, under crashes: events, copies, everything."""
    crashed = 0
    for seed in range(60):
        for processes, groups in ((4, ""), (5, "ab|cd|e"), (4, "a|bc|d")):
            both = [
                walk(Setting(protocol, processes, 8, "any", groups=groups, crashes=2, options=o), seed, patience=0.4)
                for o in (AT_DELIVERY, {})
            ]
            assert both[0].events == both[1].events, str(both[1])
            assert both[0].copies == both[1].copies
            assert all(more >= fewer for fewer, more in zip(both[0].kept, both[1].kept, strict=True))
            crashed += both[0].faulty.bit_count()
    print(f"180 executions twice, {crashed} crashes, seeds 0..59")


@pytest.mark.parametrize("protocol", FT)
def test_forgetting_at_delivery_holds_in_all_executions(protocol: str) -> None:
    assert explore(Setting(protocol, 3, 2, crashes=1, options=AT_DELIVERY)).verdict == "holds"
    assert explore(Setting(protocol, 3, 1, "any", crashes=1, options=AT_DELIVERY)).verdict == "holds"


class Net:
    """Members and the copies between them, by hand."""

    def __init__(self, protocol: str | type[Member], names: str, groups: str, **options: Any) -> None:
        make = (lambda p: create(protocol, names, p, groups=groups, **options)) if isinstance(protocol, str) else None
        roster = create("a-fifo", names, names[0]).roster
        made = [make(p) if make is not None else protocol(roster, p, groups=groups) for p in names]  # type: ignore[operator]
        self.members: list[AckMember] = made
        self.flight: list[Copy] = []
        self.delivered: set[tuple[int, int]] = set()

    def do(self, place: int, effects: Any) -> None:
        for effect in effects:
            if isinstance(effect, Sent | Transmit):
                self.flight += effect.copies
            elif isinstance(effect, Deliver):
                self.delivered.add((place, effect.copy.count))

    def arrive(self, copy: Copy) -> None:
        self.flight.remove(copy)
        self.do(copy.destination, self.members[copy.destination].receive(copy))

    def drain(self) -> None:
        while self.flight:
            self.arrive(self.flight[0])


def test_a_record_is_kept_until_everybody_trusted_is_known_to_have_delivered() -> None:
    """a1 is known delivered when OKs of a2 bring the counts; a2 stays, until c, which says nothing, is not trusted."""
    net = Net("a-causal", "abc", "")
    for _ in range(2):
        net.do(0, [net.members[0].send("abc")])
        net.drain()
    assert [[str(m.count) for m in member.on_record()] for member in net.members] == [["2"], ["2"], ["2"]]
    net.do(1, [net.members[1].send("ab")])
    net.drain()
    assert [(m.sender, m.count) for m in net.members[0].on_record()] == [(0, 2), (1, 1)], "c has not spoken since"
    net.members[0].trusted("ab")
    assert [(m.sender, m.count) for m in net.members[0].on_record()] == [(1, 1)]


@pytest.mark.parametrize("said", ["false", 0, None])
def test_counts_are_asked_for_in_plain_words(said: Any) -> None:
    with pytest.raises(MisuseError, match="True or False is accepted"):
        create("a-causal", "abc", "a", counts=said)


@pytest.mark.parametrize("protocol", FT)
def test_when_records_are_looked_through_changes_no_step(protocol: str) -> None:
    """The slow twin looks through everything at every step: the same trace, and at the end the same state."""
    kind = type(create(protocol, "ab", "a"))

    class Eager(kind):  # type: ignore[misc, valid-type]
        def receive(self, copy: Copy) -> list[Effect]:
            effects: list[Effect] = super().receive(copy)
            for order in self.orders():
                order.settle()
            return effects

    for seed in range(6):
        options = (("groups", ("", "ab|cd|e")[seed % 2]),)
        scenario = Scenario(protocol, 5, 150, crashes=seed % 3, labels=seed % 4 // 2, seed=seed, options=options)
        found = []
        for make in (kind, Eager):
            members = [make(scenario.roster, place, groups=options[0][1]) for place in range(5)]
            recorder = RunRecorder()
            Simulation(scenario, recorder, members=members).run()
            found.append((recorder.events, [m.snapshot() for m in members], [m.state() for m in members]))
        assert found[0] == found[1], f"seed {seed}"


def test_forks_learn_and_forget_for_themselves() -> None:
    """What a fork delivers after the fork is in none of the other's matrices and records."""
    net = Net("a-causal", "abc", "")
    b, c = net.members[1], net.members[2]
    for _ in range(3):
        net.do(0, [net.members[0].send("abc")])
        net.drain()
    before, forked = b.fork().state(), b.fork()
    net.do(2, [c.send("ab")])
    net.drain()
    assert forked.state() == before
    assert b.state() != before
    assert forked.fork().state() == before


def test_late_copies_of_what_is_forgotten_change_nothing() -> None:
    """A relay and an OK that come after the record is gone: their number tells that they are late."""
    net = Net("a-fifo", "abc", "", counts=False)
    net.do(0, [net.members[0].send("bc")])
    first = next(copy for copy in net.flight if copy.destination == 1)
    net.drain()
    b = net.members[1]
    assert not b.on_record()
    state = b.state()
    assert b.receive(first) == [Duplicate(first)]
    okay = Copy(0, 1, 0b110, 2, 1, (first.stamp, {}), kind="ok")
    assert b.receive(okay) == []
    assert b.state() == state


def lazy(protocol: str | type[Member]) -> set[tuple[int, int]]:
    """a1 goes to b and c; c, which trusts a and itself, gets it; a crashes, and b's copy is lost. Who delivers?"""
    groups, faulty = (0b001, 0b110), 0b001
    net = Net(protocol, "abc", "a|bc")
    c = net.members[2]
    assert legal(0b101, groups, faulty)
    c.trusted("ac")
    net.do(0, [net.members[0].send("bc")])
    net.arrive(next(copy for copy in net.flight if copy.destination == 2))
    net.flight = [copy for copy in net.flight if copy.source != 0]
    for place in (1, 2):
        net.do(place, net.members[place].trusted("bc"))
    net.drain()
    return net.delivered


def test_what_must_be_handed_on_later_may_not_be_forgotten_on_the_word_of_the_trusted() -> None:
    """With relays at the first reception nobody misses anything; with lazy ones b, not trusted for a while, does."""
    assert lazy("a-fifo") == {(1, 1), (2, 1)}
    assert lazy(AFifoLazy) == {(2, 1)}


def test_random_crashes_find_that_too() -> None:
    setting = setting_of("a-fifo-lazy", 3, 4, "any", groups="a|bc", crashes=1)
    run = walk(setting, 387, patience=0.4)
    print(run)
    assert run.problems() == ["agreement: c never delivers a2"]
    ours = Setting("a-fifo", 3, 4, "any", groups="a|bc", crashes=1)
    assert not walk(ours, 387, patience=0.4).problems()


def test_snapshots_keep_delivery_counts() -> None:
    net = Net("ks-ft", "abcd", "ab|cd")
    for sender in range(3):
        net.do(sender, [net.members[sender].send("abcd")])
        net.drain()
    for member in some(net.members):
        assert member.on_record()
        again = type(member).restore(member.snapshot())
        assert (again.state(), again.on_record()) == (member.state(), member.on_record())
