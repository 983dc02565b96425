"""Mattern and Fünfrocken, "A nonblocking lightweight implementation of causal order message delivery", 1995
(as KS98 sections 1 and 7.1 tell it): unicasts over an acknowledged transport.

Invariant: a process sends into its output buffer and goes on. The buffer lets one copy out at a time; the next
leaves when the input buffer of the destination has acknowledged the one before. See `acknowledging.py` for
why this is causal order.

Needs unicasts only and a fixed membership. Waits for no cause: what arrives is delivered. No control
information; what it costs is time, in the output buffer, and one acknowledgement per message.

Departures: here a member is input buffer and application at once, so arrival, acknowledgement and delivery
coincide. A `Sent` without copies means that the copy stands in the output buffer; it leaves later as a
`Transmit`.
"""

from __future__ import annotations

from typing import ClassVar

from thence.core.model.message import Copy, MessageId
from thence.core.model.message_names import name_of
from thence.core.model.roster import Roster
from thence.core.protocols.acknowledging import AcknowledgingMember
from thence.core.protocols.effects import Effect, Pending, Sent, Transmit
from thence.core.wire.codec import INT, PROCESS, RecordShape, Seq, Shape


class Acked(AcknowledgingMember):
    """The send event is at once; the copy waits in the output buffer."""

    name = "acked"
    code = 33
    fields: ClassVar[dict[str, Shape]] = {**AcknowledgingMember.fields, "buffer": Seq(RecordShape(INT, PROCESS))}

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None) -> None:
        super().__init__(roster, process, label=label)
        self.buffer: list[tuple[int, int]] = []

    def _send(self, destinations: int, context: object, token: object) -> Sent:
        self._no_context(context)
        destination = self._one(destinations)
        self.count += 1
        self.buffer.append((self.count, destination))  # Put the copy into the output buffer
        return Sent(MessageId(self.me, self.count), destinations, self._out(), self.label)

    def _out(self) -> tuple[Copy, ...]:
        """Let the oldest copy out if none is on its way; one to an abandoned process does not count as on its way."""
        copies: list[Copy] = []
        while self.buffer and self.away is None:
            count, destination = self.buffer.pop(0)
            self.away = None if self.receiver.abandoned >> destination & 1 else (count, destination)
            copies.append(Copy(self.me, count, 1 << destination, self.me, destination, (), self.label))  # Let it out
        return tuple(copies)

    def _check_state(self) -> None:
        super()._check_state()
        self.check_own(max((count for count, _ in self.buffer), default=0))

    def _freed(self) -> list[Effect]:
        copies = self._out()
        return [Transmit(copies)] if copies else []

    def _deferred(self) -> list[Pending]:
        if self.away is None:
            return []
        me, awaited, reason = self.roster.name(self.me), (self.roster.name(self.away[1]),), self._reason()
        return [
            Pending("send", name_of(me, count), me, processes=awaited, reason=reason, label=self.label)
            for count, _ in self.buffer
        ]

    def log_size(self) -> int:
        """Count the copies in the output buffer."""
        return len(self.buffer)
