"""KS98 section 7.1, unicasts with synchronous communication: no control information at all.

Invariant: a send is over when its message has been delivered; until the acknowledgement has come, further sends
are deferred and then leave one by one, oldest first. See `acknowledging.py` for why this is causal order.

Needs unicasts only and a fixed membership. Waits for no cause: what arrives is delivered. What it costs is
time: one message per process and round trip, and one acknowledgement per message.

Departures: the process goes on delivering while it waits; only its sends block. That is enough, since
nothing it delivers can leave it before the acknowledgement.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from thence.core.model.roster import Roster
from thence.core.protocols.acknowledging import AcknowledgingMember
from thence.core.protocols.effects import Deferred, Effect, Pending, Sent
from thence.core.wire.codec import INT, PROCESS, RecordShape, Seq, Shape


class Synchronous(AcknowledgingMember):
    """A member whose send event waits until the message before was received."""

    name = "synchronous"
    code = 32
    fields: ClassVar[dict[str, Shape]] = {
        **AcknowledgingMember.fields,
        "waiting": Seq(RecordShape(INT, PROCESS)),
        "tickets": INT,
    }

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None) -> None:
        super().__init__(roster, process, label=label)
        self.waiting: list[tuple[int, int]] = []
        self.tickets = 0

    def _send(self, destinations: int, context: object, token: object) -> Sent | Deferred:
        self._no_context(context)
        destination = self._one(destinations)
        if self.away is None:
            return self._now(destination)
        self.tickets += 1
        self.waiting.append((self.tickets, destination))  # Wait for the delivery of the message before
        awaited = (self.roster.name(self.away[1]),)
        return Deferred(self.tickets, destinations, awaited, self._reason(), self.label)

    def _now(self, destination: int) -> Sent:
        self.count += 1
        self.away = None if self.receiver.abandoned >> destination & 1 else (self.count, destination)
        return self._sent(1 << destination, lambda d: ())

    def _freed(self) -> list[Effect]:
        effects: list[Effect] = []
        while self.waiting and self.away is None:
            ticket, destination = self.waiting.pop(0)
            effects.append(replace(self._now(destination), ticket=ticket))  # Send what waited
        return effects

    def _deferred(self) -> list[Pending]:
        if self.away is None:
            return []
        me, awaited, reason = self.roster.name(self.me), (self.roster.name(self.away[1]),), self._reason()
        return [
            Pending("send", None, me, processes=awaited, reason=reason, label=self.label, ticket=ticket)
            for ticket, _ in self.waiting
        ]

    def log_size(self) -> int:
        """Count the sends that wait."""
        return len(self.waiting)
