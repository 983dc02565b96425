"""The discrete-event driver: a heap keyed by (time, counter), the members of a protocol, a workload and a network.

Invariant: what happens next is the event with the smallest (time, counter); the counter grows with every event that is
put on the heap, so equal times happen in the order of their causes and a run depends on nothing but its scenario.
Members are driven unchanged. Copies travel from `source` to `destination`, self-addressed ones too. When nothing is
left to happen, every copy still held, and every send still deferred, is reported with the reason its member gives.

Sends of serialized protocols are serialized by one token per label that goes from sender to sender in no time: each
`Sent.token` is handed to the next `send`. A crash follows `thence.core.model.faults`: the crashed process stops, what
was on its way to it vanishes, a random subset of what it had handed to the network is lost; each of the others learns
it after an exponential while (mean `DETECTION` seconds) to trust only processes that have not crashed by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count

from thence.core.model.faults import may_be_lost, nobody_receives
from thence.core.model.message import MESSAGE, Copy
from thence.core.model.roster import positions
from thence.core.protocols.base import Member
from thence.core.protocols.effects import Deferred, Deliver, Effect, Hold, Sent, Transmit
from thence.lab.simulator.delays import Travel
from thence.lab.simulator.outcome import RunOutcome
from thence.lab.simulator.random_streams import Streams
from thence.lab.simulator.scenario import Scenario
from thence.lab.simulator.workload import Request

DETECTION = 0.5


Scheduled = Copy | Request | Callable[[float], None]
"""What happens at a time: an arrival, a request, or what is to be called then."""


class Observer:
    """Observes a run. Every method may be left out; those left out cost nothing."""

    def begin(self, simulation: Simulation) -> None:
        """Get ready: the run is about to begin."""

    def sent(self, now: float, process: int, sent: Sent, asked: float) -> None:
        """Note that a message was stamped; `asked` is when the application asked for it."""

    def arrived(self, now: float, copy: Copy) -> None:
        """Note that a copy of a message arrived at a destination of it, by whichever way."""

    def delivered(self, now: float, copy: Copy) -> None:
        """Note that a message was handed to the application at `copy.destination`."""

    def hops_sent(self, now: float, copies: Sequence[Copy]) -> None:
        """Note that protocol messages or relayed copies were handed to the network, in this order."""

    def hop_arrived(self, now: float, copy: Copy) -> None:
        """Note that a protocol message or a relayed copy arrived."""

    def crashed(self, now: float, process: int) -> None:
        """Note that a process stopped."""

    def trusted(self, now: float, process: int, mask: int) -> None:
        """Note what the failure detector reports to a process: which processes to trust."""

    def end(self, now: float) -> None:
        """Finish: nothing is left to happen."""


class Simulation:
    """One run of a scenario."""

    def __init__(
        self,
        scenario: Scenario,
        *observers: Observer,
        members: Sequence[Member] | None = None,
        through: Callable[[Iterator[Request]], Iterator[Request]] = iter,
    ) -> None:
        """Check the scenario and make everything ready.

        `members` replaces the registry's, to wrap or vary them; requests pass `through` a function, to show progress.
        """
        scenario.check()
        self._through = through
        self.scenario, self.roster, self.streams = scenario, scenario.roster, Streams(scenario.seed)
        self.members: Sequence[Member] = scenario.members() if members is None else members
        self.network = scenario.network(self.streams)
        self.workload = scenario.traffic(self.streams)
        self.outcome = RunOutcome(scenario.name)
        self.observers = observers
        self.down = 0
        self._deliveries, self._answers, self._reliable = 0, self.workload.answers, self.network.reliable
        self._heap: list[tuple[float, int, Scheduled]] = []
        self._tick = count().__next__
        self._requests: Iterator[Request] = iter(())
        self._asked: dict[tuple[int, str | None, int], float] = {}
        self._tokens: dict[str | None, object] = {}
        self._on_sent = _wanted(observers, "sent")
        self._on_arrived = _wanted(observers, "arrived")
        self._on_delivered = _wanted(observers, "delivered")
        self._on_hops_sent = _wanted(observers, "hops_sent")
        self._on_hop_arrived = _wanted(observers, "hop_arrived")

    def run(self) -> RunOutcome:
        """Run the simulation to its end and return the outcome."""
        for observer in self.observers:
            observer.begin(self)
        self._requests = self._through(self.workload.requests())
        self._next_request()
        self._plan_crashes()
        self._plan_links()
        heap, members, now = self._heap, self.members, 0.0
        on_arrived, on_hop_arrived = self._on_arrived, self._on_hop_arrived
        while heap:
            now, _, item = heappop(heap)
            if isinstance(item, Copy):
                if self.down and nobody_receives(item, self.down):
                    continue
                here = item.destination
                final = item.kind == MESSAGE and item.destinations >> here & 1
                if not final or item.source != item.sender:
                    for note in on_hop_arrived:
                        note(now, item)
                if final:
                    for note in on_arrived:
                        note(now, item)
                effects = members[here].receive(item)
                if effects:
                    self._apply(now, here, effects)
            elif isinstance(item, Request):
                self._next_request()
                self._ask(now, item)
            else:
                item(now)
        self._finish(now)
        return self.outcome

    # -- sends -------------------------------------------------------------------------------------------------------

    def _next_request(self) -> None:
        request = next(self._requests, None)
        if request is not None:
            self._at(request.time, request)

    def _at(self, time: float, item: Scheduled) -> None:
        heappush(self._heap, (time, self._tick(), item))

    def _ask(self, now: float, request: Request) -> None:
        process, label = request.process, request.label
        if self.down >> process & 1:
            return
        self.outcome.asked += 1
        done = self.members[process].send(request.destinations, label=label, token=self._tokens.get(label))
        if type(done) is Deferred:
            self.outcome.deferred += 1
            self._asked[process, label, done.ticket] = now
        else:
            assert isinstance(done, Sent)
            self._sent(now, process, done, now)

    def _sent(self, now: float, process: int, sent: Sent, asked: float) -> None:
        self.outcome.messages += 1
        if sent.token is not None:
            self._tokens[sent.label] = sent.token
        for note in self._on_sent:
            note(now, process, sent, asked)
        self._hand(now, sent.copies)

    def _hand(self, now: float, copies: Sequence[Copy]) -> None:
        heap, tick, reliable = self._heap, self._tick, self._reliable
        message, hop, counts = self.network.message, self.network.hop, self.outcome.hops
        hops: list[Copy] = []
        for copy in copies:
            source, destination = copy.source, copy.destination
            kind = copy.kind
            if kind != MESSAGE or source != copy.sender or not copy.destinations >> destination & 1:  # is_hop
                hops.append(copy)
                counts[kind] += 1
                travel = hop
            else:
                travel = message
            if reliable:
                heappush(heap, (travel(now, source, destination), tick(), copy))
            else:
                self._risk(now, copy, travel)
        self.outcome.copies += len(copies) - len(hops)
        if hops:
            for note in self._on_hops_sent:
                note(now, hops)

    def _risk(self, now: float, copy: Copy, travel: Travel) -> None:
        times = self.network.times()
        self.outcome.lost += times == 0
        for _ in range(times):
            self._at(travel(now, copy.source, copy.destination), copy)

    # -- effects -----------------------------------------------------------------------------------------------------

    def _apply(self, now: float, process: int, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if type(effect) is Deliver:
                self._deliveries += 1
                for note in self._on_delivered:
                    note(now, effect.copy)
                if self._answers:
                    self._answer(now, process, effect.copy)
            elif type(effect) is Hold:
                self.outcome.holds += 1
            elif type(effect) is Transmit:
                self._hand(now, effect.copies)
            elif type(effect) is Sent:
                ticket = effect.ticket
                asked = now if ticket is None else self._asked.pop((process, effect.label, ticket))
                self._sent(now, process, effect, asked)
            else:
                self.outcome.duplicates += 1

    def _answer(self, now: float, process: int, copy: Copy) -> None:
        request = self.workload.answer(now, process, copy.sender, copy.label)
        if request is not None:
            self._at(request.time, lambda then: self._ask(then, request))

    # -- crashes and the end -----------------------------------------------------------------------------------------

    def _plan_crashes(self) -> None:
        scenario, faults = self.scenario, self.streams.faults
        if "failure detector" in scenario.entry.needs:
            for process in range(scenario.processes):
                self._trust(process, 0.0)
        if not scenario.crashes:
            return
        span = scenario.messages / (scenario.rate * scenario.processes)
        faulty = faults.sample(range(scenario.processes), scenario.crashes)
        for process in faulty:
            self._at(faults.random() * span, partial(self._crash, process))

    def _plan_links(self) -> None:
        scenario = self.scenario
        if not scenario.links:
            return
        span = scenario.messages / (scenario.rate * scenario.processes)
        drawn = self.streams.of("links")
        for _ in range(scenario.links):
            self._at(drawn.random() * span, partial(self._connect, *drawn.sample(range(scenario.processes), 2)))

    def _connect(self, process: int, other: int, now: float) -> None:
        self._apply(now, process, self.members[process].connect(self.roster.name(other)))

    def _crash(self, process: int, now: float) -> None:
        self.down |= 1 << process
        self.outcome.crashed.append(self.roster.name(process))
        for observer in self.observers:
            observer.crashed(now, process)
        faults = self.streams.faults
        kept = []
        for entry in sorted(self._heap, key=lambda entry: entry[1]):
            item = entry[2]
            if type(item) is Copy and may_be_lost(item, 1 << process) and faults.random() < 0.5:
                self.outcome.lost += 1
            else:
                kept.append(entry)
        self._heap[:] = kept
        heapify(self._heap)
        for other in positions(self.roster.everyone & ~self.down):
            pause = faults.expovariate(1.0 / DETECTION)
            self._at(now + pause, partial(self._trust, other))

    def _trust(self, process: int, now: float) -> None:
        if self.down >> process & 1:
            return
        trusted = self.roster.everyone & ~self.down
        for observer in self.observers:
            observer.trusted(now, process, trusted)
        self._apply(now, process, self.members[process].trusted(self.roster.members(trusted)))

    def _finish(self, now: float) -> None:
        self.outcome.seconds, self.outcome.deliveries = now, self._deliveries
        for position, member in enumerate(self.members):
            if not self.down >> position & 1:
                name = self.roster.name(position)
                self.outcome.stuck += [(name, pending) for pending in member.pending()]
        for observer in self.observers:
            observer.end(now)


def _wanted(observers: Sequence[Observer], name: str) -> list[Callable[..., None]]:
    """Return the bound methods of those observers that wrote this method."""
    return [getattr(each, name) for each in observers if getattr(type(each), name) is not getattr(Observer, name)]
