"""The whole causal history of message ids, as in Psync (Peterson, Buchholz and Schlichting, 1989), for multicast.

Invariant: a message carries the id and the destinations of every message in its causal past. A copy is delivered at d
when every message of its history that is addressed to d has been delivered.

Needs a fixed membership. Cost: grows with the run; the yardstick of what the other protocols leave out.

A causal past holds a prefix of each sender's messages, so a history is one *past* per sender: how many messages, and
their destinations in order. Pasts are immutable and shared; taking over a longer one is all there is to a merge.
Each keeps the encoded sets, so writing a stamp copies bytes instead of encoding the run again.

Departures: Psync broadcasts within a conversation and sends only the ids of direct predecessors; with multicast a
destination could not look the rest up, so all of it travels.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar, NamedTuple

from thence.core.model.message import MESSAGE, Copy, MessageId
from thence.core.model.roster import Roster
from thence.core.protocols.effects import Effect, Sent
from thence.core.protocols.receiver import ClockMember, Needs
from thence.core.wire.codec import Shape, Vector
from thence.core.wire.reader_cy import Reader
from thence.core.wire.sets import Rename, mask_bytes, rename_mask
from thence.core.wire.words_cy import put_varint
from thence.errors import PeerError


class SenderHistory(NamedTuple):
    """The destinations of the first messages of one sender, in order, as sets and as they are written."""

    masks: tuple[int, ...] = ()
    written: bytes = b""

    def then(self, destinations: int, size: int) -> SenderHistory:
        """Return the past with one message more."""
        return SenderHistory((*self.masks, destinations), self.written + mask_bytes(destinations, size))

    def latest(self, me: int) -> int:
        """Return the number of the newest message to a process; 0 if there is none."""
        bit, count = 1 << me, len(self.masks)
        return next((count - back for back, mask in enumerate(reversed(self.masks)) if mask & bit), 0)


class _PastShape(Shape):
    def write(self, value: SenderHistory, out: bytearray, size: int) -> None:
        put_varint(out, len(value.masks))
        out += value.written

    def read(self, reader: Reader) -> SenderHistory:
        count = reader.length()
        start = reader.at
        masks = tuple(reader.masks(count))
        return SenderHistory(masks, reader.raw[start : reader.at])

    def freeze(self, value: SenderHistory, rename: Rename) -> Hashable:
        return tuple(rename_mask(mask, rename) for mask in value.masks)


class History(ClockMember):
    """All ids of the causal past."""

    name = "history"
    code = 9
    kinds: ClassVar[dict[str, Shape]] = {MESSAGE: Vector(_PastShape(), make=tuple)}
    fields: ClassVar[dict[str, Shape]] = {"pasts": Vector(_PastShape(), make=tuple)}

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None) -> None:
        super().__init__(roster, process, label=label)
        self.pasts = (SenderHistory(),) * self.size

    @staticmethod
    def needs(copy: Copy, me: int) -> Needs:
        """The newest message of each sender in the history that is addressed here; older ones come before it."""
        return [(sender, newest) for sender, past in enumerate(copy.stamp) if (newest := past.latest(me))]

    def _send(self, destinations: int, context: object, token: object) -> Sent:
        self._no_context(context)
        self.count += 1
        stamp = self.pasts  # Stamp with the whole past
        sent = self._sent(destinations, lambda d: stamp)
        self.pasts = self._extended(stamp, self.me, destinations)  # Add one's own message
        return sent

    def _check(self, copy: Copy) -> None:
        known = len(copy.stamp[copy.sender].masks)
        if known != copy.count - 1:
            raise PeerError(f"the history of {self._name(copy)} holds {known} messages of its sender")
        if not self.pasts[self.me].written.startswith(copy.stamp[self.me].written):
            name = self.roster.name(self.me)
            raise PeerError(f"the history of {self._name(copy)} says of {name} what {name} did not send")

    def _check_state(self) -> None:
        known = len(self.pasts[self.me].masks)
        if known != self.count:
            raise PeerError(f"snapshot with a history of {known} messages of a member that has sent {self.count}")

    def _delivered(self, copy: Copy) -> list[Effect]:
        theirs = copy.stamp
        if len(theirs[copy.sender].masks) >= len(self.pasts[copy.sender].masks):
            theirs = self._extended(theirs, copy.sender, copy.destinations)  # Add what was delivered
        self.pasts = tuple(
            [
                ours if len(ours.masks) >= len(other.masks) else other
                for ours, other in zip(self.pasts, theirs, strict=True)
            ]
        )
        return []

    def _extended(self, pasts: tuple[SenderHistory, ...], sender: int, destinations: int) -> tuple[SenderHistory, ...]:
        return (*pasts[:sender], pasts[sender].then(destinations, self.size), *pasts[sender + 1 :])

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count the message ids that a stamp carries."""
        return sum(len(past.masks) for past in copy.stamp)

    @classmethod
    def facts(cls, copy: Copy) -> int:
        """Count the pairs (message, destination)."""
        return sum(mask.bit_count() for past in copy.stamp for mask in past.masks)

    @classmethod
    def paper_bytes(cls, copy: Copy) -> int:
        """An id (2 + 4) and destinations (2 each)."""
        return 6 * cls.entries(copy) + 2 * cls.facts(copy)

    @classmethod
    def dependencies(cls, copy: Copy) -> list[tuple[MessageId, int]]:
        """Return the whole history in the clear: every message of the causal past."""
        return [
            (MessageId(sender, count), mask)
            for sender, past in enumerate(copy.stamp)
            for count, mask in enumerate(past.masks, 1)
        ]

    def log_size(self) -> int:
        """Count the message ids that this member keeps."""
        return sum(len(past.masks) for past in self.pasts)
