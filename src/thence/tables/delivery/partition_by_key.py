"""Rows by key, in arrival order: the one rule of a batch in this process, a Spark batch and a stream.

*Invariant.* Keys come by ascending number. Within a key rows are ordered by arrival, null first, then by
message, null first; rows alike in both stay as they were read. Without an arrival column the order of reading stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thence.errors import MisuseError
from thence.tables.contract.numpy_types import Longs


class Parted(NamedTuple):
    """Rows by key: all of them, the number of each key, the place of its first row before, and where each begins."""

    rows: pa.RecordBatch | pa.Table
    numbers: list[int]
    starts: list[int]
    """One more than there are keys: the last is where all end"""


def by_key(
    rows: pa.RecordBatch | pa.Table, key: Sequence[pa.Array], order: Sequence[str], number: Callable[[Longs], Longs]
) -> Parted:
    """Return rows by key, each key's in the order of these columns, keys by ascending number.

    `key` are the columns of the key, as long as `rows`; they need not be among its columns. `number` gives the keys
    their numbers, given the place of the first row of each, in the order in which they come first.
    """
    code = codes([_hashable(values) for values in key])
    places = in_order(rows, order) if order else np.arange(len(rows))
    if order:
        code = _by_first(code[places])
    numbers = number(places[_changes(np.maximum.accumulate(code))])[code]
    together = np.argsort(numbers, kind="stable")
    places, numbers = places[together], numbers[together]
    table = rows if bool((places[1:] > places[:-1]).all()) else rows.take(pa.array(places))
    starts = _changes(numbers)
    return Parted(table, numbers[starts].tolist(), [*starts.tolist(), len(code)])


def _changes(values: Longs) -> Longs:
    """Return the places of values that differ from the one before; the first one does."""
    return np.concatenate([[0], np.flatnonzero(values[1:] != values[:-1]) + 1])[: len(values)]


def runs(rows: pa.RecordBatch, key: Sequence[str]) -> Longs:
    """Return where runs of rows with the same key begin."""
    if not key:
        return np.zeros(min(len(rows), 1), np.int64)
    return _changes(codes([_hashable(rows.column(name)) for name in key]))


def in_order(rows: pa.RecordBatch | pa.Table, names: Sequence[str]) -> Longs:
    """Return the places of rows by these columns, null first."""
    by = {}
    for place, name in enumerate(names):
        values = rows.column(name)
        if pa.types.is_nested(values.type):
            raise MisuseError(
                f"column {name!r} is {values.type}; rows are sorted by it: numbers, texts or moments are accepted"
            )
        if values.null_count:
            by[f"there {place}"] = values.is_valid()
        by[f"value {place}"] = values
    found: Longs = pc.sort_indices(pa.table(by), sort_keys=[(name, "ascending") for name in by]).to_numpy()
    return found.astype(np.int64)


def codes(columns: Sequence[pa.Array]) -> Longs:
    """Return a number for each row, the same for rows that are alike, in the order in which they come first."""
    encoded = [_encoded(values) for values in columns]
    code, _ = encoded[0]
    separating = [each for each in encoded if each[1] > 1]  # a column of one value separates nothing
    for place, (more, count) in enumerate(separating):
        code = _by_first(code * count + more) if place else more
    return code


def _encoded(values: pa.Array) -> tuple[Longs, int]:
    """Return values as numbers in the order in which they come first, and how many there are."""
    coded = values.dictionary_encode("encode")
    return coded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(coded.dictionary)


def _by_first(code: Longs) -> Longs:
    """Number values in the order in which they come first."""
    return _encoded(pa.array(code))[0]


def _hashable(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return values that can be compared; structs, lists and maps by their text."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_dictionary(values.type):
        return values.dictionary_decode()
    return pa.array([repr(each) for each in values.to_pylist()]) if pa.types.is_nested(values.type) else values
