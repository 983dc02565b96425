"""The texts of a state as Arrow has them, and back: one buffer of bytes and where each text ends."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thence.delivery.packing import Texts
from thence.delivery.state import Sources


def to_texts(column: pa.Array) -> Texts:
    """Return an Arrow column of texts as a state keeps it."""
    column = column.cast(pa.large_string())
    if not len(column):
        return Texts.of(())
    offsets = np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column) + 1]
    data = column.buffers()[2]
    start, end = int(offsets[0]), int(offsets[-1])
    return Texts(offsets[1:] - start, b"" if data is None else data.slice(start, end - start).to_pybytes())


def from_texts(texts: Sources) -> pa.StringArray:
    """Return texts that a state keeps as an Arrow column."""
    if not isinstance(texts, Texts):
        return pa.array(list(texts), pa.string())
    ends = np.concatenate([[0], np.asarray(texts.ends, np.int64)])
    made = pa.LargeStringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(texts.data))
    return made.cast(pa.string())
