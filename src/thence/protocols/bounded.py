"""Krishnamurthy and Mukund, Protocol 4: at most B sends an epoch, so that every time-stamp is bounded.

Law. As `epochs`, and a send that would be the (B + 1)-th of its epoch is deferred. Deferred sends leave,
oldest first and at most B of them, when the next epoch begins; later sends queue behind them.

Needs a fixed membership, and traffic that keeps coming back: **it can deadlock**. A process enters its next
epoch only when it knows that everybody knows of this one, and knowledge travels on messages alone. If all
who must tell are deferred themselves, or silent, nothing moves again: with B = 1, `a!1>b b<a1 b!1>c c<b1
c!1>b b<c1` leaves nobody able to send (errata 23); two processes do it with B = 2. A larger B makes it
rarer, not impossible. Drivers recognize it by quiescence: nothing is under way and `pending()` still
explains a deferred send, naming the processes whose gossip it awaits.

Gives causal order, waiting for causes only. Cost: 2n² time-stamps of at most log2(3B + 1) bits, whatever the
length of the run.

What is not bounded: the `count` in the header of every stamp, by which the application and every other part of thence
name a message, and the counts `seen` and `got` of the receiver, by which repeats are told from new copies and causes
are named. They grow by one for each message, 7 bits a byte on the wire. The protocol itself compares none of them; the
paper's network repeats nothing, and its messages have no names.

Departures: those of `epochs`, and `t < B` where the text says `t <= B`, which would let B + 1 sends pass
(errata 23).
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from thence.errors import MisuseError
from thence.model.codec import INT, MASK, Record, Seq, Shape
from thence.model.message import Copy
from thence.model.roster import Roster
from thence.protocols.effects import Deferred, Effect, Pending, Sent
from thence.protocols.epochs import Epochs

REASON = "all {bound} sends of this epoch are used; the next begins when these are known to know of it"


class Bounded(Epochs):
    """Protocol 4 with bound B."""

    name = "bounded"
    code = 22
    options: ClassVar[dict[str, Shape]] = {"bound": INT}
    fields: ClassVar[dict[str, Shape]] = {
        **Epochs.fields,
        "waiting": Seq(Record(INT, MASK)),
        "tickets": INT,
    }

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None, bound: int = 16) -> None:
        """Take B, the number of sends in an epoch; all members must be given the same."""
        if not isinstance(bound, int) or bound < 1:
            raise MisuseError(f"bound {bound!r} sends in an epoch; it must be at least 1")
        super().__init__(roster, process, label=label)
        self.bound = bound
        self.waiting: list[tuple[int, int]] = []
        self.tickets = 0

    def _used_up(self) -> bool:
        return self.ticks >= self.bound  # Proceed only if T.t < B

    def _send(self, destinations: int, context: object, token: object) -> Sent | Deferred:
        self._no_context(context)
        if not self.waiting and not self._used_up():
            return self._stamped(destinations)
        self.tickets += 1
        self.waiting.append((self.tickets, destinations))
        return Deferred(self.tickets, destinations, self._awaited(), self._reason(), self.label)

    def _received(self, copy: Copy) -> list[Effect]:
        """Take a copy, and once all it sets free is delivered, let go what a new epoch permits."""
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
