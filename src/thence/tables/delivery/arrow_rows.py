"""Rows of one key as Arrow columns: what is read of a batch, and the output columns of the rows that leave.

*Invariant.* Columns of the payload are never converted. The output columns are those of `outcome.OUTPUT_COLUMNS`, in
that order and with those types. Event times are seconds: numbers, timestamps (UTC where they have no zone) and ISO
texts are understood, anything else is no time.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from thence.core.model.moments import seconds
from thence.core.model.plain import Field
from thence.tables.contract.type_map import arrow_type
from thence.tables.delivery.columns import Columns, Family
from thence.tables.delivery.outcome import KINDS, OUTPUT_COLUMNS
from thence.tables.delivery.outcome_cy import Outcome, outcome_columns
from thence.tables.delivery.reading import Read, Reading
from thence.tables.delivery.reading_cy import clock_rows, explicit_rows, read_clock, read_explicit
from thence.tables.delivery.stamp_column import read_stamps

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
OUTPUT: dict[str, pa.DataType] = {name: arrow_type(kind) for name, kind in OUTPUT_COLUMNS.items()}
"""The output columns with Arrow's types."""
KIND_NAMES = pa.array(KINDS)


def read_batch(
    reading: Reading, batch: pa.RecordBatch, columns: Columns
) -> tuple[list[Read | str], list[Field] | None]:
    """Return what each row of a batch says, and for explicit causes their ids."""

    def column(name: str) -> pa.Array | None:
        return batch.column(name) if name in batch.schema.names else None

    def listed(name: str) -> list[Field]:
        found = column(name)
        return [None] * len(batch) if found is None else found.to_pylist()

    cause = column(columns.cause)
    if reading.by == "depends_on":
        messages = _ids(column(columns.message), len(batch))
        flat_causes = None if cause is None or reading.separator is not None else _flat_causes(cause)
        if flat_causes is not None:
            return explicit_rows(messages, *flat_causes), messages
        rows = zip(messages, listed(columns.cause), strict=True)
        return [read_explicit(*row, reading.separator) for row in rows], messages
    senders = listed(columns.sender)
    if reading.by == "clock":
        flat = None if cause is None else _flat_clocks(cause)
        if flat is None:
            return [read_clock(*row) for row in zip(senders, listed(columns.cause), strict=True)], None
        return clock_rows(senders, *flat), None
    return read_stamps(reading, senders, listed(columns.destination), cause, len(batch)), None


def _ids(column: pa.Array | None, count: int) -> list[Field]:
    """Return ids as the rule reads them: whole numbers as texts, which Arrow makes faster than Python."""
    if column is None:
        return [None] * count
    found: list[Field] = (column.cast(pa.string()) if pa.types.is_integer(column.type) else column).to_pylist()
    return found


def _flat_causes(column: pa.Array) -> tuple[list[int], list[Field]] | None:
    """Return where the causes of each row begin, and all causes; None where a value must be looked at by itself."""
    if _is_list(column.type):
        lengths = pc.list_value_length(column).fill_null(0)
        flat = pc.list_flatten(column)
    elif pa.types.is_integer(column.type) or _is_text(column.type):
        if _is_text(column.type) and pc.any(pc.starts_with(column, "[")).as_py():
            return None  # an array of JSON in a text
        lengths, flat = column.is_valid().cast(pa.int64()), column.drop_null()
    else:
        return None
    starts = np.concatenate([[0], np.cumsum(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)])
    return starts.tolist(), _ids(flat, len(flat))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def check_ids(schema: pa.Schema, columns: Columns) -> None:
    """Refuse a column of causes that holds no ids, or ids that are never equal to those of the messages."""
    message, cause = (schema.field(name).type for name in (columns.message, columns.cause))
    each = cause.value_type if _is_list(cause) else cause
    columns.check_ids(str(message), family(message), str(cause), family(each))


def family(kind: pa.DataType) -> Family | None:
    """Return what kind of ids a type holds; None: none."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        kind = kind.value_type
    if pa.types.is_null(kind):
        return "null"
    if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
        return "whole number"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "fraction"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    return None if pa.types.is_nested(kind) else "other"


def _flat_clocks(column: pa.Array) -> tuple[Codes, list[Field], Codes, Ints, list[bool] | None] | None:
    """Return where each clock of a column begins, the names, their codes, the counts, and which clocks are there.

    None where the column is no map of whole numbers, or a count is missing: such rows are read one by one.
    """
    if not pa.types.is_map(column.type) or not pa.types.is_int64(column.type.item_type):
        return None
    starts = column.offsets.to_numpy()
    first, length = int(starts[0]), int(starts[-1] - starts[0])
    counts = column.items.slice(first, length)
    names = column.keys.slice(first, length).dictionary_encode()
    if counts.null_count or pa.types.is_nested(names.type.value_type):
        return None
    there = column.is_valid().to_pylist() if column.null_count else None
    # copies: compiled loops take writable buffers alone
    codes, numbers = np.array(names.indices, np.int32), np.array(counts, np.int64)
    return starts - starts[0], names.dictionary.to_pylist(), codes, numbers, there


def times_in(batch: pa.RecordBatch, columns: Columns) -> list[float] | None:
    """Return the event times of rows, NaN where there is none; None without such a column."""
    return _seconds(batch.column(columns.time)).tolist() if columns.time in batch.schema.names else None


@dataclass(frozen=True)
class Leaving:
    """Rows that leave, in order, by their tickets, and their output columns."""

    tickets: Ints
    columns: list[pa.Array]

    def __len__(self) -> int:
        """Return how many rows leave."""
        return len(self.tickets)


def leaving(outcomes: list[Outcome]) -> Leaving:
    """Return outcomes as columns."""
    made = outcome_columns(outcomes)
    position, seconds = np.frombuffer(made.position, np.int64), np.frombuffer(made.held_seconds, np.float64)
    columns = [
        KIND_NAMES.take(pa.array(np.frombuffer(made.kind, np.int8))),
        pa.array(position, mask=position == 0),
        _lists(made.waited_starts, made.waited_for),
        pa.array(np.frombuffer(made.held_for, np.int64)),
        pa.array(seconds, mask=np.isnan(seconds)),
        _texts(made.reason, len(outcomes)),
        _lists(made.missing_starts, made.missing),
        _texts(made.blocker, len(outcomes)),
    ]
    return Leaving(np.frombuffer(made.ticket, np.int64), columns)


def _lists(starts: array[int], flat: list[str]) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(np.frombuffer(starts, np.int32)), pa.array(flat, pa.string()))


def _texts(texts: list[str | None], count: int) -> pa.StringArray:
    return pa.array(texts, pa.string()) if texts else pa.nulls(count, pa.string())


def joined(rows: pa.RecordBatch, columns: Sequence[pa.Array]) -> pa.RecordBatch:
    """Return rows with the output columns."""
    return pa.RecordBatch.from_arrays([*rows.columns, *columns], names=[*rows.schema.names, *OUTPUT])


def _seconds(column: pa.Array) -> Floats:
    """Return event times as seconds; NaN where there is none."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        times = [seconds(text) for text in column.to_pylist()]
        return np.array([np.nan if time is None else time for time in times])
    if pa.types.is_timestamp(kind):
        micros = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
        values = pc.divide(micros.cast(pa.float64()), 1e6).to_numpy(zero_copy_only=False)
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    else:
        return np.full(len(column), np.nan)
    found: Floats = np.where(np.isfinite(values), values, np.nan)
    return found


def in_utc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows whose moments say UTC, wherever the session is: the moments stay, only the name of the zone goes.

    Spark hands moments over in the zone of its session, and takes them back in UTC alone.
    """
    types = [_utc(kind) for kind in batch.schema.types]
    if types == batch.schema.types:
        return batch
    columns = [c if c.type == kind else c.cast(kind) for c, kind in zip(batch.columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _utc(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_utc(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field.with_type(_utc(kind.key_type)), kind.item_field.with_type(_utc(kind.item_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_utc(field.type)) for field in kind])
    return kind
