"""Strings to small integers: one hash table over spans of bytes.

Law. Two spans have one code exactly when their bytes are equal (hashes only lead to candidates, bytes decide); codes
count from 0 in the order of first appearance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray

from thence.kernels.arrays import Hashes, Ints, Letters, Number

FEW = 128
"""Names that there is room for at first; the table has twice as many places as there is room for names."""
SEED, PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
"""Of FNV-1a: `h = (h ^ byte) * PRIME` for each byte, beginning with `SEED`."""


@njit(cache=True, nogil=True)
def code_of(table: Ints, spans: Ints, hashes: Hashes, data: Letters, h: np.uint64, start: Number, end: Number) -> int:
    """Return the code of a span of bytes whose hash is `h`, or where in the table it belongs, counted down from -1."""
    at = np.int64(h & np.uint64(len(table) - 1))
    while True:
        code = table[at]
        if code < 0:
            return -1 - int(at)
        if hashes[code] == h and spans[code, 1] - spans[code, 0] == end - start:
            first = spans[code, 0]
            i = 0
            while i < end - start and data[first + i] == data[start + i]:
                i += 1
            if i == end - start:
                return int(code)
        at = (at + 1) & (len(table) - 1)


@njit(cache=True, nogil=True)
def enter(
    table: Ints, spans: Ints, hashes: Hashes, known: Number, code: Number, h: np.uint64, start: Number, end: Number
) -> None:
    """Enter the next name where `code_of` says it belongs."""
    table[-1 - code] = known
    spans[known, 0], spans[known, 1] = start, end
    hashes[known] = h


@njit(cache=True, nogil=True)
def grown(table: Ints, spans: Ints, hashes: Hashes) -> tuple[Ints, Ints, Hashes]:
    """Return all three with room for four times as many names."""
    return _widened(table, hashes), _longer_spans(spans), longer(hashes)


@njit(cache=True, nogil=True)
def _widened(table: Ints, hashes: Hashes) -> Ints:
    """Return a table of four times the size, in which all hashes have their places."""
    wide = np.full(4 * len(table), -1, np.int32)
    for code in range(len(hashes)):
        at = np.int64(hashes[code] & np.uint64(len(wide) - 1))
        while wide[at] >= 0:
            at = (at + 1) & (len(wide) - 1)
        wide[at] = code
    return wide


@njit(cache=True, nogil=True)
def longer(array: Any) -> Any:
    """Return an array that begins with this one and is four times as long; its type is that of the array."""
    wide = np.empty(4 * len(array), array.dtype)
    for i in range(len(array)):  # one by one: to copy a slice takes seconds to compile
        wide[i] = array[i]
    return wide


@njit(cache=True, nogil=True)
def _longer_spans(spans: Ints) -> Ints:
    wide = np.empty((4 * len(spans), 2), np.int32)
    for i in range(len(spans)):
        wide[i, 0], wide[i, 1] = spans[i, 0], spans[i, 1]
    return wide


@njit(cache=True, nogil=True)
def _gather(data: Letters, spans: Ints, offsets: Ints, letters: Letters) -> None:
    for row in range(len(spans)):
        at = offsets[row]
        for i in range(spans[row, 0], spans[row, 1]):
            letters[at] = data[i]
            at += 1


def gathered(data: Letters, spans: Ints) -> pa.StringArray:
    """Return spans of bytes as texts; one that begins below 0 is null."""
    offsets = np.zeros(len(spans) + 1, np.int32)
    np.cumsum(spans[:, 1] - spans[:, 0], out=offsets[1:])
    letters = np.empty(offsets[-1], np.uint8)
    _gather(data, spans, offsets, letters)
    nulls = pa.array(spans[:, 0] >= 0).buffers()[1] if bool(np.any(spans[:, 0] < 0)) else None
    return pa.StringArray.from_buffers(len(spans), pa.py_buffer(offsets), pa.py_buffer(letters), nulls)


def buffers(column: pa.StringArray | pa.BinaryArray) -> tuple[Ints, Letters]:
    """Return where each text begins and ends, and the bytes of all."""
    _, offsets, data = column.buffers()
    places = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return places, np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)


def intern(column: pa.StringArray) -> tuple[NDArray[np.int32], pa.StringArray]:
    """Return the code of each row, -1 for null, and the text of each code, in the order they are first met."""
    coded = column.dictionary_encode()
    return pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False), coded.dictionary
