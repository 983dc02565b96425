"""Rows of the event table as Arrow has them: events to record batches, and whether rows are events at all.

Law. A batch has columns of the event table, then `file`, `line` and `reason`. An event has its columns and no
`reason`; a row that is none has a `reason` and such columns as can be read all the same. `file` is a dictionary; a
`line` of null means the file as a whole. `all_events(rows)` is true exactly where `schema.event_of` takes every row,
but for `dependencies`, which it leaves to that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from thence.kernels.columns import arrow_schema
from thence.model.columns import EVENT_COLUMNS, PLACE_COLUMNS, Column, names_of
from thence.model.events import KINDS, Event
from thence.trace.jsonl import Located
from thence.trace.source import Quarantined

FILE = pa.dictionary(pa.int32(), pa.string())
EVENTS = arrow_schema(EVENT_COLUMNS, nullable=True)
"""The event table, whatever its rows may lack."""
_KINDS = pa.array(sorted(KINDS))
_WITH_MESSAGE = pa.array(["send", "deliver", "receive"])
_STAMP = ("message", "destinations")
_SIZES = ("entries", "facts", "bytes")


@lru_cache
def schema_of(columns: tuple[Column, ...]) -> pa.Schema:
    """Return the schema of batches with these columns of an event."""
    schema = arrow_schema((*columns, *PLACE_COLUMNS), nullable=True)
    return schema.set(schema.get_field_index("file"), pa.field("file", FILE))


def located_batch(found: Sequence[Located], file: str, columns: Sequence[Column]) -> pa.RecordBatch:
    """Return events and quarantine records of one file as a batch."""
    values = columns_of([each.left if isinstance(each, Quarantined) else each[1] for each in found], columns)
    lines = pa.array([each.line if isinstance(each, Quarantined) else each[0] for each in found], pa.int64())
    reasons = pa.array([each.reason if isinstance(each, Quarantined) else None for each in found], pa.string())
    return placed_batch(values, file, lines, reasons, columns)


def refused_batch(refused: Sequence[Quarantined], columns: Sequence[Column] = EVENT_COLUMNS) -> pa.RecordBatch:
    """Return quarantine records, of whatever files, as a batch."""
    batch = located_batch(refused, "", columns)
    files = pa.array([each.file for each in refused], pa.string()).dictionary_encode()
    return batch.set_column(batch.schema.get_field_index("file"), "file", files)


def columns_of(
    rows: Sequence[Event | Mapping[str, object]], columns: Sequence[Column] = EVENT_COLUMNS
) -> dict[str, pa.Array]:
    """Return columns of events, and of what is left of rows that are none."""
    found: dict[str, pa.Array] = {}
    for name in names_of(columns):
        values = [getattr(row, name) if isinstance(row, Event) else row.get(name) for row in rows]
        if name == "dependencies":
            values = [_stamps(each) for each in values]
        found[name] = pa.array(values, EVENTS.field(name).type)
    return found


def _stamps(value: object) -> list[dict[str, object]] | None:
    """Return the stamp in the clear as a table has it."""
    return [dict(zip(_STAMP, pair, strict=True)) for pair in value] if isinstance(value, tuple) else None


def placed_batch(
    values: dict[str, pa.Array], file: str, lines: pa.Array, reasons: pa.Array, columns: Sequence[Column]
) -> pa.RecordBatch:
    """Return a batch of columns, all rows of one file."""
    names = pa.DictionaryArray.from_arrays(pa.nulls(len(lines), pa.int32()).fill_null(0), pa.array([file]))
    places = {"file": names, "line": lines, "reason": reasons}
    schema = schema_of(tuple(columns))
    return pa.RecordBatch.from_arrays([values[n] if n in values else places[n] for n in schema.names], schema=schema)


def all_events(rows: pa.RecordBatch) -> bool:
    """Tell whether every row is an event: `schema.event_of` for all at once; `time` and what follows it may lack."""
    column, names = rows.column, rows.schema.names
    if any(column(name).null_count for name in ("run", "process", "index", "kind")):
        return False
    kind, message, to = column("kind"), column("message"), column("destinations")
    named = pc.fill_null(pc.not_equal(message, ""), False)
    return (
        _every(pc.is_in(kind, _KINDS))
        and _every(pc.not_equal(column("process"), ""))
        and _every(pc.greater(column("index"), 0))
        and _every(pc.or_(pc.invert(pc.is_in(kind, _WITH_MESSAGE)), named))
        and _every(pc.or_(to.is_valid(), pc.not_equal(kind, "send")))
        and all(_every(pc.greater_equal(column(name), 0)) for name in _SIZES if name in names)
        and ("time" not in names or _every(pc.is_finite(column("time"))))
        and ("dependencies" not in names or column("dependencies").null_count == len(rows))
        and _are_sets(to)
    )


def _every(flags: pa.Array) -> bool:
    """Tell whether no flag is false; null is for a value that is not there."""
    return bool(pc.all(flags, min_count=0).as_py())


def _are_sets(lists: pa.Array) -> bool:
    """Tell whether every list of names holds each once, and none that is null or empty."""
    names = lists.flatten()
    if names.null_count or not _every(pc.not_equal(names, "")):
        return False
    several = lists.filter(pc.fill_null(pc.greater(pc.list_value_length(lists), 1), False))
    pairs = pa.table({"row": pc.list_parent_indices(several), "name": several.flatten()})
    return len(pairs) == 0 or len(pairs.group_by(["row", "name"], use_threads=False).aggregate([])) == len(pairs)
