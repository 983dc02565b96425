"""Rows by key, in arrival order: the one rule of a batch in this process, a Spark batch and a stream.

*Invariant.* Keys come in the order of their first row. Within a key rows are ordered by arrival, null first, then by
message, null first; rows alike in both stay as they were read. Without an arrival column the order of reading stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


def by_key(rows: Rows, key: Sequence[pa.Array], order: Sequence[str]) -> Iterator[tuple[int, Rows]]:
    """Yield for each key the place of its first row, and its rows in the order of these columns.

    `key` are the columns of the key, as long as `rows`; they need not be among its columns.
    """
    if not len(rows):
        return
    places = in_order(rows, order) if order else np.arange(len(rows))
    code = _codes([_hashable(values) for values in key])[places]
    code = _by_first(code)
    together = np.argsort(code, kind="stable")
    places, code = places[together], code[together]
    table = rows if bool((places[1:] > places[:-1]).all()) else rows.take(pa.array(places))
    starts = np.flatnonzero(np.concatenate([[True], code[1:] != code[:-1]]))
    ends = np.append(starts[1:], len(code))
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        yield int(places[start]), table.slice(start, end - start)


def in_order(rows: pa.RecordBatch | pa.Table, names: Sequence[str]) -> Ints:
    """Return the places of rows by these columns, null first."""
    by = {}
    for place, values in enumerate(map(rows.column, names)):
        if values.null_count:
            by[f"there {place}"] = values.is_valid()
        by[f"value {place}"] = values
    found: Ints = pc.sort_indices(pa.table(by), sort_keys=[(name, "ascending") for name in by]).to_numpy()
    return found.astype(np.int64)


def _codes(columns: Sequence[pa.Array]) -> Ints:
    """Return a number for each row, the same for rows that are alike."""
    code = np.zeros(len(columns[0]), np.int64)
    for values in columns:
        coded = pc.dictionary_encode(values, null_encoding="encode")
        code = _by_first(code * len(coded.dictionary) + coded.indices.to_numpy(zero_copy_only=False))
    return code


def _by_first(code: Ints) -> Ints:
    """Number values in the order in which they come first."""
    coded = pa.array(code).dictionary_encode()
    found: Ints = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _hashable(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return values that can be told apart; structs, lists and maps by their text."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_dictionary(values.type):
        return values.dictionary_decode()
    return pa.array([repr(each) for each in values.to_pylist()]) if pa.types.is_nested(values.type) else values
