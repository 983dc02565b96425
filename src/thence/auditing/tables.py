"""Normal tables: what every source of events is brought to before rows are coded (`kernels.rows.NORMAL`).

Law. No row is dropped and nothing is repaired by guessing. A row that a reader refused is there with the reason in
`odd`; columns that a source does not have are null, columns that are not ours are left behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thence.auditing.result import COLUMNS
from thence.errors import MisuseError
from thence.kernels.findings import QUARANTINE, tagged
from thence.kernels.rows import KIND_CODES, KIND_NAMES, NORMAL, UNKNOWN, kind_codes
from thence.model.columns import JUDGED_COLUMNS, names_of, renamed
from thence.model.events import Event
from thence.trace.source import Quarantined

NAMES = names_of(JUDGED_COLUMNS)
"""The columns of the event table that an audit reads."""
_SENDS, _DELIVERS, _RECEIVES = (KIND_CODES[kind] for kind in ("send", "deliver", "receive"))


def normal_table(table: pa.Table, file: str | None = None, start: int = 0) -> pa.Table:
    """Return columns of events as a normal table; its rows follow row `start` of the file they are from."""
    kind, odd = kind_codes(table.column("kind"))
    count = len(table)
    columns: dict[str, pa.Array | pa.ChunkedArray] = {"kind": kind, "odd": odd}
    if file is not None:
        columns["file"] = _constant(file, count)
        columns["line"] = pa.array(np.arange(start + 1, start + count + 1))
    for name in NAMES:
        if name in table.column_names and name not in columns:
            columns[name] = _as(table.column(name), NORMAL.field(name).type)
    return _filled(columns, count)


def of_batch(batch: pa.RecordBatch) -> pa.Table:
    """Return a batch of a reader of ours (`trace.batches`) as a normal table."""
    table = pa.Table.from_batches([batch])
    found = normal_table(table)
    odd = pc.coalesce(table.column("reason"), found.column("odd"))
    for name, column in (("odd", odd), ("file", table.column("file")), ("line", table.column("line"))):
        found = found.set_column(found.column_names.index(name), name, column)
    return found


def of_events(events: Sequence[Event]) -> pa.Table:
    """Return events as a normal table."""
    columns = {name: [getattr(event, name) for event in events] for name in NAMES if name != "kind"}
    codes = pa.array([KIND_CODES[event.kind] for event in events], pa.int8())
    arrays = {name: pa.array(values, NORMAL.field(name).type) for name, values in columns.items()}
    return _filled({**arrays, "kind": codes}, len(events))


def events_of(table: pa.Table) -> list[Event]:
    """Return the rows of a normal table that are events, as events."""
    names = [name for name in NAMES if name != "destinations"]
    found = []
    for row in table.select([*NAMES, "odd"]).to_pylist():
        if row["odd"] is None and row["process"] and row["run"] is not None:
            to = row["destinations"]
            own = {name: row[name] for name in names} | {"kind": KIND_NAMES[row["kind"]]}
            found.append(Event(**own, destinations=None if to is None else tuple(to)))
    return found


def of_table(table: pa.Table, called: Mapping[str, str] | None = None) -> pa.Table:
    """Return somebody's Arrow table of events as a normal table; refuse it if a column is not what it must be."""
    from thence.trace.parquet_reader import unfit

    columns = renamed(JUDGED_COLUMNS, called or {})
    if reason := unfit(table.schema, columns):
        raise MisuseError(f"this table is no table of events: {reason}")
    found = [column for column in columns if column.theirs in table.column_names]
    try:
        own = table.select([column.theirs for column in found])
        return normal_table(own.rename_columns([column.name for column in found]))
    except pa.ArrowException as error:
        raise MisuseError(f"this table is no table of events: {error}") from error


def refused_table(refused: Quarantined) -> pa.Table:
    """Return what a reader refused as a finding."""
    row = refused.row()
    columns = {name: row.get(name) for name in COLUMNS["quarantine"] if name != "run"}
    return tagged(QUARANTINE, refused.run, 1, **columns)


def usable_alone(table: pa.Table) -> bool:
    """Tell whether no row of a normal table is unusable by itself: all that `trace.schema.event_of` asks of one.

    Whether destinations are sets is for the kernels, which say it of each row in the same words.
    """
    if any(table.column(name).null_count for name in ("run", "process", "index")):
        return False
    kind = table.column("kind").to_numpy()
    if bool(np.any(kind >= UNKNOWN)) or _any(pc.less(table.column("index"), 1)):
        return False
    message = table.column("message")
    named = pc.fill_null(pc.not_equal(pc.binary_length(message), 0), False).to_numpy()
    sends = kind == _SENDS
    needy = sends | (kind == _DELIVERS) | (kind == _RECEIVES)
    addressed = table.column("destinations").is_valid().to_numpy()
    return not (bool(np.any(needy & ~named)) or bool(np.any(sends & ~addressed)))


def completed(table: pa.Table, run: str | None = None) -> pa.Table:
    """Return a table of some normal columns with all of them: those it lacks are null, or the one `run`."""
    columns = {name: table.column(name) for name in NORMAL.names if name in table.column_names}
    if "process" in columns and pa.types.is_string(columns["process"].type):
        columns["process"] = pc.dictionary_encode(columns["process"])
    if "run" not in columns and run is not None:
        columns["run"] = pa.chunked_array([_constant(run, len(table))])
    return _filled(columns, len(table)).unify_dictionaries()


def concatenated(tables: list[pa.Table]) -> pa.Table:
    """Return normal tables as one: a column may be coded in some of them and plain, or empty, in others."""
    if not tables:
        return NORMAL.empty_table()
    if len(tables) == 1:
        return tables[0]
    for place, field in enumerate(NORMAL):
        if len({table.schema.field(field.name).type for table in tables}) > 1:
            plain = [table.column(field.name).cast(field.type) for table in tables]
            tables = [t.set_column(place, field.name, column) for t, column in zip(tables, plain, strict=True)]
    return pa.concat_tables(tables, promote_options="permissive")


def _filled(columns: dict[str, pa.Array | pa.ChunkedArray], count: int) -> pa.Table:
    """Return columns as a normal table; those that are not there are null."""
    arrays = [columns[f.name] if f.name in columns else pa.nulls(count, f.type) for f in NORMAL]
    return pa.table(arrays, names=NORMAL.names)


def _constant(text: str, count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([text]))


def _any(flags: pa.ChunkedArray) -> bool:
    return bool(pc.any(flags).as_py())


def _as(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Cast a column to a type of the normal table; dictionaries of strings stay."""
    given = column.type
    if pa.types.is_dictionary(given) and pa.types.is_string(given.value_type):
        return column
    if pa.types.is_list(given) and pa.types.is_dictionary(given.value_type):
        return column
    return column if given == kind else column.cast(kind)
