"""Parquet read through pyarrow, one row group at a time, without Spark.

Law. Every row comes out once: as an event, or with a reason. A file that lacks a required column, has a column of
another type, or is no Parquet file is set aside whole, with the column named. Damage costs the row group it is in,
which is named with its rows. A row that is no event is set aside alone, `line` being its number in the file, from 1.
Only the columns asked for are read and looked at; columns that are not ours never are, whatever their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from thence.kernels.columns import ARROW_TYPES
from thence.model.columns import EVENT_COLUMNS, Column
from thence.model.events import Event
from thence.trace.arrow import all_events, located_batch, placed_batch, refused_batch
from thence.trace.jsonl import Located
from thence.trace.schema import event_of, readable
from thence.trace.slices import Slice
from thence.trace.source import BROKEN, Quarantined, first_line

ROWS = 1 << 16
"""Rows of a batch at most."""


def has_order(path: Path | str) -> bool:
    """Tell whether a file is Parquet with a column `order`."""
    try:
        return "order" in pq.read_schema(path).names
    except (*BROKEN, pa.ArrowException):
        return False


def row_groups(path: Path, columns: Sequence[Column] = EVENT_COLUMNS) -> list[Slice | Quarantined]:
    """Return the row groups of a file, or why it cannot be used for these columns."""
    try:
        with pq.ParquetFile(path) as file:
            if reason := unfit(file.schema_arrow, columns):
                return [Quarantined(str(path), None, f"{reason}; its {file.metadata.num_rows} rows are set aside")]
            counts = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    except (*BROKEN, pa.ArrowException) as error:
        return [Quarantined(str(path), None, f"it cannot be read as Parquet: {first_line(error)}")]
    places = zip(counts, accumulate(counts, initial=1), strict=False)
    return [
        Slice(str(path), "parquet", first, length=count, group=group) for group, (count, first) in enumerate(places)
    ]


def _read(part: Slice, columns: Sequence[Column]) -> pa.Table | Quarantined:
    """Return the columns of a row group that are ours, or the record of its damage."""
    last = part.first + (part.length or 0) - 1
    try:
        with pq.ParquetFile(part.file, page_checksum_verification=True) as file:
            present = set(file.schema_arrow.names)
            found = [column for column in columns if column.theirs in present]
            names = [column.theirs for column in found]
            table = file.read_row_group(part.group, columns=names, use_threads=False).select(names)
            for place, column in enumerate(found):
                if column.type == "double" and pa.types.is_timestamp(table.schema.types[place]):
                    table = table.set_column(place, column.theirs, _in_seconds(table.column(place)))
            return table.rename_columns([column.name for column in found])
    except (*BROKEN, pa.ArrowException) as error:
        lost = (
            f"row group {part.group + 1}, rows {part.first} to {last}, cannot be read as Parquet: {first_line(error)}"
        )
        return Quarantined(part.file, part.first, lost)


def _in_seconds(moments: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return moments as seconds; one without a zone is taken as UTC, as `model.moments` has it."""
    exact = moments.cast(pa.timestamp("us", moments.type.tz), safe=False)
    return pc.divide(exact.cast(pa.int64()).cast(pa.float64()), 1e6)


def group_batches(part: Slice, columns: Sequence[Column] = EVENT_COLUMNS) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a row group as batches, see `trace.arrow`."""
    table = _read(part, columns)
    if isinstance(table, Quarantined):
        yield refused_batch([table], columns)
        return
    first = part.first
    for batch in table.to_batches(max_chunksize=ROWS):
        rows = _in_our_types(batch, columns)
        if rows is not None and all_events(rows):
            lines = pa.array(range(first, first + len(rows)), pa.int64())
            values = dict(zip(rows.schema.names, rows.columns, strict=True))
            yield placed_batch(values, part.file, lines, pa.nulls(len(rows), pa.string()), columns)
        else:
            yield located_batch(list(_located(batch, part.file, first)), part.file, columns)
        first += len(batch)


def located_group(part: Slice, columns: Sequence[Column] = EVENT_COLUMNS) -> Iterator[Located]:
    """Yield (row number, event) or a quarantine record for each row of a row group, or one for its damage."""
    table = _read(part, columns)
    if isinstance(table, Quarantined):
        yield table
        return
    first = part.first
    for batch in table.to_batches(max_chunksize=ROWS):
        yield from _located(batch, part.file, first)
        first += len(batch)


def _in_our_types(batch: pa.RecordBatch, columns: Sequence[Column]) -> pa.RecordBatch | None:
    """Return a batch with all columns in the types of the event table, if every value has one."""
    arrays = []
    for column in columns:
        kind = ARROW_TYPES[column.type]
        if column.name not in batch.schema.names:
            arrays.append(pa.nulls(len(batch), kind))
            continue
        try:
            arrays.append(batch.column(column.name).cast(kind))
        except pa.ArrowException:
            return None
    rows = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])
    try:
        rows.validate(full=True)  # Parquet does not promise that a string is UTF-8
    except pa.ArrowException:
        return None
    return rows


def _located(batch: pa.RecordBatch, file: str, first: int) -> Iterator[Located]:
    for number, row in enumerate(_rows(batch), first):
        if isinstance(row, str):
            yield Quarantined(file, number, row)
            continue
        found = event_of(row)
        yield (number, found) if isinstance(found, Event) else Quarantined(file, number, found, left=readable(row))


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, object] | str]:
    """Yield rows; where a string is not UTF-8, which Parquet does not promise, say so for that row alone."""
    try:
        yield from batch.to_pylist()
        return
    except UnicodeDecodeError:
        pass
    for place in range(batch.num_rows):
        try:
            yield from batch.slice(place, 1).to_pylist()
        except UnicodeDecodeError as error:
            yield f"not UTF-8: {error.reason}"


def unfit(schema: pa.Schema, columns: Sequence[Column] = EVENT_COLUMNS) -> str | None:
    """Return why a pyarrow schema cannot be a table with these columns, or nothing."""
    for column in columns:
        name = column.theirs
        times = schema.names.count(name)
        if times > 1:
            return f"column {name} stands {times} times"
        if times == 0:
            if column.required or column.called:
                return f"column {name} is missing"
        elif not _fits(schema.field(name).type, column):
            return f"column {name} is {schema.field(name).type}; {column.type} is accepted"
    return None


def _fits(found: pa.DataType, column: Column) -> bool:
    if pa.types.is_null(found):
        return not column.required
    if column.type == "string":
        return _is_text(found)
    if column.type in ("long", "int"):
        return bool(pa.types.is_integer(found))
    if column.type == "double":
        return bool(pa.types.is_floating(found) or pa.types.is_integer(found) or pa.types.is_timestamp(found))
    if column.type == "binary":
        return bool(pa.types.is_binary(found) or pa.types.is_large_binary(found))
    if column.type == "map<string,long>":
        return bool(pa.types.is_map(found) and _is_text(found.key_type) and pa.types.is_integer(found.item_type))
    if not _is_list(found):
        return False
    if column.type == "array<string>":
        return _is_text(found.value_type) or bool(pa.types.is_null(found.value_type))
    return bool(pa.types.is_struct(found.value_type) or pa.types.is_null(found.value_type))


def _is_text(found: pa.DataType) -> bool:
    if pa.types.is_dictionary(found):
        found = found.value_type
    return bool(pa.types.is_string(found) or pa.types.is_large_string(found) or pa.types.is_string_view(found))


def _is_list(found: pa.DataType) -> bool:
    return bool(pa.types.is_list(found) or pa.types.is_large_list(found) or pa.types.is_fixed_size_list(found))
