"""Names that keep their codes: a growing table from texts to small integers.

Law. A text has one code for the life of the table, counted from 0 in the order of first appearance; null is -1. Hashes
only lead to candidates, bytes decide.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numba import njit

from thence.kernels.arrays import Flags, Hashes, Ints, Letters, Longs, fixed
from thence.kernels.interning import PRIME, SEED, buffers, longer

FEW = 64


@njit(cache=True)
def _rehashed(hashes: Hashes, known: int, places: int) -> Longs:
    table = np.full(places, -1, np.int64)
    for code in range(known):
        at = np.int64(hashes[code] & np.uint64(places - 1))
        while table[at] >= 0:
            at = (at + 1) & (places - 1)
        table[at] = code
    return table


@njit(cache=True)
def _same(data: Letters, first: int, letters: Letters, start: int, length: int) -> bool:
    i = 0
    while i < length and data[first + i] == letters[start + i]:
        i += 1
    return i == length


@njit(cache=True)
def _enter(
    data: Letters, ends: Longs, hashes: Hashes, table: Longs, known: int, offsets: Ints, letters: Letters, valid: Flags
) -> tuple[Longs, Letters, Longs, Hashes, Longs, int]:
    """Give each text its code, entering those that are new; whatever is full is grown and returned."""
    codes = np.empty(len(offsets) - 1, np.int64)
    for row in range(len(codes)):
        if len(valid) and not valid[row]:
            codes[row] = -1
            continue
        start, end = offsets[row], offsets[row + 1]
        h = SEED
        for i in range(start, end):
            h = (h ^ np.uint64(letters[i])) * PRIME
        h ^= h >> np.uint64(32)
        at = np.int64(h & np.uint64(len(table) - 1))
        code = table[at]
        while code >= 0:
            first = ends[code]
            alike = hashes[code] == h and ends[code + 1] - first == end - start
            if alike and _same(data, first, letters, start, end - start):
                break
            at = (at + 1) & (len(table) - 1)
            code = table[at]
        if code < 0:
            code = known
            known += 1
            used = ends[code]
            while used + end - start > len(data):
                data = longer(data)
            for i in range(start, end):
                data[used + i - start] = letters[i]
            if known + 1 >= len(ends):
                ends, hashes = longer(ends), longer(hashes)
            ends[known], hashes[code] = used + end - start, h
            table[at] = code
            if 2 * known > len(table):
                table = _rehashed(hashes, known, 4 * len(table))
        codes[row] = code
    return codes, data, ends, hashes, table, known


class Names:
    """Texts and their codes."""

    def __init__(self) -> None:
        """Know no text yet."""
        self._data = np.empty(16 * FEW, np.uint8)
        self._ends = np.zeros(FEW, np.int64)
        self._hashes = np.empty(FEW, np.uint64)
        self._table = np.full(2 * FEW, -1, np.int64)
        self._known = 0

    def __len__(self) -> int:
        """Return how many texts have a code."""
        return self._known

    def codes(self, column: pa.StringArray) -> Longs:
        """Return the code of each text."""
        if not len(column):
            return np.zeros(0, np.int64)
        offsets, letters = buffers(column)
        valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else np.zeros(0, np.bool_)
        made = _enter(
            self._data,
            self._ends,
            self._hashes,
            self._table,
            self._known,
            fixed(offsets),
            fixed(letters),
            valid,
        )
        codes, self._data, self._ends, self._hashes, self._table, self._known = made
        return codes

    def texts(self) -> pa.LargeStringArray:
        """Return every text, in the order of the codes; nothing is copied, since what is entered does not change."""
        ends = self._ends[: self._known + 1]
        return pa.LargeStringArray.from_buffers(self._known, pa.py_buffer(ends), pa.py_buffer(self._data))
