"""Shapes: one description of a value serves the wire, snapshots, forks and canonical states.

Law. For every shape and every value v of it: `read(write(v)) == v`; the reader accepts no other bytes for v (numbers in
their shortest form, keys ascending, sets in their shortest form), so bytes that decode encode back to themselves; and
whatever else arrives raises `PeerError`. A decoded value is never larger than a constant times its bytes.

Integers are little-endian base 128. A set over a small roster is its mask; over a larger one the shortest of sorted
ids, bit set and sorted ids of the complement.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any, ClassVar

from thence.errors import PeerError
from thence.model.roster import positions

Rename = Sequence[int] | None
"""New position of each old one, or None for no renaming."""

MAX_BYTES = 1 << 24
SMALL_ROSTER = 14
_MAX_VARINT = (1 << 63) - 1


def put_varint(out: bytearray, value: int) -> None:
    """Append a non-negative integer."""
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def put_varints(out: bytearray, values: Sequence[int]) -> None:
    """Append many integers; the common case, all below 128, in one step."""
    if not values:
        return
    if max(values) < 128:
        out += bytes(values)
    else:
        for value in values:
            put_varint(out, value)


class Reader:
    """A strict cursor over bytes from outside."""

    __slots__ = ("at", "data", "end", "size")

    def __init__(self, data: bytes, size: int) -> None:
        """Read `data` under a roster of `size` processes."""
        if len(data) > MAX_BYTES:
            raise PeerError(f"{len(data)} bytes are more than the {MAX_BYTES} accepted")
        self.data, self.at, self.end, self.size = data, 0, len(data), size

    def take(self, count: int) -> bytes:
        """Take that many bytes."""
        if count > self.end - self.at:
            raise PeerError(f"ends after {self.end} bytes, {count} more expected at {self.at}")
        self.at += count
        return self.data[self.at - count : self.at]

    def varint(self) -> int:
        """Take an integer in its shortest form."""
        data, at = self.data, self.at
        if at < self.end and data[at] < 128:
            self.at = at + 1
            return data[at]
        value = shift = 0
        while True:
            if at >= self.end:
                raise PeerError(f"ends within an integer at byte {at}")
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
            if shift > 63:
                raise PeerError(f"integer before byte {at} is larger than 63 bits")
        if value > _MAX_VARINT:
            raise PeerError(f"integer before byte {at} is larger than 63 bits")
        if byte == 0 and shift:
            raise PeerError(f"integer before byte {at} is not in its shortest form")
        self.at = at
        return value

    def flag(self) -> bool:
        """Take a byte that is 0 or 1."""
        value = self.varint()
        if value > 1:
            raise PeerError(f"{value} at byte {self.at} is neither 0 nor 1")
        return bool(value)

    def length(self) -> int:
        """Take a count of things of at least one byte each; it cannot exceed what is left."""
        count = self.varint()
        if count > self.end - self.at:
            raise PeerError(f"{count} items announced at byte {self.at}, {self.end - self.at} bytes are left")
        return count

    def done(self) -> None:
        """Insist that nothing is left."""
        if self.at != self.end:
            raise PeerError(f"{self.end - self.at} bytes too many after byte {self.at}")


class Shape:
    """How a value is written, read, compared under renaming, and copied."""

    def write(self, value: Any, out: bytearray, size: int) -> None:
        """Append the value; `size` is the number of positions in the roster."""
        raise NotImplementedError

    def read(self, reader: Reader) -> Any:
        """Read one value or raise `PeerError`."""
        raise NotImplementedError

    def freeze(self, value: Any, rename: Rename) -> Hashable:
        """Return a hashable twin with positions renamed."""
        raise NotImplementedError

    def fork(self, value: Any) -> Any:
        """Return a copy that can change alone; immutable values return themselves."""
        return value


class _Int(Shape):
    def write(self, value: Any, out: bytearray, size: int) -> None:
        put_varint(out, value)

    def read(self, reader: Reader) -> int:
        return reader.varint()

    def freeze(self, value: Any, rename: Rename) -> Hashable:
        return int(value)


class _Bool(_Int):
    def read(self, reader: Reader) -> bool:
        return reader.flag()


class _Text(Shape):
    def write(self, value: Any, out: bytearray, size: int) -> None:
        data = value.encode()
        put_varint(out, len(data))
        out += data

    def read(self, reader: Reader) -> str:
        data = reader.take(reader.length())
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise PeerError(f"text before byte {reader.at} is not UTF-8: {error.reason}") from None

    def freeze(self, value: Any, rename: Rename) -> Hashable:
        return str(value)


class _Process(Shape):
    def write(self, value: Any, out: bytearray, size: int) -> None:
        put_varint(out, value)

    def read(self, reader: Reader) -> int:
        value = reader.varint()
        if value >= reader.size:
            raise PeerError(f"position {value} at byte {reader.at} is outside a roster of {reader.size}")
        return value

    def freeze(self, value: Any, rename: Rename) -> Hashable:
        return int(value) if rename is None else rename[value]


class _Mask(Shape):
    def write(self, value: Any, out: bytearray, size: int) -> None:
        out += mask_bytes(value, size)

    def read(self, reader: Reader) -> int:
        return read_mask(reader)

    def freeze(self, value: Any, rename: Rename) -> Hashable:
        return rename_mask(value, rename)


class Optional(Shape):
    """A value or None."""

    def __init__(self, shape: Shape) -> None:
        """Wrap the shape of the value that may be absent."""
        self.shape = shape

    def write(self, value: Any, out: bytearray, size: int) -> None:
        """Write a flag, then the value if there is one."""
        out.append(value is not None)
        if value is not None:
            self.shape.write(value, out, size)

    def read(self, reader: Reader) -> Any:
        """Read the flag and the value."""
        return self.shape.read(reader) if reader.flag() else None

    def freeze(self, value: Any, rename: Rename) -> Hashable:
        """Freeze the value or None."""
        return None if value is None else self.shape.freeze(value, rename)

    def fork(self, value: Any) -> Any:
        """Fork the value or None."""
        return None if value is None else self.shape.fork(value)


class Record(Shape):
    """A tuple with a shape for each place."""

    def __init__(self, *shapes: Shape, make: Callable[..., Any] | None = None) -> None:
        """Take the shapes in order; `make` builds another type than tuple from the values."""
        self.shapes = shapes
        self.make = make

    def write(self, value: Any, out: bytearray, size: int) -> None:
        """Write the parts one after the other."""
        for shape, part in zip(self.shapes, value, strict=True):
            shape.write(part, out, size)

    def read(self, reader: Reader) -> Any:
        """Read the parts."""
        parts = tuple(shape.read(reader) for shape in self.shapes)
        return parts if self.make is None else self.make(*parts)

    def freeze(self, value: Any, rename: Rename) -> Hashable:
        """Freeze the parts."""
        return tuple(shape.freeze(part, rename) for shape, part in zip(self.shapes, value, strict=True))

    def fork(self, value: Any) -> Any:
        """Fork the parts."""
        parts = tuple(shape.fork(part) for shape, part in zip(self.shapes, value, strict=True))
        return parts if self.make is None else self.make(*parts)


class Seq(Shape):
    """A list (or tuple) of any length in an order that matters."""

    def __init__(self, shape: Shape, *, make: type = list) -> None:
        """Take the shape of the items and the type to build."""
        self.shape, self.make = shape, make

    def write(self, value: Any, out: bytearray, size: int) -> None:
        """Write the length and the items."""
        put_varint(out, len(value))
        for item in value:
            self.shape.write(item, out, size)

    def read(self, reader: Reader) -> Any:
        """Read the items."""
        return self.make(self.shape.read(reader) for _ in range(reader.length()))

    def freeze(self, value: Any, rename: Rename) -> Hashable:
        """Freeze the items in order."""
        return tuple(self.shape.freeze(item, rename) for item in value)

    def fork(self, value: Any) -> Any:
        """Fork the items."""
        return self.make(self.shape.fork(item) for item in value)


class Vector(Shape):
    """One value for each position; renaming moves the values along."""

    def __init__(self, shape: Shape, *, make: type = list) -> None:
        """Take the shape of the values and the type to build."""
        self.shape, self.make = shape, make

    def write(self, value: Any, out: bytearray, size: int) -> None:
        """Write the values without a length: the roster says it. What is older than a join is padded with zeros."""
        if self.shape is INT:
            put_varints(out, value)
            out += bytes(size - len(value))
            return
        for item in value:
            self.shape.write(item, out, size)
        for _ in range(size - len(value)):
            self.shape.write(() if isinstance(self.shape, Vector) else 0, out, size)

    def read(self, reader: Reader) -> Any:
        """Read one value for each position of the roster."""
        if reader.size > reader.end - reader.at:
            raise PeerError(f"a vector of {reader.size} values cannot fit in {reader.end - reader.at} bytes")
        return self.make([self.shape.read(reader) for _ in range(reader.size)])

    def freeze(self, value: Any, rename: Rename) -> Hashable:
        """Freeze the values in renamed order."""
        frozen = [self.shape.freeze(item, rename) for item in value]
        if rename is None:
            return tuple(frozen)
        moved: list[Hashable] = [None] * len(frozen)
        for old, item in enumerate(frozen):
            moved[rename[old]] = item
        return tuple(moved)

    def fork(self, value: Any) -> Any:
        """Copy the vector, and the values where they can change."""
        if self.make is tuple:
            return value
        if type(self.shape).fork is Shape.fork:
            return value[:]
        return [self.shape.fork(item) for item in value]


class ByProcess(Shape):
    """A dict from position to value; its order of insertion does not count."""

    def __init__(self, shape: Shape) -> None:
        """Take the shape of the values."""
        self.shape = shape

    def write(self, value: Any, out: bytearray, size: int) -> None:
        """Write the pairs by ascending position."""
        put_varint(out, len(value))
        for position in sorted(value):
            put_varint(out, position)
            self.shape.write(value[position], out, size)

    def read(self, reader: Reader) -> dict[int, Any]:
        """Read pairs whose positions ascend."""
        found: dict[int, Any] = {}
        last = -1
        for _ in range(reader.length()):
            position = PROCESS.read(reader)
            if position <= last:
                raise PeerError(f"position {position} at byte {reader.at} follows {last}; they must ascend")
            found[position] = self.shape.read(reader)
            last = position
        return found

    def freeze(self, value: Any, rename: Rename) -> Hashable:
        """Freeze as a set of pairs."""
        return frozenset((PROCESS.freeze(p, rename), self.shape.freeze(v, rename)) for p, v in value.items())

    def fork(self, value: Any) -> Any:
        """Copy the dict, and the values where they can change."""
        if type(self.shape).fork is Shape.fork:
            return value.copy()
        return {position: self.shape.fork(item) for position, item in value.items()}


class ByCount(Shape):
    """A dict from a number to a value, written by ascending number as differences."""

    def __init__(self, shape: Shape) -> None:
        """Take the shape of the values."""
        self.shape = shape

    def write(self, value: Any, out: bytearray, size: int) -> None:
        """Write the pairs by ascending number."""
        put_varint(out, len(value))
        last = -1
        for count in sorted(value):
            put_varint(out, count - last - 1)
            self.shape.write(value[count], out, size)
            last = count

    def read(self, reader: Reader) -> dict[int, Any]:
        """Read the pairs."""
        found: dict[int, Any] = {}
        last = -1
        for _ in range(reader.length()):
            last += reader.varint() + 1
            found[last] = self.shape.read(reader)
        return found

    def freeze(self, value: Any, rename: Rename) -> Hashable:
        """Freeze as pairs in order."""
        return tuple((count, self.shape.freeze(value[count], rename)) for count in sorted(value))

    def fork(self, value: Any) -> Any:
        """Copy the dict, and the values where they can change."""
        if type(self.shape).fork is Shape.fork:
            return value.copy()
        return {count: self.shape.fork(item) for count, item in value.items()}


class Entries(Shape):
    """A dependency log by sender: {sender: ((count, destinations), ...)} with counts ascending.

    A group is written as the sender, the number of its entries with destinations and whether one without follows last
    (KS98 keeps the newest entry of each sender even when it is empty, and nothing else that is), the newest count, the
    differences down from it, and the sets. Groups are immutable, so equal groups are encoded once and remembered.
    """

    def write(self, value: Any, out: bytearray, size: int) -> None:
        """Write the groups by ascending sender."""
        put_varint(out, len(value))
        for sender in sorted(value):
            out += _group_bytes(sender, value[sender], size)

    def read(self, reader: Reader) -> dict[int, tuple[tuple[int, int], ...]]:
        """Read groups whose senders ascend."""
        found: dict[int, tuple[tuple[int, int], ...]] = {}
        last = -1
        for _ in range(reader.length()):
            sender = PROCESS.read(reader)
            if sender <= last:
                raise PeerError(f"sender {sender} at byte {reader.at} follows {last}; they must ascend")
            found[sender] = _read_group(reader)
            last = sender
        return found

    def freeze(self, value: Any, rename: Rename) -> Hashable:
        """Freeze as a set of groups with their masks renamed."""
        if rename is None:
            return frozenset(value.items())
        return frozenset(
            (rename[sender], tuple((count, rename_mask(mask, rename)) for count, mask in group))
            for sender, group in value.items()
        )

    def fork(self, value: Any) -> Any:
        """Copy the dict; the groups are immutable."""
        return value.copy()


@lru_cache(maxsize=1 << 16)
def _group_bytes(sender: int, group: tuple[tuple[int, int], ...], size: int) -> bytes:
    out = bytearray()
    put_varint(out, sender)
    newest, mask = group[-1]
    empty = mask == 0
    put_varint(out, (len(group) - empty) << 1 | empty)
    put_varint(out, newest)
    later = newest
    for count, _ in reversed(group[:-1]):
        put_varint(out, later - count - 1)
        later = count
    for _, mask in group[:-1] if empty else group:
        out += mask_bytes(mask, size)
    return bytes(out)


def _read_group(reader: Reader) -> tuple[tuple[int, int], ...]:
    head = reader.varint()
    empty = head & 1
    length = (head >> 1) + empty
    if length == 0 or length > reader.end - reader.at:
        raise PeerError(f"a group of {length} entries at byte {reader.at} is not possible")
    counts = [reader.varint()]
    for _ in range(length - 1):
        counts.append(counts[-1] - reader.varint() - 1)
    if counts[-1] < 0:
        raise PeerError(f"counts before byte {reader.at} fall below zero")
    counts.reverse()
    masks = [read_mask(reader) for _ in range(length - empty)]
    if empty:
        masks.append(0)
    elif masks[-1] == 0:
        raise PeerError(f"the last entry before byte {reader.at} is empty but not marked so")
    return tuple(zip(counts, masks, strict=True))


@lru_cache(maxsize=1 << 16)
def mask_bytes(mask: int, size: int) -> bytes:
    """Return a set of positions in its shortest form."""
    out = bytearray()
    if size <= SMALL_ROSTER:
        put_varint(out, mask)
        return bytes(out)
    form = _shortest(mask, size)
    if form == 1:
        length = (mask.bit_length() + 7) // 8
        put_varint(out, length << 2 | 1)
        return bytes(out) + mask.to_bytes(length, "little")
    ids = mask if form == 0 else mask ^ (1 << size) - 1
    put_varint(out, ids.bit_count() << 2 | form)
    last = -1
    for position in positions(ids):
        put_varint(out, position - last - 1)
        last = position
    return bytes(out)


def _shortest(mask: int, size: int) -> int:
    """Choose among 0 ids, 1 bit set, 2 ids of the complement: the shortest, and of equals the first."""
    counts = mask.bit_count(), (mask.bit_length() + 7) // 8, size - mask.bit_count()
    lengths = [count + (1 if count < 32 else 2 if count < 4096 else 3) for count in counts]
    if size > 128:
        lengths[0] += _wide(mask)
        lengths[2] += _wide(mask ^ (1 << size) - 1)
    return lengths.index(min(lengths))


def _wide(mask: int) -> int:
    """Count the bytes that differences of 128 and more take beyond one each."""
    more, last = 0, -1
    for position in positions(mask):
        gap = position - last - 1
        while gap > 127:
            gap >>= 7
            more += 1
        last = position
    return more


def read_mask(reader: Reader) -> int:
    """Read a set of positions and insist on its shortest form."""
    size, start = reader.size, reader.at
    if size <= SMALL_ROSTER:
        mask = reader.varint()
        if mask >> size:
            raise PeerError(f"the set before byte {reader.at} reaches outside a roster of {size}")
        return mask
    head = reader.varint()
    form, length = head & 3, head >> 2
    if form == 3 or length > size:
        raise PeerError(f"no set of positions starts with {head} at byte {start}")
    if form == 1:
        data = reader.take(length)
        if not data or data[-1] == 0:
            raise PeerError(f"the bit set before byte {reader.at} ends in nothing")
        mask = int.from_bytes(data, "little")
    else:
        mask, last = 0, -1
        for _ in range(length):
            last += reader.varint() + 1
            mask |= 1 << last if last < size else 0
        if last >= size:
            raise PeerError(f"position {last} before byte {reader.at} is outside a roster of {size}")
        if form == 2:
            mask ^= (1 << size) - 1
    if mask >> size:
        raise PeerError(f"the set before byte {reader.at} reaches outside a roster of {size}")
    if form != _shortest(mask, size):
        raise PeerError(f"the set before byte {reader.at} is not in its shortest form")
    return mask


def rename_mask(mask: int, rename: Rename) -> int:
    """Move the bits of a mask."""
    if rename is None:
        return mask
    moved = 0
    for position in positions(mask):
        moved |= 1 << rename[position]
    return moved


class Fielded:
    """Something whose whole state is its declared fields; see `fork`, `freeze`, `dump`, `load`."""

    fields: ClassVar[dict[str, Shape]] = {}

    def dump(self, out: bytearray, size: int) -> None:
        """Append every field."""
        for name, shape in self.fields.items():
            shape.write(getattr(self, name), out, size)

    def load(self, reader: Reader) -> None:
        """Take every field from the reader."""
        for name, shape in self.fields.items():
            setattr(self, name, shape.read(reader))

    def freeze(self, rename: Rename) -> Hashable:
        """Return every field, frozen."""
        return tuple(shape.freeze(getattr(self, name), rename) for name, shape in self.fields.items())

    def fork_into(self, twin: Fielded) -> None:
        """Copy every field to a twin."""
        for name, shape in self.fields.items():
            setattr(twin, name, shape.fork(getattr(self, name)))


INT, BOOL, TEXT, PROCESS, MASK = _Int(), _Bool(), _Text(), _Process(), _Mask()
