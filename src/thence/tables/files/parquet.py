"""Parquet written through pyarrow: the trace table in columns, and the rosters it carries.

Invariant: what is written always carries `order`. Asked for several files, each holds one contiguous range of
`order`, the ranges do not overlap, and file names sort as the ranges do. Rosters travel as table metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from thence.core.model.events import Event
from thence.core.model.roster import Roster
from thence.errors import MisuseError, TraceError
from thence.tables.contract.row_validity import VERSION
from thence.tables.contract.spark_to_arrow_types import arrow_schema
from thence.tables.files.checked_batches import columns_of
from thence.tables.files.parquet_reader import footer
from thence.tables.files.source import BROKEN, first_line

ROW_GROUP = 1 << 16
VERSION_KEY = b"thence.tables.files.version"
ROSTERS_KEY = b"thence.rosters"

OrderedEvent = tuple[int, Event]
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
        return rosters_in(footer(str(path)).metadata)
    except (*BROKEN, pa.ArrowException) as error:
        raise TraceError(f"{path} cannot be read as Parquet: {first_line(error)}") from error


def write_parquet(
    events: Iterable[Event],
    target: Path | str,
    *,
    files: int = 1,
    count: int | None = None,
    rosters: Sequence[Roster] = (),
    row_group: int = ROW_GROUP,
) -> int:
    """Write events to one file, or to a folder of at most `files` files if asked for several; say how many.

    One file keeps the events as they come and is written as they come. Several need all events at once: they
    are sorted by `order` and cut where it changes; events that come sorted are not held, if `count` says how
    many they are. An event without `order` gets its position.
    """
    if files < 1 or row_group < 1:
        raise MisuseError(f"files and row_group count from 1, found {files} and {row_group}")
    schema = arrow_schema().with_metadata(roster_metadata(rosters))
    placed: Iterator[OrderedEvent] = ((place if e.order is None else e.order, e) for place, e in enumerate(events))
    if files == 1:
        return _write_file(placed, Path(target), schema, row_group)
    folder = Path(target)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.glob("*.parquet")):
        raise MisuseError(f"{folder} holds Parquet files already; a new or empty folder is accepted")
    if count is None:
        rows = sorted(placed, key=lambda pair: pair[0])
        count, placed = len(rows), iter(rows)
    if not count:
        return _write_file((), folder / _part(0), schema, row_group)
    numbered = groupby(_numbered(placed, count, files), key=lambda pair: pair[0])
    return sum(_write_file((row for _, row in own), folder / _part(n), schema, row_group) for n, own in numbered)


def _part(number: int) -> str:
    return f"part-{number:05d}.parquet"


def _numbered(rows: Iterable[OrderedEvent], count: int, files: int) -> Iterator[tuple[int, OrderedEvent]]:
    """Return the part of each of `count` sorted rows: parts of about equal length, cut only where `order` changes."""
    part, share, before = 0, 1, None
    for place, row in enumerate(rows):
        if place >= count * share // files and place and row[0] != before:
            part += 1
            share = -(-(place + 1) * files // count)
        before = row[0]
        yield part, row


def _write_file(rows: Iterable[OrderedEvent], path: Path, schema: pa.Schema, row_group: int) -> int:
    count = 0
    stream = iter(rows)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while some := list(islice(stream, row_group)):
            writer.write_batch(_batch(some, schema), row_group_size=row_group)
            count += len(some)
    return count


def _batch(rows: list[OrderedEvent], schema: pa.Schema) -> pa.RecordBatch:
    try:
        columns = columns_of([event for _, event in rows])
        columns["order"] = pa.array([order for order, _ in rows], pa.int64())
        return pa.RecordBatch.from_pydict(columns, schema=schema)
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise MisuseError(f"events cannot be written as Parquet: {first_line(error)}") from error
