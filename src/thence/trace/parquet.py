"""Parquet through pyarrow: the trace table in columns, without Spark.

Law. What is written always carries `order`. Asked for several files, each holds one contiguous range of
`order`, the ranges do not overlap, and file names sort as the ranges do. Rosters travel as table metadata.

A file that lacks a required column, has a column of another type, or is no Parquet file is set aside whole,
with the column named; a row that is no event is set aside alone, `line` being its number in the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from thence.errors import MisuseError, TraceError
from thence.model.events import Event
from thence.model.roster import Roster
from thence.trace.schema import EVENT_COLUMNS, VERSION, Column, arrow_schema, event_of
from thence.trace.source import BROKEN, Quarantined

ROW_GROUP = 1 << 16
VERSION_KEY = b"thence.trace.version"
ROSTERS_KEY = b"thence.rosters"

Placed = tuple[int, Event]
"""An event and the `order` it is written with."""


def roster_metadata(rosters: Sequence[Roster]) -> dict[bytes, bytes]:
    """Return the table metadata that says the version and the rosters of a table."""
    metadata = {VERSION_KEY: str(VERSION).encode()}
    if rosters:
        metadata[ROSTERS_KEY] = json.dumps([list(r.names) for r in rosters], separators=(",", ":")).encode()
    return metadata


def rosters_in(metadata: dict[bytes, bytes] | None) -> list[Roster]:
    """Return the rosters that table metadata holds, none if it has none."""
    try:
        return [Roster(names) for names in json.loads((metadata or {}).get(ROSTERS_KEY, b"[]"))]
    except (ValueError, TypeError, MisuseError) as error:
        raise TraceError(f"the table's metadata {ROSTERS_KEY.decode()} holds no rosters: {error}") from error


def read_rosters(path: Path | str) -> list[Roster]:
    """Return the rosters a Parquet file carries."""
    try:
        return rosters_in(pq.read_schema(path).metadata)
    except (*BROKEN, pa.ArrowException) as error:
        raise TraceError(f"{path} cannot be read as Parquet: {_first_line(error)}") from error


def has_order(path: Path | str) -> bool:
    """Tell whether a file is Parquet with a column `order`."""
    try:
        return "order" in pq.read_schema(path).names
    except (*BROKEN, pa.ArrowException):
        return False


def write_parquet(
    events: Iterable[Event],
    target: Path | str,
    *,
    files: int = 1,
    rosters: Sequence[Roster] = (),
    row_group: int = ROW_GROUP,
) -> int:
    """Write events to one file, or to a folder of at most `files` files if asked for several; say how many.

    One file keeps the events as they come and is written as they come. Several need all events at once: they
    are sorted by `order` and cut where it changes. An event without `order` gets its position.
    """
    if files < 1 or row_group < 1:
        raise MisuseError(f"files and row_group count from 1, found {files} and {row_group}")
    schema = arrow_schema().with_metadata(roster_metadata(rosters))
    placed = ((place if e.order is None else e.order, e) for place, e in enumerate(events))
    if files == 1:
        return _write_file(placed, Path(target), schema, row_group)
    folder = Path(target)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.glob("*.parquet")):
        raise MisuseError(f"{folder} holds Parquet files already; a new or empty folder is accepted")
    rows = sorted(placed, key=lambda pair: pair[0])
    for number, part in enumerate(_parts(rows, files)):
        _write_file(part, folder / f"part-{number:05d}.parquet", schema, row_group)
    return len(rows)


def _parts(rows: list[Placed], files: int) -> Iterator[list[Placed]]:
    """Cut sorted rows into at most `files` parts of about equal length, only where `order` changes."""
    start = 0
    for number in range(1, files + 1):
        end = max(len(rows) * number // files, start)
        while 0 < end < len(rows) and rows[end][0] == rows[end - 1][0]:
            end += 1
        if end > start or (not rows and number == 1):
            yield rows[start:end]
        start = end


def _write_file(rows: Iterable[Placed], path: Path, schema: Any, row_group: int) -> int:
    count = 0
    stream = iter(rows)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while some := list(islice(stream, row_group)):
            writer.write_batch(_batch(some, schema), row_group_size=row_group)
            count += len(some)
    return count


def _batch(rows: list[Placed], schema: Any) -> Any:
    columns: dict[str, list[Any]] = {c.name: [getattr(e, c.name) for _, e in rows] for c in EVENT_COLUMNS}
    columns["order"] = [order for order, _ in rows]
    columns["dependencies"] = [
        None if ds is None else [{"message": m, "destinations": to} for m, to in ds] for ds in columns["dependencies"]
    ]
    try:
        return pa.RecordBatch.from_pydict(columns, schema=schema)
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise MisuseError(f"events cannot be written as Parquet: {_first_line(error)}") from error


def located_rows(path: Path | str) -> Iterator[tuple[int, Event] | Quarantined]:
    """Yield (row number, event) or a quarantine record for each row of a file, or one record for it all."""
    name = str(path)
    try:
        with pq.ParquetFile(path) as file:
            if reason := unfit(file.schema_arrow):
                yield Quarantined(name, None, f"{reason}; its {file.metadata.num_rows} rows are set aside")
                return
            start = 0
            for group in range(file.num_row_groups):
                yield from _group(file, group, name, start)
                start += file.metadata.row_group(group).num_rows
    except (*BROKEN, pa.ArrowException) as error:
        yield Quarantined(name, None, f"it cannot be read as Parquet: {_first_line(error)}")


def _group(file: Any, group: int, name: str, start: int) -> Iterator[tuple[int, Event] | Quarantined]:
    """Yield the rows of one row group; damage in it is told with the rows it costs, and costs no others."""
    present = set(file.schema_arrow.names)
    columns = [column.name for column in EVENT_COLUMNS if column.name in present]
    end = start + file.metadata.row_group(group).num_rows
    number = start
    try:
        for batch in file.iter_batches(row_groups=[group], columns=columns):
            for row in _rows(batch):
                number += 1
                found = row if isinstance(row, str) else event_of(row)
                yield (number, found) if isinstance(found, Event) else Quarantined(name, number, found)
    except (*BROKEN, pa.ArrowException) as error:
        lost = f"rows {number + 1} to {end} cannot be read as Parquet: {_first_line(error)}"
        yield Quarantined(name, number + 1, lost)


def read_parquet(path: Path | str, quarantine: list[Quarantined]) -> Iterator[Event]:
    """Yield the events of one file; what cannot be used is appended to `quarantine` on the way."""
    for found in located_rows(path):
        if isinstance(found, Quarantined):
            quarantine.append(found)
        else:
            yield found[1]


def _rows(batch: Any) -> Iterator[dict[str, Any] | str]:
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


def unfit(schema: Any, columns: Sequence[Column] = EVENT_COLUMNS) -> str | None:
    """Return why a pyarrow schema cannot be a table with these columns, or nothing."""
    for column in columns:
        times = schema.names.count(column.name)
        if times > 1:
            return f"column {column.name} stands {times} times"
        if times == 0:
            if column.required:
                return f"column {column.name} is missing"
        elif not _fits(schema.field(column.name).type, column):
            return f"column {column.name} is {schema.field(column.name).type}; {column.type} is accepted"
    return None


def _fits(found: Any, column: Column) -> bool:
    if pa.types.is_null(found):
        return not column.required
    if column.type == "string":
        return _is_text(found)
    if column.type in ("long", "int"):
        return bool(pa.types.is_integer(found))
    if column.type == "double":
        return bool(pa.types.is_floating(found) or pa.types.is_integer(found))
    if column.type == "binary":
        return bool(pa.types.is_binary(found) or pa.types.is_large_binary(found))
    if column.type == "map<string,long>":
        return bool(pa.types.is_map(found) and _is_text(found.key_type) and pa.types.is_integer(found.item_type))
    if not _is_list(found):
        return False
    if column.type == "array<string>":
        return _is_text(found.value_type) or bool(pa.types.is_null(found.value_type))
    return bool(pa.types.is_struct(found.value_type) or pa.types.is_null(found.value_type))


def _is_text(found: Any) -> bool:
    if pa.types.is_dictionary(found):
        found = found.value_type
    return bool(pa.types.is_string(found) or pa.types.is_large_string(found) or pa.types.is_string_view(found))


def _is_list(found: Any) -> bool:
    return bool(pa.types.is_list(found) or pa.types.is_large_list(found) or pa.types.is_fixed_size_list(found))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
