"""The caller's table as events: rows in the types of the trace table, each usable or refused with its reason.

*Invariant.* A table that lacks a required column, or has one in another type, is refused as a whole, as a file is; a
row is refused by `tables.contract.row_validity` alone. Dicts are rows as JSON has them: each value has its own type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from thence.core.model.events import Event
from thence.errors import Argument, MisuseError
from thence.tables.contract.columns import Column, called_by, without
from thence.tables.contract.row_validity import event_of, readable
from thence.tables.files.inputs import DictTable, InputTable
from thence.tables.files.jsonl import Located, in_our_words
from thence.tables.files.source import Quarantined

if TYPE_CHECKING:
    import pyarrow as pa

TABLE = "table"
"""The text in place of a file name for rows of a table in memory."""


def input_batches(table: InputTable, columns: Sequence[Column], *, needs: bool = True) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table, numbered from 1, as batches, see `checked_batches`; `needs` as in `event_of`."""
    from thence.tables.files.checked_batches import located_batch, table_batches

    if isinstance(table, DictTable):
        yield located_batch(list(_located_dicts(table, columns, needs=needs)), TABLE, columns)
    else:
        yield from table_batches(_own(table, columns), columns, TABLE, needs=needs, coded=True)


def located_input(table: InputTable, columns: Sequence[Column]) -> Iterator[Located]:
    """Yield (row number, event) or a quarantine record for each row, numbered from 1."""
    if isinstance(table, DictTable):
        yield from _located_dicts(table, columns, needs=True)
        return
    from thence.tables.files.checked_batches import located_in

    for rows in input_batches(table, columns):
        yield from located_in(rows)


def input_events(table: InputTable, columns: Sequence[Column]) -> tuple[list[Event], list[Quarantined]]:
    """Return the rows of a table that are events, and the others."""
    found = list(located_input(table, columns))
    refused = [each for each in found if isinstance(each, Quarantined)]
    return [each[1] for each in found if not isinstance(each, Quarantined)], refused


def _located_dicts(table: DictTable, columns: Sequence[Column], *, needs: bool) -> Iterator[Located]:
    for column in columns:
        if column.theirs not in table.names and (column.required or column.called):
            raise _unfit(f"column {column.theirs} is missing", table, columns)
    called = called_by(columns)
    for number, row in enumerate(table.rows, 1):
        own = in_our_words(row, called)
        found = event_of(own, needs=needs)
        yield (number, found) if isinstance(found, Event) else Quarantined(TABLE, number, found, left=readable(own))


def _own(table: InputTable, columns: Sequence[Column]) -> pa.Table:
    """Return the columns that are ours, under our names."""
    from thence.tables.files.parquet_reader import our_columns, unfit

    rows = table.arrow(column.theirs for column in columns)
    if reason := unfit(rows.schema, columns, empty=not rows.num_rows):
        raise _unfit(reason, table, columns)
    return our_columns(rows, columns)


def _unfit(reason: str, table: InputTable, columns: Sequence[Column]) -> MisuseError:
    has = ", ".join(table.names) or "no column at all"
    return MisuseError(
        f"this table is not a table of events: {reason}; the table has {has}. ",
        Argument("columns"),
        " gives other names, as in ",
        Argument("columns", {"process": "host"}),
        without(columns, table.names),
    )
