"""Rows of one key as Arrow columns, and what both steppers say of those that leave.

Law. The output columns are those of `outcome.OUTPUT_COLUMNS`, in that order and with those types; nothing else says
them. Event times are seconds: numbers, timestamps (UTC where they have no zone) and ISO texts are understood, whatever
else is no time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from thence.delivery.columns import Columns
from thence.delivery.outcome import OUTPUT_COLUMNS, Outcome
from thence.kernels.columns import arrow_type
from thence.model.moments import seconds
from thence.model.plain import Field

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
OUTPUT: dict[str, pa.DataType] = {name: arrow_type(kind) for name, kind in OUTPUT_COLUMNS.items()}
"""The output columns with Arrow's types."""


@dataclass(frozen=True)
class Rows:
    """What a stepper is given of new rows, in the order of arrival; a column that is not there is None."""

    count: int
    message: pa.Array | None
    sender: pa.Array | None
    destination: pa.Array | None
    cause: pa.Array | None
    times: Floats
    moment: int = 0
    """processing time in milliseconds, where a stream tells it"""

    @staticmethod
    def of(batch: pa.RecordBatch, columns: Columns, moment: int = 0) -> Rows:
        """Return what a batch says."""

        def column(name: str) -> pa.Array | None:
            return batch.column(name) if name in batch.schema.names else None

        time = column(columns.time)
        times = np.full(len(batch), np.nan) if time is None else _seconds(time)
        message, sender = column(columns.message), column(columns.sender)
        return Rows(len(batch), message, sender, column(columns.destination), column(columns.cause), times, moment)

    def values(self, row: int) -> tuple[Field, Field, Field, Field]:
        """Return message, sender, destination and cause of one row."""
        columns = (self.message, self.sender, self.destination, self.cause)
        message, sender, destination, cause = (None if c is None else c[row].as_py() for c in columns)
        return message, sender, destination, cause


@dataclass(frozen=True)
class Leaving:
    """Rows that leave, in order, by their tickets, and their output columns."""

    tickets: Ints
    columns: list[pa.Array]

    def __len__(self) -> int:
        """Return how many rows leave."""
        return len(self.tickets)


def leaving(outcomes: Sequence[Outcome]) -> Leaving:
    """Return outcomes as columns."""
    tickets = np.array([outcome.ticket for outcome in outcomes], np.int64)
    return Leaving(tickets, [pa.array([getattr(o, name) for o in outcomes], kind) for name, kind in OUTPUT.items()])


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
