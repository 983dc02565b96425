"""Names that keep their codes: a growing table from texts to small integers.

Law. A text has one code for the life of the table, counted from 0 in the order of first appearance; null is -1. Hashes
only lead to candidates, bytes decide.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thence.kernels.arrays import Flags, Hashes, Ints, Letters, Longs, S, fixed
from thence.kernels.compiling import loop
from thence.kernels.interning import PRIME, SEED, buffers

FEW = 64


@loop
def _rehash(hashes: Hashes, known: int, table: Longs) -> None:
    """Give all hashes their places in an empty table."""
    for code in range(known):
        at = np.int64(hashes[code] & np.uint64(len(table) - 1))
        while table[at] >= 0:
            at = (at + 1) & (len(table) - 1)
        table[at] = code


@loop
def _enter(
    data: Letters, ends: Longs, hashes: Hashes, table: Longs, known: int, offsets: Ints, letters: Letters,
    valid: Flags, codes: Longs, row: int,
) -> tuple[int, int]:  # fmt: skip
    """Give each text from `row` on its code, entering those that are new as long as there is room for one more.

    Return the row that was reached, and how many texts are known.
    """
    while row < len(codes):
        if len(valid) and not valid[row]:
            codes[row] = -1
            row += 1
            continue
        start, length = np.int64(offsets[row]), np.int64(offsets[row + 1]) - np.int64(offsets[row])
        h = SEED
        for i in range(start, start + length):
            h = (h ^ np.uint64(letters[i])) * PRIME
        h ^= h >> np.uint64(32)
        at = np.int64(h & np.uint64(len(table) - 1))
        code = table[at]
        while code >= 0:
            first = ends[code]
            if hashes[code] == h and ends[code + 1] - first == length:
                i = 0
                while i < length and data[first + i] == letters[start + i]:
                    i += 1
                if i == length:
                    break
            at = (at + 1) & (len(table) - 1)
            code = table[at]
        if code < 0:
            used = ends[known]
            if used + length > len(data) or known + 1 >= len(ends) or 2 * known >= len(table):
                break
            code = known
            for i in range(length):
                data[used + i] = letters[start + i]
            ends[known + 1], hashes[known], table[at] = used + length, h, code
            known += 1
        codes[row] = code
        row += 1
    return row, known


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
        codes, row = np.empty(len(column), np.int64), 0
        while True:
            row, self._known = _enter(
                self._data, self._ends, self._hashes, self._table, self._known, fixed(offsets), fixed(letters), valid,
                codes, row,
            )  # fmt: skip
            if row == len(codes):
                return codes
            self._grow(int(offsets[row + 1] - offsets[row]))

    def _grow(self, length: int) -> None:
        """Make room for a text of so many bytes, and for many others."""
        used = int(self._ends[self._known])
        if used + length > len(self._data):
            self._data = _longer(self._data, 4 * (used + length))
        if self._known + 1 >= len(self._ends):
            self._ends, self._hashes = (
                _longer(self._ends, 4 * len(self._ends)),
                _longer(self._hashes, 4 * len(self._ends)),
            )
        if 2 * self._known >= len(self._table):
            self._table = np.full(4 * len(self._table), -1, np.int64)
            _rehash(self._hashes, self._known, self._table)

    def texts(self) -> pa.LargeStringArray:
        """Return every text, in the order of the codes; nothing is copied, since what is entered does not change."""
        ends = self._ends[: self._known + 1]
        return pa.LargeStringArray.from_buffers(self._known, pa.py_buffer(ends), pa.py_buffer(self._data))


def _longer(array: NDArray[S], size: int) -> NDArray[S]:
    """Return an array of a size that begins with this one."""
    made = np.empty(size, array.dtype)
    made[: len(array)] = array
    return made
