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
Clocks = NDArray[np.signedinteger]
"""Vector clocks, a row for each: of 32 or of 64 bits, as the greatest index wants."""

S = TypeVar("S", bound=np.generic)


def fixed(array: NDArray[S]) -> NDArray[S]:
    """Return a view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view
