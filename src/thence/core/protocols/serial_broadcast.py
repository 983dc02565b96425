"""KS98 section 7.1, serialized broadcasts: one entry suffices.

Invariant: broadcasts are serialized by mutual exclusion: the process that sends holds the token, and the token names
the broadcast before. A copy carries that one name and is delivered after it. So all processes deliver the broadcasts of
the others in the order of the token, which is causal.

Needs broadcasts only (a send goes to all others), serialized sends (`send(token=...)` with what the previous
`Sent.token` was; the very first send takes None) and a fixed membership. Waits for more than causes: the
broadcast before may be no cause. Cost: one entry, (sender, count), on every copy; nothing is kept but the
delivered clock.

Departures: a process never receives its own broadcast, so the copy to the sender of the broadcast before
names the latest one of *another* sender instead; the token carries both. To take one's own broadcast as
delivered is unsafe, since one need not have delivered what came before it: `a!1>bc b!1>ac c<a1 c<b1 c!1>ab
b<c1` delivers c1 at b before a1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, TypeGuard

from thence.core.model.message import MESSAGE, Copy, MessageId
from thence.core.protocols.bss import check_broadcast
from thence.core.protocols.effects import Sent
from thence.core.protocols.receiver import ClockMember, Needs
from thence.core.protocols.serial_multicast import is_pair
from thence.core.protocols.wire import PAIR
from thence.core.wire.codec import Optional, RecordShape, Shape
from thence.errors import MisuseError

MessageNumber = tuple[int, int]
"""(sender, count)"""
PREVIOUS = Optional(PAIR)
BroadcastToken = tuple[MessageNumber, MessageNumber | None]
"""the broadcast before, and the latest one before it by another sender"""


class SerialBroadcast(ClockMember):
    """One entry: the broadcast before."""

    name = "serial-broadcast"
    code = 30
    entry_bytes = 6  # a sender and a timestamp
    kinds: ClassVar[dict[str, Shape]] = {MESSAGE: PREVIOUS}
    tokens: ClassVar[Shape] = RecordShape(PAIR, PREVIOUS)

    @staticmethod
    def needs(copy: Copy, me: int) -> Needs:
        """The broadcast before this one that comes here."""
        return () if copy.stamp is None else (copy.stamp,)

    def _send(self, destinations: int, context: object, token: object) -> Sent:
        self._no_context(context)
        check_broadcast(self, destinations)
        last, other = self._taken(token)  # Take the broadcast before from the token
        self.count += 1
        after: BroadcastToken = ((self.me, self.count), other if last is None or last[0] == self.me else last)
        return replace(self._sent(destinations, lambda d: self._previous(last, other, d)), token=after)

    def _previous(
        self, last: MessageNumber | None, other: MessageNumber | None, destination: int
    ) -> MessageNumber | None:
        """Return the latest broadcast that the destination receives."""
        return other if last is not None and last[0] == destination else last  # Name the latest one it receives

    def _check(self, copy: Copy) -> None:
        if copy.stamp is not None:
            self.check_known(copy, *copy.stamp)

    def _taken(self, token: object) -> tuple[MessageNumber | None, MessageNumber | None]:
        if token is None:
            if self.count or any(self.receiver.delivered):
                raise self._misused("is missing; only the very first send goes without")
            return None, None
        if not _is_token(token, self.size):
            raise self._misused(f"is {token!r}; it must be the token of the send before")
        last, other = token
        for sender, count in (last,) if other is None else (last, other):
            latest = self.count if sender == self.me else self.receiver.delivered[sender]
            if count < latest or (sender == self.me and count > latest):
                raise self._misused(f"is not the latest: it names {count} of {self.roster.name(sender)}, not {latest}")
        return last, other

    def _misused(self, what: str) -> MisuseError:
        return MisuseError(f"protocol {self.name} needs serialized sends: the token {what}")

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count the one entry; the first broadcast has none."""
        return int(copy.stamp is not None)

    @classmethod
    def dependencies(cls, copy: Copy) -> list[tuple[MessageId, int]]:
        """Return the broadcast before, as a message to this destination."""
        return [] if copy.stamp is None else [(MessageId(*copy.stamp), 1 << copy.destination)]


def _is_token(token: object, size: int) -> TypeGuard[BroadcastToken]:
    if not isinstance(token, tuple) or len(token) != 2:
        return False
    last, other = token
    return is_pair(last, size) and (other is None or is_pair(other, size))
