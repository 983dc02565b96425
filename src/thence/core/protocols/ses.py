"""Schiper, Eggli and Sandoz, "A new algorithm to implement causal ordering", 1989.

Invariant: a message carries its vector time and, for each process d to which something was sent in its causal past, the
vector time of the latest such message. A copy is delivered at d when the time listed for d is not above what d has
learnt from the messages it delivered.

Needs nothing. Cost: up to n vectors of n numbers. A held copy knows components of times, not messages: what `pending`
names are the latest messages of each sender that may be among its causes. For the same reason no process can be
abandoned: the time of a message that never comes has components of others, which nothing else may ever reach.

Departures:

- Multicast: a delivery lists the message under its *other* destinations too (errata 10).
- The time a destination compares with comes from delivered messages only. Its own clock, as printed, would make its own
  self-addressed message look delivered (errata 11). Only sends tick.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from thence.core.model.message import MESSAGE, Cause, Copy
from thence.core.model.roster import Roster, positions
from thence.core.protocols.base import Member, Receiver
from thence.core.protocols.counts_cy import later
from thence.core.protocols.effects import Deliver, Duplicate, Effect, Hold, Sent
from thence.core.protocols.timestamp_vectors import Time, component
from thence.core.protocols.wire import CopyShape
from thence.core.wire.codec import INT, MASK, ByProcess, RecordShape, Seq, Shape, Vector
from thence.errors import PeerError

TIME = Vector(INT, make=tuple)
SES_STAMP = RecordShape(TIME, ByProcess(TIME))
SES_KINDS: dict[str, Shape] = {MESSAGE: SES_STAMP}


class TimeReceiver(Receiver):
    """Holds a copy until the time listed for this destination is covered by the times of delivered messages."""

    fields: ClassVar[dict[str, Shape]] = {
        "abandoned": MASK,
        "told": TIME,
        "delivered": Vector(INT),
        "held": Seq(CopyShape(SES_KINDS)),
    }

    def __init__(self, roster: Roster, me: int) -> None:
        super().__init__(roster, me)
        self.told: Time = (0,) * self.size
        self.delivered = [0] * self.size
        self.held: list[Copy] = []

    def receive(self, copy: Copy) -> list[Effect]:
        """Deliver or hold a copy, or recognise a repeat; then deliver the copies that it unblocks."""
        if copy.count <= self.delivered[copy.sender] or any(copy.id == other.id for other in self.held):
            return [Duplicate(copy)]
        unmet = self._unmet(copy)
        if unmet:
            self.held.append(copy)
            return [Hold(copy, partial(self._causes, unmet))]
        return self._released(copy)

    def _released(self, ready: Copy | None) -> list[Effect]:
        """Deliver a copy, then the copies that it unblocks, in order of arrival."""
        effects: list[Effect] = []
        while ready is not None:
            effects.append(Deliver(ready))  # Deliver once the time listed for here is covered
            self.delivered[ready.sender] = ready.count
            self.told = later(self.told, ready.stamp[0])
            ready = self._next()
        return effects

    def _next(self) -> Copy | None:
        """Remove and return the first held copy that can be delivered."""
        ready = next((other for other in self.held if not self._unmet(other)), None)
        if ready is not None:
            self.held.remove(ready)
        return ready

    def _unmet(self, copy: Copy) -> list[tuple[int, int]]:
        """Return the components of the time listed for here that the delivered messages do not cover."""
        time = copy.stamp[1].get(self.me)
        if time is None:
            return []
        return [(s, count) for s, (count, known) in enumerate(zip(time, self.told, strict=False)) if count > known]

    def _causes(self, needs: list[tuple[int, int]]) -> tuple[Cause, ...]:
        return tuple(Cause(self.roster.name(s), c) for s, c in needs)

    def pending(self) -> list[tuple[Copy, list[tuple[int, int]]]]:
        """Return held copies with the components that are not covered."""
        return [(copy, self._unmet(copy)) for copy in self.held]

    def join(self, roster: Roster) -> None:
        """Extend both clocks by the process that joined."""
        super().join(roster)
        self.told += (0,)
        self.delivered.append(0)


class SES(Member):
    """A member that carries a vector time for each destination."""

    name = "ses"
    code = 8
    grows = True
    cannot_abandon = "its stamps name times, not messages, and those of others may never be reached without it"
    kinds: ClassVar[dict[str, Shape]] = SES_KINDS
    receiver: TimeReceiver
    fields: ClassVar[dict[str, Shape]] = {"time": TIME, "latest": ByProcess(TIME)}

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None) -> None:
        super().__init__(roster, process, label=label)
        self.receiver = TimeReceiver(roster, self.me)
        self.time: Time = (0,) * self.size
        self.latest: dict[int, Time] = {}

    def _send(self, destinations: int, context: object, token: object) -> Sent:
        self._no_context(context)
        self.count += 1
        self.time = (*self.time[: self.me], self.count, *self.time[self.me + 1 :])  # Advance one's own time
        stamp = (self.time, self.latest)
        sent = self._sent(destinations, lambda d: stamp)
        self.latest = self.latest | dict.fromkeys(positions(destinations), self.time)  # List the destinations
        return sent

    def _delivered(self, copy: Copy) -> list[Effect]:
        time, listed = copy.stamp
        self.time = later(self.time, time)  # Merge the times
        elsewhere = ~(self.bit | self.gone)
        learned = {d: t for d, t in listed.items() if elsewhere >> d & 1}
        for d in positions(copy.destinations & elsewhere):
            learned[d] = time
        latest = self.latest.copy()
        for d, t in learned.items():
            latest[d] = later(latest[d], t) if d in latest else t  # Merge the lists
        self.latest = latest
        return []

    def _check(self, copy: Copy) -> None:
        time, listed = copy.stamp
        own = component(time, copy.sender)
        if own != copy.count:
            raise self.beyond(f"the same sender, where {copy.count} is expected", own, copy)
        self.check_known(copy, self.me, 0 if self.me == copy.sender else component(time, self.me))
        for other in listed.values():
            self.check_known(copy, self.me, component(other, self.me))
            self.check_known(copy, copy.sender, component(other, copy.sender))

    def _check_state(self) -> None:
        self.check_own(max(component(time, self.me) for time in (self.time, *self.latest.values())))
        if len({copy.id for copy in self.receiver.held}) < len(self.receiver.held):
            raise PeerError(f"snapshot holds back one of {len(self.receiver.held)} messages twice")

    def _join(self) -> None:
        self.time += (0,)

    def _leave(self, process: int) -> list[Effect]:
        self.latest = {d: time for d, time in self.latest.items() if d != process}
        return []

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count the numbers of all vectors."""
        time, listed = copy.stamp
        return len(time) * (1 + len(listed))

    @classmethod
    def paper_bytes(cls, copy: Copy) -> int:
        """Numbers of 4 bytes, and a destination (2) for each listed vector."""
        return 4 * cls.entries(copy) + 2 * len(copy.stamp[1])

    def log_size(self) -> int:
        """Count the numbers of all vectors."""
        return self.size * (1 + len(self.latest))
