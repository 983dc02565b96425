"""Strings to small integers, by Arrow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thence.tables.contract.numpy_types import Ints, Letters


def buffers(column: pa.StringArray | pa.BinaryArray) -> tuple[Ints, Letters]:
    """Return where each text begins and ends, and the bytes of all."""
    _, offsets, data = column.buffers()
    places = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return places, np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)


def intern(column: pa.StringArray) -> tuple[Ints, pa.StringArray]:
    """Return the code of each row, -1 for null, and the text of each code, in the order they are first met."""
    coded = column.dictionary_encode()
    return pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False), coded.dictionary
