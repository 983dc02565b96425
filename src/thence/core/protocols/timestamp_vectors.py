"""Vector clocks and rows of timestamps as tuples: shared, never changed in place; rows are packed on the wire."""

from __future__ import annotations

from functools import lru_cache

from thence.core.model.roster import positions
from thence.core.wire.codec import Shape, Vector
from thence.core.wire.reader_cy import Reader
from thence.core.wire.sets import Rename

MatrixRow = tuple[int, ...]
NULL = 0
"""The time of the event that never was: before every other, a value of its own."""
Time = tuple[int, ...]
"""one number for each process"""


def component(time: Time, process: int) -> int:
    """Return the component of a process in a time; 0 if the process joined later."""
    return time[process] if process < len(time) else 0


class PackedRow(Shape):
    """A timestamp for each position, all in the bit width of the largest, which is written first."""

    def write(self, value: MatrixRow, out: bytearray, size: int) -> None:
        out += _row_bytes(value)

    def read(self, reader: Reader) -> MatrixRow:
        """Read a row of the roster's size and insist on its least width."""
        row: MatrixRow = reader.packed()
        return row

    def freeze(self, value: MatrixRow, rename: Rename) -> MatrixRow:
        if rename is None:
            return tuple(value)
        moved = [NULL] * len(value)
        for old, stamp in enumerate(value):
            moved[rename[old]] = stamp
        return tuple(moved)


@lru_cache(maxsize=1 << 12)
def _row_bytes(row: MatrixRow) -> bytes:
    width = max(row, default=0).bit_length()
    if width == 0:
        return b"\0"
    bits = "".join([format(stamp, f"0{width}b") for stamp in row])
    return bytes([width]) + int(bits, 2).to_bytes((len(bits) + 7) // 8, "big")


@lru_cache(maxsize=64)
def zeros(size: int) -> MatrixRow:
    """Return a row of null stamps."""
    return (NULL,) * size


def put(row: MatrixRow, mask: int, stamp: int) -> MatrixRow:
    """Return the row with this stamp at the positions of a mask."""
    changed = list(row)
    for position in positions(mask):
        changed[position] = stamp
    return tuple(changed)


PACKED_ROW = PackedRow()
MATRIX = Vector(PACKED_ROW, make=tuple)
