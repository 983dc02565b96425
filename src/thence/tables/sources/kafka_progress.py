"""Progress of a group in a partition whose records finish out of order, also as the metadata of a commit.

*Invariant.* The committed offset is that of the first record that is not settled. The metadata names the settled ones
beyond it, and a ceiling: no record from the ceiling on has been given to a handler. So after a crash a record below
the ceiling that is not settled may have been handled before, and one from the ceiling on has not.
"""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

PROGRESS_VERSION = "thence1"
WINDOW = 5000
"""records that may be given to handlers before the next commit"""
PAUSE_AT = 3 / 4
"""the part of the metadata's limit at which reading pauses; what runs by then has room in the rest"""
OffsetSpan = tuple[int, int]


class Committed(NamedTuple):
    """The progress in a commit: everything before `first` and in the spans is settled."""

    first: int
    ceiling: int
    spans: tuple[OffsetSpan, ...]

    def settled(self, offset: int) -> bool:
        """Return whether the record at an offset was settled."""
        if offset < self.first:
            return True
        at = bisect_right(self.spans, (offset, 1 << 62)) - 1
        return at >= 0 and offset < self.spans[at][1]

    @property
    def metadata(self) -> str:
        """The text that stands beside the offset."""
        numbers, before = [self.ceiling - self.first], self.first
        for start, end in self.spans:
            numbers += [start - before, end - start]
            before = end
        return f"{PROGRESS_VERSION} {base64.b85encode(b''.join(map(_varint, numbers))).decode()}"


def read_commit(first: int, metadata: str | None) -> Committed:
    """Read a commit; one of another tool, as one that resets a group, says only where to begin."""
    word, _, text = (metadata or "").partition(" ")
    if word != PROGRESS_VERSION:
        return Committed(first, first, ())
    ahead, *widths = _numbers(base64.b85decode(text))
    spans, at = list[OffsetSpan](), first
    for gap, width in zip(widths[::2], widths[1::2], strict=True):
        spans.append((at + gap, at + gap + width))
        at += gap + width
    return Committed(first, first + ahead, tuple(spans))


class Progress:
    """The records of one partition that were read, and which of them are settled."""

    def __init__(self, before: Committed | None, limit: int) -> None:
        """`before`: what the last commit said; `limit`: the longest metadata that the broker takes."""
        self.before, self.limit = before, limit
        self.next = -1 if before is None else before.first
        self.ceiling = -1 if before is None else before.ceiling
        self.full = False
        self._read: dict[int, bool] = {}  # from the first that is not settled, in order

    def take(self, offset: int) -> bool:
        """Take a record that was read; return whether it is to be handled: it was not settled by an earlier commit."""
        settled = self.before is not None and self.before.settled(offset)
        self.next = offset + 1
        if not settled or self._read:
            self._read[offset] = settled
        return not settled

    def repeated(self, offset: int) -> bool:
        """Return whether a record may have been handled before."""
        return self.before is not None and offset < self.before.ceiling

    def settle(self, offset: int) -> None:
        """Note that a record needs no handling any more."""
        if offset in self._read:
            self._read[offset] = True
        while self._read:
            first = next(iter(self._read))
            if not self._read[first]:
                break
            del self._read[first]

    @property
    def first(self) -> int:
        """The offset of the first record that is not settled: what a commit says."""
        return next(iter(self._read), self.next)

    @property
    def open(self) -> int:
        """The number of records that were read and are not settled."""
        return sum(not settled for settled in self._read.values())

    def commit(self) -> Committed:
        """Return what to commit: as many of the settled records as the metadata has room for."""
        first = self.first
        spans = [*_spans(self._read.items())]
        # after a restart the last commit's spans hold for what has not been read again
        later = () if self.before is None else self.before.spans
        spans += [(max(start, self.next), end) for start, end in later if end > self.next]
        ceiling = max(self.ceiling, first)
        found = Committed(first, ceiling, tuple(spans[: _fitting(first, ceiling, spans, self.limit)]))
        self.full = len(found.spans) < len(spans) or len(found.metadata) > self.limit * PAUSE_AT
        return found


def _fitting(first: int, ceiling: int, spans: list[OffsetSpan], limit: int) -> int:
    """Return how many spans metadata of this length has room for."""
    places = limit - len(PROGRESS_VERSION) - 1
    room = places // 5 * 4 + max(places % 5 - 1, 0) - len(_varint(ceiling - first))  # base 85: 4 bytes in 5 characters
    before = first
    for count, (start, end) in enumerate(spans):
        room -= len(_varint(start - before)) + len(_varint(end - start))
        before = end
        if room < 0:
            return count
    return len(spans)


def _spans(read: Iterable[tuple[int, bool]]) -> Iterable[OffsetSpan]:
    """Yield the runs of settled offsets. An offset that no record has, as a transaction's end, divides no run."""
    start = end = -1
    for offset, settled in read:
        if settled:
            start, end = (offset if start < 0 else start), offset + 1
        elif start >= 0:
            yield start, end
            start = -1
    if start >= 0:
        yield start, end


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _numbers(data: bytes) -> list[int]:
    found, number, shift = list[int](), 0, 0
    for byte in data:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            found.append(number)
            number = shift = 0
    return found
