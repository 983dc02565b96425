"""Krishnamurthy and Mukund, Discussion: a clock T_pq for each channel in place of one clock for each process.

Invariant: T_pq ticks at p's messages to q and at nothing else. GOSSIP[r] is what r knows of all clocks, as far as this
member knows: n³ timestamps, on every copy and at every member. What p knows of T_rq is then the latest message of r to
q that p knows of, so SENT is a part of GOSSIP; a copy of p is delivered at q once no T_rq that p knew of at the send is
later than the latest message of r delivered here. Who knows more of any clock of r knows more of r, and its rows of r
are taken over whole. A send is deferred while one of its channels has B messages in the present epoch of its clock.

When a clock enters its next epoch the text leaves open, and either reading breaks a promise (errata 30):

- *Once all processes are known to know of the present one* (`ChannelClocks`). Then stamps that are compared lie at most
  one epoch apart, by the argument of lemma 4.1 for each clock alone, and nothing needs ageing: a stamp of T_rq is never
  older than r's latest message to q. But a process that has stopped, or only never hears of a channel, ends all epochs
  of that channel, and with B messages acknowledged nothing more may be sent.
- *Once the receiver is known to know of it* (`ReceiverAlone`): an epoch is then as long as there are unacknowledged
  messages, and who has stopped does no harm. But a third process may know of an epoch long gone, whose value comes
  round: its copies are held forever, and a fourth that takes its word for later forgets what it must wait for.

Needs a fixed membership. Departures: multicast ticks the clock of each destination; no process addresses itself (its
own copies would have to acknowledge themselves).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import ClassVar

from thence.core.model.message import MESSAGE, Cause, Copy
from thence.core.model.roster import Roster, positions
from thence.core.protocols.base import Member, Receiver
from thence.core.protocols.effects import Deferred, Deliver, Effect, Hold, Pending, Sent
from thence.core.protocols.epochs import ThreeEpochs
from thence.core.protocols.timestamp_vectors import MATRIX, NULL, PACKED_ROW, MatrixRow
from thence.core.protocols.wire import CopyShape
from thence.core.wire.codec import INT, MASK, RecordShape, Seq, Shape, Vector
from thence.core.wire.sets import Rename
from thence.errors import MisuseError

ClockMatrix = tuple[MatrixRow, ...]
"""timestamps of all clocks: [p][q] is that of T_pq"""
TIMES = ThreeEpochs()
CLOCK_KINDS: dict[str, Shape] = {MESSAGE: RecordShape(Vector(MATRIX, make=tuple), PACKED_ROW)}
"""(GOSSIP before the send, the sender's own clocks after it)"""


class ChannelReceiver(Receiver):
    """The delivery test: nothing that the sender knew to be on its way here is missing."""

    fields: ClassVar[dict[str, Shape]] = {"deliv": Vector(INT), "got": Vector(INT), "held": Seq(CopyShape(CLOCK_KINDS))}

    def __init__(self, roster: Roster, me: int) -> None:
        super().__init__(roster, me)
        self.deliv = [NULL] * self.size
        self.got = [0] * self.size
        """number of messages of each process delivered here: names causes, is never compared"""
        self.held: list[Copy] = []

    def receive(self, copy: Copy) -> list[Effect]:
        """Deliver an arrival and what it sets free, in order of arrival, or hold it."""
        if unmet := self._unmet(copy):
            self.held.append(copy)
            return [Hold(copy, tuple(Cause(self.roster.name(r), t, pairwise=True) for r, t in unmet))]
        effects: list[Effect] = []
        ready: Copy | None = copy
        while ready is not None:
            effects.append(Deliver(ready))
            self.deliv[ready.sender] = ready.stamp[1][self.me]
            self.got[ready.sender] += 1
            ready = next((each for each in self.held if not self._unmet(each)), None)
            if ready is not None:
                self.held.remove(ready)
        return effects

    def _unmet(self, copy: Copy) -> list[tuple[int, int]]:
        known: ClockMatrix = copy.stamp[0][copy.sender]
        late = [r for r, row in enumerate(known) if TIMES.later(row[self.me], self.deliv[r])]
        return [(r, self.got[r] + 1) for r in late]

    def pending(self) -> list[tuple[Copy, list[tuple[int, int]]]]:
        """Return held copies with what they wait for."""
        return [(copy, self._unmet(copy)) for copy in self.held]

    def freeze(self, rename: Rename) -> Hashable:
        """Leave out the numbers of what was delivered: the protocol compares none of them."""
        return tuple(self.fields[name].freeze(getattr(self, name), rename) for name in ("deliv", "held"))


class ChannelClocks(Member):
    """A clock for each channel; its epoch ends once every process is known to know of it."""

    name = "channel-clocks"
    code = 127
    pairwise = True
    options: ClassVar[dict[str, Shape]] = {"bound": INT}
    kinds: ClassVar[dict[str, Shape]] = CLOCK_KINDS
    fields: ClassVar[dict[str, Shape]] = {
        "gossip": Vector(MATRIX),
        "epoch": Vector(INT),
        "sends": Vector(INT),
        "waiting": Seq(RecordShape(INT, MASK)),
        "tickets": INT,
    }
    receiver: ChannelReceiver

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None, bound: int = 16) -> None:
        """Take B, the messages of a channel in an epoch; all members must be given the same."""
        super().__init__(roster, process, label=label)
        self.bound = bound
        self.receiver = ChannelReceiver(roster, self.me)
        self.gossip: list[ClockMatrix] = [((NULL,) * self.size,) * self.size] * self.size
        self.epoch = [0] * self.size
        self.sends = [0] * self.size
        self.waiting: list[tuple[int, int]] = []
        self.tickets = 0

    def witnesses(self, destination: int) -> list[int]:
        """Return who must know of the present epoch of the clock of a channel before the next begins."""
        return [r for r in range(self.size) if r != self.me]

    # -- sending ---------------------------------------------------------------------------------------------------

    def _send(self, destinations: int, context: object, token: object) -> Sent | Deferred:
        self._no_context(context)
        if destinations & self.bit:
            raise MisuseError(f"protocol {self.name} has no channel from a process to itself")
        if not self.waiting and not self._used_up(destinations):
            return self._stamped(destinations)
        self.tickets += 1
        self.waiting.append((self.tickets, destinations))
        awaited = self._awaited(destinations)
        return Deferred(self.tickets, destinations, awaited, f"{self.bound} sends of an epoch are used", self.label)

    def _used_up(self, destinations: int) -> list[int]:
        return [d for d in positions(destinations) if self.sends[d] >= self.bound]

    def _stamped(self, destinations: int) -> Sent:
        self.count += 1
        before, own = tuple(self.gossip), list(self.gossip[self.me][self.me])
        for d in positions(destinations):
            self.sends[d] += 1
            own[d] = TIMES.stamp(self.epoch[d], self.sends[d])
        stamp = (before, tuple(own))
        self._know(self.me, self.me, tuple(own))
        return self._sent(destinations, lambda d: stamp)

    def _know(self, r: int, s: int, row: MatrixRow) -> None:
        """Set what r is known to know of the clocks of s."""
        self.gossip[r] = (*self.gossip[r][:s], row, *self.gossip[r][s + 1 :])

    # -- receiving -------------------------------------------------------------------------------------------------

    def _received(self, copy: Copy) -> list[Effect]:
        effects = super()._received(copy)
        while self.waiting and not self._used_up(self.waiting[0][1]):
            ticket, destinations = self.waiting.pop(0)
            effects.append(replace(self._stamped(destinations), ticket=ticket))
        return effects

    def _delivered(self, copy: Copy) -> list[Effect]:
        gossip, own = copy.stamp
        p, known_here = copy.sender, self.gossip[self.me]
        known_there = (*gossip[p][:p], own, *gossip[p][p + 1 :])
        for r in range(self.size):
            if r != self.me and any(map(TIMES.later, known_there[r], known_here[r])):  # best(r) = p
                self._know(self.me, r, known_there[r])
                self.gossip[r] = known_there if r == p else gossip[r]
        self._turn()
        return []

    def _turn(self) -> None:
        """Let each clock whose epoch is known where it must be enter the next."""
        for d, epoch in enumerate(self.epoch):
            if d != self.me and all(TIMES.in_epoch(self.gossip[r][self.me][d], epoch) for r in self.witnesses(d)):
                self.epoch[d] = (epoch + 1) % TIMES.values
                self.sends[d] = 0

    def _awaited(self, destinations: int) -> tuple[str, ...]:
        late = {
            r
            for d in self._used_up(destinations)
            for r in self.witnesses(d)
            if not TIMES.in_epoch(self.gossip[r][self.me][d], self.epoch[d])
        }
        return tuple(self.roster.name(r) for r in sorted(late))

    def _deferred(self) -> list[Pending]:
        me = self.roster.name(self.me)
        return [
            Pending("send", None, me, (), self._awaited(to), "sends of an epoch are used", self.label, ticket)
            for ticket, to in self.waiting
        ]

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count the timestamps of a stamp: n³ + n."""
        n = len(copy.stamp[1])
        return n**3 + n


class ReceiverAlone(ChannelClocks):
    """An epoch of T_pq ends once q is known to know of it: as long as there are unacknowledged messages."""

    name = "channel-clocks-acked"
    code = 128

    def witnesses(self, destination: int) -> list[int]:
        """Return the receiver as the only witness."""
        return [destination]
