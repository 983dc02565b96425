"""The kinds of arrays that kernels take and give: names for types, so that a signature says what an array holds."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Bytes = NDArray[np.int8]
Letters = NDArray[np.uint8]
Hashes = NDArray[np.uint64]
Flags = NDArray[np.bool_]
Doubles = NDArray[np.float64]
Records = NDArray[np.void]
"""One record for each row or source, its fields by name. Compiled functions hand these on, and no tuples of arrays:
of a tuple each array's references are counted at each mention, by an operation that cores agree upon.
"""
Clocks = NDArray[np.signedinteger]
"""Vector clocks, a row for each: of 32 or of 64 bits, as the greatest index wants."""

S = TypeVar("S", bound=np.generic)


def fixed(array: NDArray[S]) -> NDArray[S]:
    """Return a view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


Number = int | np.integer
"""A number, of Python or out of an array."""


def places_in(start: Longs, length: Longs) -> Longs:
    """Return the places of many spans, one after the other."""
    total = int(length.sum())
    if not total:
        return np.zeros(0, np.int64)
    ends = np.cumsum(length)
    found: Longs = np.repeat(start - (ends - length), length) + np.arange(total, dtype=np.int64)
    return found
