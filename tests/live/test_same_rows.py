"""A simulated and a live execution of one scenario are recorded alike: same names, indexes, kinds, sizes, hops."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from dataclasses import replace

import pytest

from thence.core.model.events import Event
from thence.core.model.message import Copy
from thence.core.model.message_names import HOPS
from thence.core.protocols.effects import Sent
from thence.core.protocols.registry import lookup
from thence.lab.simulator import Observer, Scenario, simulate
from thence.live.core import Core
from thence.live.inputs import Receive, Send, Trusted
from thence.live.outbox import OutboxItem
from thence.tables.files.recorder import TRUSTS


class Replay(Observer):
    """Does at live cores what happens in a simulation: the same sends, the same arrivals on every link."""

    def __init__(self, scenario: Scenario) -> None:
        names = scenario.roster.names
        self.cores = [Core.fresh(scenario.protocol, names, name, run=scenario.name) for name in names]
        self.links = defaultdict[tuple[int, int], deque[OutboxItem]](deque)
        self.events: list[Event] = []
        self.last: Copy | None = None
        if "failure detector" in lookup(scenario.protocol).needs:
            for process in range(len(names)):
                self.apply(process, Trusted(names))

    def apply(self, process: int, given: Send | Receive | Trusted) -> None:
        step = self.cores[process].apply(given, float(len(self.events)))
        self.events += step.events
        for peer, entry, _ in step.sent:
            self.links[process, peer].append(entry)

    def sent(self, now: float, process: int, sent: Sent, asked: float) -> None:
        self.apply(process, Send(sent.destinations, b"payload", sent.label))

    def hop_arrived(self, now: float, copy: Copy) -> None:
        self.last = copy
        entry = self.links[copy.source, copy.destination].popleft()
        self.apply(copy.destination, Receive(copy.source, entry.number, entry.head + (entry.body or b"")))

    def arrived(self, now: float, copy: Copy) -> None:
        if self.last is not copy:  # a relayed copy was reported as a hop already
            self.hop_arrived(now, copy)
        self.last = None


def told(events: list[Event], process: str, run: str) -> list[Event]:
    """Return the rows of a process without what the driver's clock decides, and stamps in the clear.

    What a failure detector says is left out as well: the simulator records only what differs.
    """
    blank: dict[str, int] = {"index": 0} if run.endswith(HOPS) else {}
    return [
        replace(each, order=None, time=None, dependencies=each.dependencies if blank else None, **blank)
        for each in events
        if each.process == process and each.run == run and each.message != TRUSTS
    ]


@pytest.mark.parametrize("labels", [0, 2])
@pytest.mark.parametrize("protocol", ["ks", "rst", "ses", "gossip"])
def test_simulated_and_live_rows_are_the_same(protocol: str, labels: int) -> None:
    run, simulated, live = both(protocol, labels)
    for process in "abcd":
        rows = told(simulated, process, run)
        assert rows == told(live, process, run)
        assert {"send", "receive", "deliver"} == {each.kind for each in rows}
    orders = [each.order or 0 for each in live]
    assert len(set(orders)) == len(orders)


@pytest.mark.parametrize("labels", [0, 2])
@pytest.mark.parametrize("protocol", ["ks-ft", "a-causal"])
def test_simulated_and_live_hops_are_the_same_but_for_their_numbers(protocol: str, labels: int) -> None:
    """A live link counts the messages that it carries as well; an OK with a payload counts as a receipt there."""
    run, simulated, live = both(protocol, labels)
    for process in "abcd":
        hops = told(simulated, process, f"{run}/hops")
        assert len(hops) > 100
        assert list(map(unnumbered, hops)) == list(map(unnumbered, told(live, process, f"{run}/hops")))
        for kind in ("send", "deliver"):
            one, other = (
                [
                    (each.message, each.destinations, each.label)
                    for each in told(rows, process, run)
                    if each.kind == kind
                ]
                for rows in (simulated, live)
            )
            assert one == other
            assert len(one) > 10


def both(protocol: str, labels: int) -> tuple[str, list[Event], list[Event]]:
    """Return the run's name, its simulated rows and its live rows."""
    fanout = "broadcast" if "broadcast only" in lookup(protocol).needs else "uniform"
    scenario = Scenario(protocol=protocol, processes=4, messages=80, labels=labels, fifo=True, fanout=fanout)
    live = Replay(scenario)
    result = simulate(scenario, trace=True, stamps=True, measure=False, watch=[live])
    assert result.recorder is not None
    return scenario.name, result.recorder.events, live.events


def unnumbered(event: Event) -> Event:
    """Return the row of a hop with # for its number on the link."""
    name = event.message or ""
    assert re.fullmatch(r"[a-d]\d+/[a-d]", name)
    return replace(event, message=re.sub(r"\d+", "#", name))


def test_a_message_to_its_own_sender_is_no_hop_where_nothing_is_relayed() -> None:
    core = Core.fresh("ks", "ab", "a")
    step = core.apply(Send(0b11, b"x"), 0.0)
    (mine,) = [entry for peer, entry, _ in step.sent if peer == core.me]
    events = step.events + core.apply(Receive(core.me, mine.number, mine.head + (mine.body or b"")), 1.0).events
    assert [(event.kind, event.run.endswith(HOPS)) for event in events] == [
        ("send", False), ("receive", False), ("deliver", False),
    ]  # fmt: skip
