"""The whole causal history of message ids, as in Psync (Peterson, Buchholz and Schlichting, 1989), for multicast.

Law. A message carries the id and the destinations of every message in its causal past. A copy is delivered at d when
every message of its history that is addressed to d has been delivered.

Needs a fixed membership. Cost: grows with the run; the yardstick of what the other protocols leave out.

A causal past holds a prefix of each sender's messages, so a history is one *past* per sender: how many messages, and
their destinations in order. Pasts are immutable and shared; taking over a longer one is all there is to a merge.
Each keeps the encoded sets, so writing a stamp copies bytes instead of encoding the run again.

Departures: Psync broadcasts within a conversation and sends only the ids of direct predecessors; with multicast a
destination could not look the rest up, so all of it travels.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

from thence.errors import PeerError
from thence.model.codec import Reader, Rename, Shape, Vector, mask_bytes, put_varint, read_mask, rename_mask
from thence.model.message import MESSAGE, Copy, MessageId
from thence.model.roster import Roster, positions
from thence.protocols.base import Effect, Sent
from thence.protocols.receiver import ClockMember, Needs


@dataclass(frozen=True, slots=True)
class Past:
    """The first `count` messages of one sender; `latest[d]` is the newest of them that is addressed to d."""

    count: int
    sets: bytes
    facts: int
    latest: tuple[int, ...]

    def then(self, destinations: int) -> Past:
        """Return the past with one message more."""
        count = self.count + 1
        size = len(self.latest)
        latest = tuple(count if destinations >> d & 1 else self.latest[d] for d in range(size))
        return Past(count, self.sets + mask_bytes(destinations, size), self.facts + destinations.bit_count(), latest)

    def masks(self) -> list[int]:
        """Return the destinations of each message in order."""
        reader = Reader(self.sets, len(self.latest))
        return [read_mask(reader) for _ in range(self.count)]


class _PastShape(Shape):
    def write(self, value: Any, out: bytearray, size: int) -> None:
        put_varint(out, value.count)
        out += value.sets

    def read(self, reader: Reader) -> Past:
        count = reader.length()
        start, facts = reader.at, 0
        latest = [0] * reader.size
        for number in range(1, count + 1):
            mask = read_mask(reader)
            facts += mask.bit_count()
            for d in positions(mask):
                latest[d] = number
        return Past(count, reader.data[start : reader.at], facts, tuple(latest))

    def freeze(self, value: Any, rename: Rename) -> Hashable:
        return tuple(rename_mask(mask, rename) for mask in value.masks())


class History(ClockMember):
    """All ids of the causal past."""

    name = "history"
    code = 9
    kinds: ClassVar[dict[str, Shape]] = {MESSAGE: Vector(_PastShape(), make=tuple)}
    fields: ClassVar[dict[str, Shape]] = {"pasts": Vector(_PastShape(), make=tuple)}

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None) -> None:
        """Start with an empty past of everyone."""
        super().__init__(roster, process, label=label)
        self.pasts = (Past(0, b"", 0, (0,) * self.size),) * self.size

    @staticmethod
    def needs(copy: Copy, me: int) -> Needs:
        """The newest message of each sender in the history that is addressed here; older ones come before it."""
        return [(sender, past.latest[me]) for sender, past in enumerate(copy.stamp) if past.latest[me]]

    def _send(self, destinations: int, context: Any, token: Any) -> Sent:
        self._no_context(context)
        self.count += 1
        stamp = self.pasts
        copies = self._copies(destinations, lambda d: stamp)
        self.pasts = _extended(stamp, self.me, destinations)
        return Sent(MessageId(self.me, self.count), destinations, copies, self.label)

    def _check(self, copy: Copy) -> None:
        known = copy.stamp[copy.sender].count
        if known != copy.count - 1:
            raise PeerError(f"the history of {self._name(copy)} holds {known} messages of its sender")

    def _delivered(self, copy: Copy) -> list[Effect]:
        theirs = copy.stamp
        if theirs[copy.sender].count >= self.pasts[copy.sender].count:
            theirs = _extended(theirs, copy.sender, copy.destinations)
        self.pasts = tuple(
            mine if mine.count >= other.count else other for mine, other in zip(self.pasts, theirs, strict=True)
        )
        return []

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count the ids."""
        return sum(past.count for past in copy.stamp)

    @classmethod
    def facts(cls, copy: Copy) -> int:
        """Count the pairs (message, destination)."""
        return sum(past.facts for past in copy.stamp)

    @classmethod
    def paper_bytes(cls, copy: Copy) -> int:
        """An id (2 + 4) and destinations (2 each)."""
        return 6 * cls.entries(copy) + 2 * cls.facts(copy)

    @classmethod
    def dependencies(cls, copy: Copy) -> list[tuple[MessageId, int]]:
        """Return the whole history."""
        return [
            (MessageId(sender, count), mask)
            for sender, past in enumerate(copy.stamp)
            for count, mask in enumerate(past.masks(), 1)
        ]

    def log_size(self) -> int:
        """Count the ids."""
        return sum(past.count for past in self.pasts)


def _extended(pasts: tuple[Past, ...], sender: int, destinations: int) -> tuple[Past, ...]:
    return (*pasts[:sender], pasts[sender].then(destinations), *pasts[sender + 1 :])
