"""Krishnamurthy and Mukund, Protocol 4: at most B sends an epoch, so that every timestamp is bounded.

Invariant: as `epochs`, and a send that would be the (B + 1)-th of its epoch is deferred. Deferred sends leave,
oldest first and at most B of them, when the next epoch begins; later sends queue behind them.

Needs a fixed membership, and traffic that keeps coming back: **it can deadlock**. A process enters its next epoch only
when it knows that every process knows of this one, and knowledge travels on messages alone. If all processes with that
knowledge are deferred themselves, or silent, no message is sent again: with B = 1, `a!1>b b<a1 b!1>c c<b1 c!1>b b<c1`
leaves no process able to send (errata 23); two processes do it with B = 2. A larger B makes it rarer, not impossible.
Drivers recognize it by quiescence: nothing is under way and `pending()` still explains a deferred send, naming the
processes whose gossip it awaits.

Gives causal order, waiting for causes only. Cost: 2n² timestamps of at most log2(3B + 1) bits and n counts of at most
log2(2B + 1), whatever the length of the run: nothing on the wire grows.

Names. The paper's messages have none; ours are counted by their sender, and a count grows. So counts travel modulo 2B:
that of the message in the header, and for each other process that of its latest send that the sender knows of (whose
timestamp stands in the sender's row of GOSSIP). A member keeps the true count of the latest send of each process that
it has heard of. What it hears next is later by less than 2B, for no process enters an epoch before all have heard of
the one before; and a copy that arrives is earlier or later by less than 2B (Lemma 4.1), its timestamp says which.

What grows is in no stamp: the counts by which a member names messages to the application. There is no end of names, so
no bounded number of bits can give them out. The delivery test compares none of them. And repeats: stamps come round, so
no receiver can tell a repeat of any age from a new copy by its bytes. `decode` reads a copy not yet delivered as what
it is, and a repeat as long as no send of its sender two epochs later is known here; a network (or the links of a
runtime, which number what they deliver) must repeat nothing older.

Departures: those of `epochs`, and `t < B` where the text says `t <= B`, which would let B + 1 sends pass
(errata 23). The n counts modulo 2B are ours.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from thence.core.model.message import MESSAGE, Copy
from thence.core.model.roster import Roster
from thence.core.protocols.base import REACHED
from thence.core.protocols.effects import Deferred, Effect, Pending, Sent
from thence.core.protocols.epochs import Epochs
from thence.core.protocols.timestamp_vectors import MATRIX, PACKED_ROW, MatrixRow
from thence.core.protocols.wire import WIRE_VERSION
from thence.core.wire.codec import INT, MASK, RecordShape, Seq, Shape, Vector
from thence.errors import MisuseError, PeerError

REASON = "all {bound} sends of this epoch are used; the next begins when these are known to know of it"
LARGEST_BOUND = 1 << 32


class Bounded(Epochs):
    """Protocol 4 with bound B."""

    name = "bounded"
    code = 23
    cannot_abandon = "an epoch ends when every process is known to know of it, so that no process could send for long"
    kinds: ClassVar[dict[str, Shape]] = {MESSAGE: RecordShape(MATRIX, MATRIX, PACKED_ROW)}
    options: ClassVar[dict[str, Shape]] = {"bound": INT}
    fields: ClassVar[dict[str, Shape]] = {
        **Epochs.fields,
        "waiting": Seq(RecordShape(INT, MASK)),
        "tickets": INT,
        "latest": Vector(INT),
    }

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None, bound: int = 16) -> None:
        """Take B, the number of sends in an epoch; all members must be given the same."""
        if not isinstance(bound, int) or not 1 <= bound <= LARGEST_BOUND:
            raise MisuseError(f"bound {bound!r} sends in an epoch; it must be at least 1, and at most {LARGEST_BOUND}")
        super().__init__(roster, process, label=label)
        self.bound = bound
        self.waiting: list[tuple[int, int]] = []
        self.tickets = 0
        self.latest = [0] * self.size
        """the count of the latest send of each other process that is known here"""

    @property
    def longest(self) -> int:
        """The number of sends that an epoch can have."""
        return self.bound

    def _used_up(self) -> bool:
        return self.ticks >= self.longest  # Proceed only if T.t < B

    def _send(self, destinations: int, context: object, token: object) -> Sent | Deferred:
        self._no_context(context)
        if not self.waiting and not self._used_up():
            return self._stamped(destinations)
        self.tickets += 1
        self.waiting.append((self.tickets, destinations))
        return Deferred(self.tickets, destinations, self._awaited(), self._reason(), self.label)

    # -- counts, which travel modulo 2B ----------------------------------------------------------------------------

    def _short(self, count: int) -> int:
        """Return a count modulo 2B, from 1 to 2B; 0 means no message."""
        return (count - 1) % (2 * self.longest) + 1 if count else 0

    def _stamp(self) -> tuple[tuple[MatrixRow, ...] | MatrixRow, ...]:
        return *super()._stamp(), tuple([self._short(count) for count in self.latest])

    def encode(self, copy: Copy, version: int = WIRE_VERSION) -> bytes:
        """Return the stamp on the wire, the count of its message modulo 2B."""
        return super().encode(replace(copy, count=self._short(copy.count)), version)

    def decode(self, data: bytes, *, source: str | int) -> Copy:
        """Read the stamp of a copy that is not yet delivered here, and work out the count of its message."""
        copy = super().decode(data, source=source)
        if not 0 < copy.count <= 2 * self.longest:
            raise PeerError(
                f"a stamp with count {copy.count}; with a bound of {self.bound} 1 to {2 * self.longest} occur"
            )
        order = self if copy.label == self.label else self._orders.get(copy.label or "")
        if order is None:
            return copy
        count = order._counted(copy)
        if count < 1:  # it would precede the first message of its sender
            raise PeerError(f"a stamp with count {copy.count} of {self.roster.name(copy.sender)}, which has sent fewer")
        return replace(copy, count=count)

    def _counted(self, copy: Copy) -> int:
        """Return the count of a message whose header has it modulo 2B."""
        sender, turn = copy.sender, 2 * self.longest
        if sender == self.me:
            return self.count - (self.count - copy.count) % turn
        known, heard = self.latest[sender], self.gossip[self.me][sender]
        if self.times.later(copy.stamp[0][sender][sender], heard):
            return known + (copy.count - known) % turn
        return known - (known - copy.count) % turn

    def _delivered(self, copy: Copy) -> list[Effect]:
        gossip, _, shorts = copy.stamp
        turn, p = 2 * self.longest, copy.sender
        for r in self.times.newer(gossip[p], self.gossip[self.me], self.me):
            known = self.latest[r]
            self.latest[r] = copy.count if r == p else known + (shorts[r] - known) % turn
        return super()._delivered(copy)

    def _check(self, copy: Copy) -> None:
        super()._check(copy)
        gossip, sent, shorts = copy.stamp
        most = 3 * self.longest
        largest = max(max(map(max, gossip)), max(map(max, sent)))
        if largest > most or max(shorts) > 2 * self.longest or shorts[copy.sender]:
            raise PeerError(
                f"the stamp of {self._name(copy)} has timestamps up to {largest} and counts up to {max(shorts)}; with "
                f"a bound of {self.bound} they reach {most} and {2 * self.longest}, and its own is in the header"
            )

    def _check_state(self) -> None:
        super()._check_state()
        if max(self.latest) > REACHED or self.latest[self.me]:
            raise PeerError(f"snapshot that counts the messages of others as {self.latest}")

    # -- deferred sends --------------------------------------------------------------------------------------------

    def _received(self, copy: Copy) -> list[Effect]:
        """Take a copy, deliver everything it unblocks, then release the sends that a new epoch permits."""
        return super()._received(copy) + self._released()

    def _released(self) -> list[Effect]:
        effects: list[Effect] = []
        while self.waiting and not self._used_up():  # Also despatch all unsent messages in the buffer
            ticket, destinations = self.waiting.pop(0)
            effects.append(replace(self._stamped(destinations), ticket=ticket))
        return effects

    def _awaited(self) -> tuple[str, ...]:
        return tuple(map(self.roster.name, self._unaware()))

    def _reason(self) -> str:
        return REASON.format(bound=self.bound)

    def _deferred(self) -> list[Pending]:
        me, awaited, reason = self.roster.name(self.me), self._awaited(), self._reason()
        return [
            Pending("send", None, me, processes=awaited, reason=reason, label=self.label, ticket=ticket)
            for ticket, _ in self.waiting
        ]
