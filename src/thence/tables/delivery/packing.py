"""Columns of numbers and texts as bytes, for state that is written once per micro-batch.

*Invariant.* `unpack(pack(header, columns)) == (header, columns)`, but for columns that are empty, which are left out;
anything else raises `PeerError`. Numbers are 64-bit little-endian and start at multiples of 8, so that an array can be
laid over them without a copy. A column that repeats one number is stored as that number.
"""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import Any

from thence.core.model.plain import Fields, Row
from thence.errors import MisuseError, PeerError

MAGIC = b"thence-d"
VERSION = 2
_SWAP = sys.byteorder == "big"


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts as they are kept: where each ends, and the bytes of all."""

    ends: array[int]
    data: bytes

    @staticmethod
    def of(texts: Sequence[str]) -> Texts:
        """Return texts as one block of bytes with the end of each."""
        parts: Sequence[str | bytes] = texts
        data = "".join(texts).encode()
        if len(data) != sum(map(len, texts)):
            parts = [text.encode() for text in texts]
        return Texts(array("q", accumulate(map(len, parts))), data)

    def tolist(self) -> list[str]:
        """Return the texts as a list."""
        whole = self.data.decode()
        pairs = pairwise(chain((0,), self.ends))
        if len(whole) == len(self.data):
            return [whole[start:end] for start, end in pairs]
        return [self.data[start:end].decode() for start, end in pairs]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.ends)


Numbers = Sequence[int] | Sequence[float]
PackedColumn = tuple[str, Numbers | Texts | bytes]
"""A type and its values: q (whole numbers), d (numbers), s (texts), b (bytes)"""


def pack(header: Fields, columns: Mapping[str, PackedColumn]) -> bytes:
    """Write a header and named columns."""
    parts: list[bytes] = []
    index: list[tuple[str, str, int, int]] = []
    for name, (kind, values) in columns.items():
        if not len(values):
            continue
        if isinstance(values, Texts):
            index.append((name, "s", len(values), len(values.data)))
            parts += [_bytes("q", values.ends), _padded(values.data)]
        elif isinstance(values, bytes):
            index.append((name, "b", len(values), 0))
            parts.append(_padded(values))
        elif kind == "q" and (one := _constant(values)) is not None:
            index.append((name, "c", len(values), one))
        else:
            index.append((name, kind, len(values), 0))
            parts.append(_bytes(kind, values))
    head = json.dumps({"header": header, "columns": index}, separators=(",", ":")).encode()
    prefix = MAGIC + bytes((VERSION, 0, 0, 0)) + len(head).to_bytes(4, "little")
    return b"".join([prefix, _padded(head), *parts])


def unpack(data: bytes | memoryview) -> tuple[Row, Row]:
    """Read what `pack` wrote; number columns come back as `array`, texts as `Texts`, bytes as bytes."""
    data = memoryview(data)
    if bytes(data[:8]) != MAGIC or len(data) < 16:
        raise PeerError(f"not a delivery state: starts with {bytes(data[:8])!r}, expected {MAGIC!r}")
    if data[8] != VERSION:
        raise MisuseError(
            f"this state was written in format {data[8]}, and this release reads format {VERSION}: begin with a new "
            "checkpoint or snapshot"
        )
    at = 16 + int.from_bytes(data[12:16], "little")
    try:
        head = json.loads(bytes(data[16:at]))
        header, index = head["header"], head["columns"]
        at += -at % 8
        columns: Row = {}
        for name, kind, length, more in index:
            columns[name], at = _read(data, at, kind, length, more)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise PeerError(f"delivery state is damaged: {error}") from None
    return header, columns


def _read(data: memoryview, at: int, kind: str, length: int, more: int) -> tuple[Numbers | Texts | bytes, int]:
    if length < 0 or (length > 8 * len(data) and kind != "c"):
        raise ValueError(f"{length} values in {len(data)} bytes")
    if kind == "c":
        return array("q", [more]) * length, at
    if kind == "b":
        return bytes(_whole(data[at : at + length], length)), at + length + -length % 8
    numbers = array("d" if kind == "d" else "q")
    numbers.frombytes(_whole(data[at : at + 8 * length], 8 * length))
    if _SWAP:
        numbers.byteswap()
    at += 8 * length
    if kind != "s":
        return numbers, at
    return Texts(numbers, bytes(_whole(data[at : at + more], more))), at + more + -more % 8


def _whole(part: memoryview, length: int) -> memoryview:
    if len(part) != length:
        raise ValueError("it ends early")
    return part


def _constant(values: Any) -> int | None:
    """Return the number that a column repeats, or None."""
    if len(values) < 2:
        return None
    first = values[0]
    return int(first) if values[-1] == first and all(value == first for value in values) else None


def _bytes(kind: str, values: Numbers) -> bytes:
    numbers = array(kind, values)
    if _SWAP:
        numbers.byteswap()
    return numbers.tobytes()


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)
