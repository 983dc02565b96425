"""Strings to small integers: one hash table over the bytes of a column.

Law. Two rows have one code exactly when their bytes are equal (hashes only lead to candidates, bytes decide); codes
count from 0 in the order of first appearance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray


@njit(cache=True)
def _intern(offsets: Any, data: Any, valid: Any) -> Any:
    rows = len(offsets) - 1
    size = 16
    while size < 2 * rows:
        size *= 2
    table = np.full(size, -1, np.int32)
    hashes = np.empty(rows, np.uint64)
    codes = np.empty(rows, np.int32)
    firsts = np.empty(rows, np.int64)
    known = 0
    for row in range(rows):
        if len(valid) and not valid[row]:
            codes[row] = -1
            continue
        start, end = offsets[row], offsets[row + 1]
        h = np.uint64(0xCBF29CE484222325)
        for i in range(start, end):
            h = (h ^ np.uint64(data[i])) * np.uint64(0x100000001B3)
        h ^= h >> np.uint64(32)
        at = np.int64(h & np.uint64(size - 1))
        while True:
            code = table[at]
            if code < 0:
                table[at] = known
                firsts[known] = row
                hashes[known] = h
                codes[row] = known
                known += 1
                break
            if hashes[code] == h:
                first = offsets[firsts[code]]
                same = offsets[firsts[code] + 1] - first == end - start
                i = 0
                while same and i < end - start:
                    same = data[first + i] == data[start + i]
                    i += 1
                if same:
                    codes[row] = code
                    break
            at = (at + 1) & (size - 1)
    return codes, firsts[:known]


def intern(column: pa.StringArray) -> tuple[NDArray[np.int32], pa.StringArray]:
    """Return the code of each row, -1 for null, and the text of each code."""
    _, offsets, data = column.buffers()
    places = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    letters = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else np.zeros(0, np.bool_)
    codes, firsts = _intern(places, letters, valid)
    return codes, column.take(pa.array(firsts))
