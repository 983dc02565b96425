"""Shapes: one description of a value serves the wire, snapshots, forks and canonical states.

Invariant: for every shape and every value v of it: `read(write(v)) == v`; the reader accepts no other bytes for v
(numbers in their shortest form, keys ascending, sets in their shortest form), so bytes that decode encode back to
themselves; and whatever else arrives raises `PeerError`. Time and memory of reading are linear in the bytes; a set
takes as many bits as the roster has positions.

Reading is one pass by the compiled `Reader`; `tests/support/slow_codec.py` reads byte by byte and judges it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, ClassVar, Self

from thence.core.wire.reader_cy import Reader
from thence.core.wire.sets import Rename, mask_bytes, rename_mask
from thence.core.wire.words_cy import put_pairs, put_varint, put_varints
from thence.errors import PeerError

LARGEST_COUNT = (1 << 63) - 1
Value = Any
"""What a shape describes. The shape is its type: reading checks it."""


class Shape:
    """Describes how a value is written, read, compared under renaming, and copied."""

    def write(self, value: Value, out: bytearray, size: int) -> None:
        """Append the value; `size` is the number of positions in the roster."""
        raise NotImplementedError

    def read(self, reader: Reader) -> Value:
        """Read one value or raise `PeerError`."""
        raise NotImplementedError

    def freeze(self, value: Value, rename: Rename) -> Hashable:
        """Return a hashable value with positions renamed."""
        raise NotImplementedError

    def fork(self, value: Value) -> Value:
        """Return an independent copy; immutable values return themselves."""
        return value

    def in_bits(self) -> Shape:
        """Return the shape of the same values in wire version 2, or itself if the form is the same."""
        return self


class _Int(Shape):
    def write(self, value: Value, out: bytearray, size: int) -> None:
        put_varint(out, value)

    def read(self, reader: Reader) -> int:
        return reader.varint()

    def freeze(self, value: Value, rename: Rename) -> Hashable:
        return int(value)


class _Bool(_Int):
    def read(self, reader: Reader) -> bool:
        return reader.flag()


class _Added(Shape):
    """A boolean that older bytes lack: absent means no, the byte 2 means yes. A flag, 0 or 1, must follow."""

    def write(self, value: Value, out: bytearray, size: int) -> None:
        if value:
            out.append(2)

    def read(self, reader: Reader) -> bool:
        """Read it if it is there."""
        there = reader.at < reader.end and reader.raw[reader.at] == 2
        reader.at += there
        return there

    def freeze(self, value: Value, rename: Rename) -> Hashable:
        return bool(value)


class _Text(Shape):
    def write(self, value: Value, out: bytearray, size: int) -> None:
        data = value.encode()
        put_varint(out, len(data))
        out += data

    def read(self, reader: Reader) -> str:
        data = reader.take(reader.length())
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise PeerError(f"text before byte {reader.at} is not UTF-8: {error.reason}") from None

    def freeze(self, value: Value, rename: Rename) -> Hashable:
        return str(value)


class _Process(Shape):
    def write(self, value: Value, out: bytearray, size: int) -> None:
        put_varint(out, value)

    def read(self, reader: Reader) -> int:
        value = reader.varint()
        if value >= reader.size:
            raise PeerError(f"position {value} at byte {reader.at} is outside a roster of {reader.size}")
        return value

    def freeze(self, value: Value, rename: Rename) -> Hashable:
        return int(value) if rename is None else rename[value]


class _Mask(Shape):
    def write(self, value: Value, out: bytearray, size: int) -> None:
        out += mask_bytes(value, size)

    def read(self, reader: Reader) -> int:
        mask: int = reader.mask()
        return mask

    def freeze(self, value: Value, rename: Rename) -> Hashable:
        return rename_mask(value, rename)


class Optional(Shape):
    """A value of a shape, or None."""

    def __init__(self, shape: Shape) -> None:
        """Wrap the shape of the value that may be absent."""
        self.shape = shape

    def write(self, value: Value, out: bytearray, size: int) -> None:
        """Write a flag, then the value if there is one."""
        out.append(value is not None)
        if value is not None:
            self.shape.write(value, out, size)

    def read(self, reader: Reader) -> Value:
        return self.shape.read(reader) if reader.flag() else None

    def freeze(self, value: Value, rename: Rename) -> Hashable:
        """Freeze the value or None."""
        return None if value is None else self.shape.freeze(value, rename)

    def fork(self, value: Value) -> Value:
        """Fork the value or None."""
        return None if value is None else self.shape.fork(value)


class RecordShape(Shape):
    """A tuple with a shape for each place."""

    def __init__(self, *shapes: Shape, make: Callable[..., Value] | None = None) -> None:
        """Take the shapes in order; `make` builds another type than tuple from the values."""
        self.shapes = shapes
        self.make = make
        self.numbers = all(type(shape) in (_Int, _Process) for shape in shapes)
        self.processes = [place for place, shape in enumerate(shapes) if type(shape) is _Process]

    def write(self, value: Value, out: bytearray, size: int) -> None:
        for shape, part in zip(self.shapes, value, strict=True):
            shape.write(part, out, size)

    def read(self, reader: Reader) -> Value:
        """Read the parts in their order, and make the record of them."""
        if self.numbers:
            parts = tuple(reader.numbers(len(self.shapes)))
            for place in self.processes:
                if parts[place] >= reader.size:
                    raise PeerError(
                        f"position {parts[place]} before byte {reader.at} is outside {reader.size} processes"
                    )
        else:
            parts = tuple([shape.read(reader) for shape in self.shapes])
        return parts if self.make is None else self.make(*parts)

    def freeze(self, value: Value, rename: Rename) -> Hashable:
        return tuple(shape.freeze(part, rename) for shape, part in zip(self.shapes, value, strict=True))

    def in_bits(self) -> Shape:
        """Take the other form of each part that has one."""
        shapes = [shape.in_bits() for shape in self.shapes]
        return RecordShape(*shapes, make=self.make) if shapes != list(self.shapes) else self

    def fork(self, value: Value) -> Value:
        parts = tuple(shape.fork(part) for shape, part in zip(self.shapes, value, strict=True))
        return parts if self.make is None else self.make(*parts)


class Seq(Shape):
    """A list (or tuple) of any length in an order that matters."""

    def __init__(self, shape: Shape, *, make: type = list) -> None:
        self.shape, self.make = shape, make

    def write(self, value: Value, out: bytearray, size: int) -> None:
        put_varint(out, len(value))
        for item in value:
            self.shape.write(item, out, size)

    def read(self, reader: Reader) -> Value:
        read = self.shape.read
        return self.make([read(reader) for _ in range(reader.length())])

    def freeze(self, value: Value, rename: Rename) -> Hashable:
        return tuple(self.shape.freeze(item, rename) for item in value)

    def fork(self, value: Value) -> Value:
        return self.make(self.shape.fork(item) for item in value)


class Vector(Shape):
    """One value for each position; renaming moves the values along."""

    def __init__(self, shape: Shape, *, make: type = list) -> None:
        self.shape, self.make = shape, make

    def write(self, value: Value, out: bytearray, size: int) -> None:
        """Write the values without a length, which the roster gives. Values older than a join are padded with zeros."""
        if self.shape is INT:
            put_varints(out, value)
            out += bytes(size - len(value))
            return
        for item in value:
            self.shape.write(item, out, size)
        for _ in range(size - len(value)):
            self.shape.write(() if isinstance(self.shape, Vector) else 0, out, size)

    def read(self, reader: Reader) -> Value:
        size, shape = reader.size, self.shape
        if size > reader.end - reader.at:
            raise PeerError(f"a vector of {size} values cannot fit in {reader.end - reader.at} bytes")
        if shape is INT:
            values = reader.numbers(size)
            return values if self.make is list else self.make(values)
        if isinstance(shape, Vector) and shape.shape is INT:
            values, make = reader.numbers(size * size), shape.make
            return self.make([make(values[at : at + size]) for at in range(0, size * size, size)])
        read = shape.read
        return self.make([read(reader) for _ in range(size)])

    def freeze(self, value: Value, rename: Rename) -> Hashable:
        """Freeze the values in renamed order."""
        frozen = [self.shape.freeze(item, rename) for item in value]
        if rename is None:
            return tuple(frozen)
        moved: list[Hashable] = [None] * len(frozen)
        for old, item in enumerate(frozen):
            moved[rename[old]] = item
        return tuple(moved)

    def fork(self, value: Value) -> Value:
        """Copy the vector, and the values where they can change."""
        if self.make is tuple:
            return value
        if type(self.shape).fork is Shape.fork:
            return value[:]
        return [self.shape.fork(item) for item in value]


class ByProcess(Shape):
    """A dict from position to value; its order of insertion does not count."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    def write(self, value: Value, out: bytearray, size: int) -> None:
        """Write the pairs by ascending position."""
        if self.shape is INT:
            put_pairs(out, value, size)
            return
        put_varint(out, len(value))
        for position in sorted(value):
            put_varint(out, position)
            self.shape.write(value[position], out, size)

    def read(self, reader: Reader) -> dict[int, Value]:
        """Read pairs whose positions ascend."""
        if self.shape is INT:
            pairs: dict[int, Value] = reader.pairs()
            return pairs
        if isinstance(self.shape, Vector) and self.shape.shape is INT and self.shape.make is tuple:
            vectors: dict[int, Value] = reader.vectors()
            return vectors
        found: dict[int, Value] = {}
        last, read = -1, self.shape.read
        for _ in range(reader.length()):
            last = reader.position(last)
            found[last] = read(reader)
        return found

    def freeze(self, value: Value, rename: Rename) -> Hashable:
        return frozenset((PROCESS.freeze(p, rename), self.shape.freeze(v, rename)) for p, v in value.items())

    def fork(self, value: Value) -> Value:
        """Copy the dict, and the values where they can change."""
        if type(self.shape).fork is Shape.fork:
            return value.copy()
        return {position: self.shape.fork(item) for position, item in value.items()}


class ByCount(Shape):
    """A dict from a number to a value, written by ascending number as differences."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    def write(self, value: Value, out: bytearray, size: int) -> None:
        """Write the pairs by ascending number."""
        put_varint(out, len(value))
        last = -1
        for count in sorted(value):
            put_varint(out, count - last - 1)
            self.shape.write(value[count], out, size)
            last = count

    def read(self, reader: Reader) -> dict[int, Value]:
        """Read the pairs, whose counts ascend."""
        found: dict[int, Value] = {}
        last = -1
        for _ in range(reader.length()):
            last += reader.varint() + 1
            if last > LARGEST_COUNT:
                raise PeerError(f"a count before byte {reader.at} is larger than 63 bits")
            found[last] = self.shape.read(reader)
        return found

    def freeze(self, value: Value, rename: Rename) -> Hashable:
        return tuple((count, self.shape.freeze(value[count], rename)) for count in sorted(value))

    def fork(self, value: Value) -> Value:
        """Copy the dict, and the values where they can change."""
        if type(self.shape).fork is Shape.fork:
            return value.copy()
        return {count: self.shape.fork(item) for count, item in value.items()}


class Fielded:
    """Something whose whole state is its declared fields; see `forked`, `freeze`, `dump`, `load`."""

    fields: ClassVar[dict[str, Shape]] = {}

    def dump(self, out: bytearray, size: int) -> None:
        """Append every declared field to the output, in order.

        Args:
            out: where the bytes go.
            size: the number of processes, from which the width of masks follows.
        """
        for name, shape in self.fields.items():
            shape.write(getattr(self, name), out, size)

    def load(self, reader: Reader) -> None:
        """Set every declared field from bytes that `dump` wrote.

        Args:
            reader: stands at the first byte of the fields.
        """
        for name, shape in self.fields.items():
            setattr(self, name, shape.read(reader))

    def freeze(self, rename: Rename) -> Hashable:
        """Return every declared field as a hashable value.

        Args:
            rename: the new position of each position; None keeps them.
        """
        return tuple(shape.freeze(getattr(self, name), rename) for name, shape in self.fields.items())

    def forked(self) -> Self:
        """Return a copy with fields of its own; all other attributes are shared."""
        forked = object.__new__(type(self))
        forked.__dict__.update(self.__dict__)
        self.fork_into(forked)
        return forked

    def fork_into(self, forked: Fielded) -> None:
        """Give another object copies of every declared field.

        Args:
            forked: the object that gets them.
        """
        for name, shape in self.fields.items():
            setattr(forked, name, shape.fork(getattr(self, name)))


INT, BOOL, ADDED, TEXT, PROCESS, MASK = _Int(), _Bool(), _Added(), _Text(), _Process(), _Mask()
