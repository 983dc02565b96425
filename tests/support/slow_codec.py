"""The slow readers of stamps and of dependency logs in bits: they judge the fast ones.

One call for each field, no memory, no loops over bytes. Bits are read from a string of 0 and 1, by the definition in
docs/reference/wire.md.
"""

from __future__ import annotations

from typing import Any

from thence.core.model.message import MESSAGE, Copy
from thence.core.model.roster import HASH_BYTES, Roster
from thence.core.protocols.base import Member
from thence.core.protocols.counts_cy import packed
from thence.core.protocols.history import SenderHistory, _PastShape
from thence.core.protocols.prs import BY_SENDER, PackedPairs
from thence.core.protocols.timestamp_vectors import PACKED_ROW
from thence.core.protocols.wire import MOST_LABEL_BYTES, VERSIONS, CopyShape
from thence.core.wire.codec import (
    INT,
    MASK,
    PROCESS,
    TEXT,
    ByCount,
    ByProcess,
    Optional,
    RecordShape,
    Seq,
    Shape,
    Vector,
)
from thence.core.wire.entries import Entries, EntriesInBits
from thence.errors import PeerError

LARGEST = (1 << 63) - 1
Group = tuple[tuple[int, int], ...]


class SlowBits:
    """Reads the bits of some bytes, lowest of each byte first."""

    def __init__(self, data: bytes, size: int) -> None:
        self.bits, self.at, self.size = "".join(format(byte, "08b")[::-1] for byte in data), 0, size

    def get(self, count: int) -> int:
        self.at += count
        if self.at > len(self.bits):
            raise PeerError("too short")
        return int(self.bits[self.at - count : self.at][::-1] or "0", 2)

    def number(self, width: int) -> int:
        zeros = 0
        while self.get(1) == 0:
            zeros += 1
        if zeros > 63:
            raise PeerError("too large")
        high = (1 << zeros) + self.get(zeros) - 1
        value = (high << width) + self.get(width)
        if value > LARGEST:
            raise PeerError("too large")
        return value

    def one_of(self, count: int) -> int:
        """Every value has a code of `low` bits, or, from `short` on, of one more."""
        low = count.bit_length() - 1
        short = 2 ** (low + 1) - count
        value = self.get(low)
        return value if value < short else 2 * value + self.get(1) - short

    def places(self, count: int, low: int, high: int) -> list[int]:
        if count == 0:
            return []
        half = count // 2
        at = low + half + self.one_of(high - low - count + 2)
        before = self.places(half, low, at - 1)
        return [*before, at, *self.places(count - half - 1, at + 1, high)]

    def log(self) -> dict[int, Group]:
        senders = self.places(self.one_of(self.size + 1), 0, self.size - 1)
        if not senders:
            self.done()
            return {}
        wide, narrow = self.get(6), self.get(6)
        found: dict[int, Group] = {}
        changes: list[int] = []
        gaps: list[int] = []
        before = 0
        for sender in senders:
            head = self.number(0) + 1
            length = head // 2 + head % 2
            change = self.number(wide)
            if length > len(self.bits):
                raise PeerError("too many entries")
            if before:
                changes.append(change)
                change = -change if change and self.get(1) else change
            counts = [before + change]
            for _ in range(length - 1):
                gaps.append(self.number(narrow))
                counts.append(counts[-1] - gaps[-1] - 1)
            if counts[-1] < 1 or counts[0] > LARGEST:
                raise PeerError("counts that cannot be")
            masks = [self.mask() for _ in range(head // 2)] + [0] * (head % 2)
            found[sender] = tuple(zip(reversed(counts), masks, strict=True))
            before = counts[0]
        if (wide, narrow) != (width(changes), width(gaps)):
            raise PeerError("other widths")
        self.done()
        return found

    def mask(self) -> int:
        count = self.number(0) + 1
        if count > self.size:
            raise PeerError("too many destinations")
        return sum(1 << place for place in self.places(count, 0, self.size - 1))

    def done(self) -> None:
        if self.get(-self.at % 8):
            raise PeerError("bits that say nothing")


def width(numbers: list[int]) -> int:
    """One less than the mean number of bits, rounded half up."""
    total = sum(number.bit_length() for number in numbers)
    mean = int(total / len(numbers) + 0.5) if numbers else 0
    return max(0, mean - 1)


def varint(value: int) -> bytes:
    return bytes((value,)) if value < 128 else bytes((value & 127 | 128,)) + varint(value >> 7)


def shortest(mask: int, size: int) -> bytes:
    """Write a set in each of its forms and return the first of the shortest."""
    if size <= 14:
        return varint(mask)
    bits = mask.to_bytes((mask.bit_length() + 7) // 8, "little")
    inside = [place for place in range(size) if mask >> place & 1]
    outside = [place for place in range(size) if not mask >> place & 1]
    forms = [listed(inside, 0), varint(len(bits) << 2 | 1) + bits, listed(outside, 2)]
    return min(forms, key=len)


def listed(places: list[int], form: int) -> bytes:
    gaps = [after - before - 1 for before, after in zip([-1, *places], places, strict=False)]
    return varint(len(places) << 2 | form) + b"".join(map(varint, gaps))


class Slow:
    """A cursor that takes one byte after the other."""

    def __init__(self, data: bytes, size: int) -> None:
        self.data, self.size, self.at = data, size, 0

    def byte(self) -> int:
        if self.at >= len(self.data):
            raise PeerError("ends too early")
        self.at += 1
        return self.data[self.at - 1]

    def bytes(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise PeerError("ends too early")
        return bytes(self.byte() for _ in range(count))

    def number(self) -> int:
        found = [self.byte()]
        while found[-1] > 127:
            if len(found) > 9:
                raise PeerError("too large")
            found.append(self.byte())
        value = sum((byte & 127) << 7 * place for place, byte in enumerate(found))
        if value > LARGEST or (len(found) > 1 and found[-1] == 0):
            raise PeerError("too large or not in its shortest form")
        return value

    def length(self) -> int:
        count = self.number()
        if count > len(self.data) - self.at:
            raise PeerError("more announced than is left")
        return count

    def process(self) -> int:
        position = self.number()
        if position >= self.size:
            raise PeerError("outside the roster")
        return position

    def mask(self) -> int:
        """Read a set in any form, and accept it if it is written the same way."""
        start = self.at
        if self.size <= 14:
            mask = self.number()
        else:
            head = self.number()
            form, length = head & 3, head >> 2
            if form == 3 or length > self.size:
                raise PeerError("no set")
            if form == 1:
                mask = int.from_bytes(self.bytes(length), "little")
            else:
                mask = self.ids(length) ^ ((1 << self.size) - 1 if form == 2 else 0)
        if mask >> self.size or shortest(mask, self.size) != self.data[start : self.at]:
            raise PeerError("outside the roster or not in its shortest form")
        return mask

    def ids(self, length: int) -> int:
        mask, last = 0, -1
        for _ in range(length):
            last += self.number() + 1
            if last >= self.size:
                raise PeerError("outside the roster")
            mask |= 1 << last
        return mask

    def ascending(self, keys: list[int]) -> None:
        if keys != sorted(set(keys)):
            raise PeerError("not ascending")

    def group(self) -> tuple[tuple[int, int], ...]:
        head = self.number()
        empty, length = head & 1, (head >> 1) + (head & 1)
        if length == 0 or length > len(self.data) - self.at:
            raise PeerError("no group")
        counts = [self.number()]
        for _ in range(length - 1):
            counts.append(counts[-1] - self.number() - 1)
        if counts[-1] < 1:
            raise PeerError("counts below one")
        masks = [self.mask() for _ in range(length - empty)] + [0] * empty
        if not empty and masks[-1] == 0:
            raise PeerError("empty but not marked so")
        return tuple(zip(reversed(counts), masks, strict=True))

    def row(self) -> tuple[int, ...]:
        width = self.byte()
        if width > 63:
            raise PeerError("too wide")
        bits = "".join(format(byte, "08b") for byte in self.bytes((self.size * width + 7) // 8))
        spare = len(bits) - self.size * width
        row = tuple(int(bits[spare + at * width : spare + (at + 1) * width] or "0", 2) for at in range(self.size))
        if "1" in bits[:spare] or max(row).bit_length() != width:
            raise PeerError("not in its shortest form")
        return row

    def read(self, shape: Shape) -> Any:
        """Read a value of any shape, by the kind of shape."""
        if shape is INT:
            return self.number()
        if shape is PROCESS:
            return self.process()
        if shape is MASK:
            return self.mask()
        if shape is TEXT:
            try:
                return self.bytes(self.length()).decode()
            except UnicodeDecodeError:
                raise PeerError("no text") from None
        if shape is PACKED_ROW:
            return self.row()
        if isinstance(shape, PackedPairs):
            return packed(self.read(BY_SENDER).items())
        if isinstance(shape, EntriesInBits):
            bits = SlowBits(self.data[self.at :], self.size)
            log = bits.log()
            self.at += bits.at // 8
            return log
        if isinstance(shape, Entries):
            found = [(self.process(), self.group()) for _ in range(self.length())]
            self.ascending([sender for sender, _ in found])
            return dict(found)
        return self.composed(shape)

    def composed(self, shape: Shape) -> Any:
        if isinstance(shape, RecordShape):
            parts = tuple(self.read(part) for part in shape.shapes)
            return parts if shape.make is None else shape.make(*parts)
        if isinstance(shape, Optional):
            flag = self.number()
            if flag > 1:
                raise PeerError("neither 0 nor 1")
            return self.read(shape.shape) if flag else None
        if isinstance(shape, Seq):
            return shape.make([self.read(shape.shape) for _ in range(self.length())])
        if isinstance(shape, Vector):
            if self.size > len(self.data) - self.at:
                raise PeerError("a vector that cannot fit")
            return shape.make([self.read(shape.shape) for _ in range(self.size)])
        if isinstance(shape, ByProcess):
            found = [(self.process(), self.read(shape.shape)) for _ in range(self.length())]
            self.ascending([position for position, _ in found])
            return dict(found)
        if isinstance(shape, ByCount):
            table, last = {}, -1
            for _ in range(self.length()):
                last += self.number() + 1
                table[last] = self.read(shape.shape)
            if last > LARGEST:
                raise PeerError("too large")
            return table
        if isinstance(shape, CopyShape):
            kind, label = self.kind_and_label(list(shape.kinds))
            sender, count, source, here = self.process(), self.number(), self.process(), self.process()
            mask = self.mask()
            return Copy(sender, count, mask, source, here, self.read(shape.kinds[kind]), label, kind)
        assert isinstance(shape, _PastShape), f"there is no slow reader of {shape}"
        start_of_sets = self.length()
        start = self.at
        masks = tuple(self.mask() for _ in range(start_of_sets))
        return SenderHistory(masks, self.data[start : self.at])

    def kind_and_label(self, kinds: list[str]) -> tuple[str, str | None]:
        head = self.number()
        if head >> 1 >= len(kinds):
            raise PeerError("unknown kind")
        start = self.at
        label = self.read(TEXT) if head & 1 else None
        if self.at - start > MOST_LABEL_BYTES + 2:
            raise PeerError("a label that is too long")
        return kinds[head >> 1], label


def slow_decode(protocol: type[Member], data: bytes, roster: Roster, *, destination: int, source: int | None) -> Copy:
    """Read a stamp by the definition in docs/reference/wire.md."""
    if len(data) < 2 + HASH_BYTES or data[0] not in VERSIONS or data[1] != protocol.code:
        raise PeerError("no stamp of this protocol")
    known = [earlier for earlier in roster.lineage() if earlier.hash == data[2 : 2 + HASH_BYTES]]
    if not known or (known[0] != roster and not protocol.grows):
        raise PeerError("another roster")
    slow = Slow(data, len(known[0]))
    slow.at = 2 + HASH_BYTES
    kind, label = slow.kind_and_label(list(protocol.kinds))
    if source is None and kind != MESSAGE:
        raise PeerError("a protocol message without its source")
    sender, count, destinations = slow.process(), slow.number(), slow.mask()
    if count < 1 or not destinations:
        raise PeerError("a message that cannot be")
    shape = protocol.kinds[kind]
    if data[0] != 1:
        shape = shape.in_bits()
        if shape is protocol.kinds[kind]:
            raise PeerError("no such version")
    stamp = slow.read(shape)
    if slow.at != len(data):
        raise PeerError("more bytes than expected")
    return Copy(sender, count, destinations, sender if source is None else source, destination, stamp, label, kind)
