"""Normal tables: the form of every source of events before rows are coded (`tables.judge.coded_rows.NORMAL`).

*Invariant.* No row is dropped and nothing is repaired by guessing. Rows that are unusable by themselves were found by
`tables.files.checked_batches.checked` and have the reason in `odd`; columns that a source does not have are null,
columns that are not ours are left behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from thence.core.model.events import Event
from thence.tables.contract.columns import JUDGED_COLUMNS, names_of, renamed
from thence.tables.files.checked_batches import checked, columns_of, constant, placed_batch
from thence.tables.files.event_input import input_batches
from thence.tables.files.inputs import InputTable
from thence.tables.files.source import Quarantined
from thence.tables.judge.coded_rows import KIND_NAMES, NORMAL, UNKNOWN, kind_codes
from thence.tables.judge.findings import QUARANTINE, tagged
from thence.tables.judge.result import COLUMNS

JUDGED_NAMES = names_of(JUDGED_COLUMNS)
"""The columns of the event table that an audit reads."""
_KINDS = [*KIND_NAMES, *[None] * (UNKNOWN + 1 - len(KIND_NAMES))]


def of_batch(rows: pa.RecordBatch) -> pa.Table:
    """Return a batch of rows (`tables.files.checked_batches`) as a normal table."""
    columns = {name: rows.column(name) for name in rows.schema.names if name in NORMAL.names}
    return _filled(columns | {"kind": kind_codes(rows.column("kind")), "odd": rows.column("reason")}, len(rows))


def of_events(events: Sequence[Event]) -> pa.Table:
    """Return events as a normal table."""
    return _unplaced([_without_places(columns_of(events, JUDGED_COLUMNS), len(events))])


def _without_places(columns: Mapping[str, pa.Array], count: int) -> pa.RecordBatch:
    rows = placed_batch(columns, "", pa.nulls(count, pa.int64()), pa.nulls(count, pa.string()), JUDGED_COLUMNS)
    return checked(rows, needs=False)


def _unplaced(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Return rows as a normal table that says of no row where it was read."""
    table = concatenated([of_batch(rows) for rows in batches])
    for name in ("file", "line"):
        place = NORMAL.get_field_index(name)
        table = table.set_column(place, name, pa.nulls(len(table), NORMAL.types[place]))
    return table


def events_of(table: pa.Table) -> list[Event]:
    """Return the rows of a normal table that are events, as events."""
    names = [name for name in JUDGED_NAMES if name != "destinations"]
    found = []
    for row in table.select([*JUDGED_NAMES, "odd"]).to_pylist():
        if row["odd"] is None and row["process"] and row["run"] is not None:
            to = row["destinations"]
            own = {name: row[name] for name in names} | {"kind": KIND_NAMES[row["kind"]]}
            found.append(Event(**own, destinations=None if to is None else tuple(to)))
    return found


def of_input(
    table: InputTable, called: Mapping[str, str] | None = None, kinds: Mapping[str, str] | None = None
) -> pa.Table:
    """Return the caller's table of events, of any kind, as a normal table."""
    return _unplaced(input_batches(table, renamed(JUDGED_COLUMNS, called, kinds), needs=False))


def refused_table(refused: Quarantined) -> pa.Table:
    """Return what a reader refused as a finding."""
    row = refused.row()
    columns = {name: row.get(name) for name in COLUMNS["quarantine"] if name != "run"}
    return tagged(QUARANTINE, refused.run, 1, **columns)


def completed(table: pa.Table, run: str | None = None) -> pa.Table:
    """Return a table of some normal columns with all of them: those it lacks are null, or the one `run`.

    Rows that are unusable by themselves are said to be, unless that is known.
    """
    columns = {name: table.column(name) for name in NORMAL.names if name in table.column_names}
    if "run" not in columns and run is not None:
        columns["run"] = pa.chunked_array([constant(run, len(table))])
    batches = _filled(columns, len(table)).to_batches()
    return concatenated([of_batch(checked(_rows(batch), needs=False)) for batch in batches])


def _rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of a normal table as a batch of rows."""
    kinds = pa.DictionaryArray.from_arrays(batch.column("kind"), pa.array(_KINDS, pa.string()))
    names = ["reason" if name == "odd" else name for name in batch.schema.names]
    arrays = [kinds if name == "kind" else batch.column(place) for place, name in enumerate(names)]
    return pa.RecordBatch.from_arrays(arrays, names=names)


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


def _filled(columns: Mapping[str, pa.Array | pa.ChunkedArray], count: int) -> pa.Table:
    """Return columns as a normal table; those that are not there are null."""
    arrays = [columns[f.name] if f.name in columns else pa.nulls(count, f.type) for f in NORMAL]
    return pa.table(arrays, names=NORMAL.names)
