"""Rows of the event table as Arrow has them: typed once, and the rows among them that are not events found and named.

A *batch of rows* has columns of the event table, then `file`, `line` and `reason`. An event has its columns and no
`reason`; an unusable row has a `reason` and such columns as can still be read. A `line` of null means the
file as a whole. Text columns may be dictionaries of strings.

*Invariant.* `checked(rows)` refuses exactly the rows that `schema.event_of` refuses, in its words: what the columns
demand (`tables.contract.columns`) is looked for in all rows at once, and the few that seem to lack it are asked one by
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thence.core.model.events import Event
from thence.tables.contract.columns import DEPENDENCIES, EVENT_COLUMNS, NEEDED, Column, names_of
from thence.tables.contract.numpy_types import Flags, Longs
from thence.tables.contract.row_validity import event_of, readable
from thence.tables.contract.spark_to_arrow_types import arrow_schema, arrow_type
from thence.tables.files.jsonl import Located
from thence.tables.files.source import Quarantined

EVENTS = arrow_schema(EVENT_COLUMNS, nullable=True)
"""The event table with all columns nullable."""
BATCH_ROWS = 1 << 16
"""Rows of a batch at most, unless they keep their codes."""
_STAMP = ("message", "destinations")
_CODED = pa.dictionary(pa.int32(), pa.string())
_COLUMNS = {column.name: column for column in EVENT_COLUMNS}


def located_batch(found: Sequence[Located], file: str, columns: Sequence[Column]) -> pa.RecordBatch:
    """Return events and quarantine records of one file as a batch."""
    values = columns_of([each.left if isinstance(each, Quarantined) else each[1] for each in found], columns)
    lines = pa.array([each.line if isinstance(each, Quarantined) else each[0] for each in found], pa.int64())
    reasons = pa.array([each.reason if isinstance(each, Quarantined) else None for each in found], pa.string())
    return placed_batch(values, file, lines, reasons, columns)


def refused_batch(refused: Sequence[Quarantined], columns: Sequence[Column] = EVENT_COLUMNS) -> pa.RecordBatch:
    """Return quarantine records, of any files, as a batch."""
    batch = located_batch(refused, "", columns)
    files = pa.array([each.file for each in refused], pa.string()).dictionary_encode()
    return batch.set_column(batch.schema.get_field_index("file"), "file", files)


def columns_of(
    rows: Sequence[Event | Mapping[str, object]], columns: Sequence[Column] = EVENT_COLUMNS
) -> dict[str, pa.Array]:
    """Return columns of events, and what can be read of unusable rows."""
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
    values: Mapping[str, pa.Array], file: str, lines: pa.Array, reasons: pa.Array, columns: Sequence[Column]
) -> pa.RecordBatch:
    """Return a batch of columns, all rows of one file; columns that are not there are null."""
    places = {"file": constant(file, len(lines)), "line": lines, "reason": reasons}
    count = len(lines)
    found = {**{c.name: values.get(c.name, pa.nulls(count, arrow_type(c.type))) for c in columns}, **places}
    return pa.RecordBatch.from_arrays(list(found.values()), names=list(found))


def constant(text: str, count: int) -> pa.DictionaryArray:
    """Return a column that says the same in every row."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([text]))


def numbered(first: int, count: int) -> pa.Array:
    """Return the numbers of rows that stand together."""
    return pa.array(np.arange(first, first + count))


def event_batch(
    rows: pa.RecordBatch,
    columns: Sequence[Column],
    file: str,
    first: int,
    *,
    needs: bool = True,
    coded: bool = False,
) -> pa.RecordBatch:
    """Return rows, in any types that the columns accept, as a batch of rows; `first` is the number of the first line.

    `coded`: dictionaries of texts stay what they are.
    """
    typed = _typed(rows, columns, coded=coded)
    if typed is None:
        return located_batch(list(located(rows, file, first, needs=needs)), file, columns)
    reasons = pa.nulls(len(rows), pa.string())
    return checked(placed_batch(typed, file, numbered(first, len(rows)), reasons, columns), needs=needs)


def table_batches(
    table: pa.Table, columns: Sequence[Column], file: str, first: int = 1, *, needs: bool = True, coded: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table in our names as batches of rows; `needs` and `coded` as in `event_batch`."""
    for batch in table.to_batches(max_chunksize=None if coded else BATCH_ROWS):
        yield event_batch(batch, columns, file, first, needs=needs, coded=coded)
        first += len(batch)


def located_in(rows: pa.RecordBatch) -> Iterator[Located]:
    """Yield (row number, event) or a quarantine record for each row of a batch of rows."""
    names = [name for name in rows.schema.names if name in _COLUMNS]
    for row in rows.to_pylist():
        values = {name: row[name] for name in names if row[name] is not None}
        found = row["reason"] or event_of(values, needs=False)
        if isinstance(found, Event):
            yield row["line"], found
        else:
            yield Quarantined(row["file"], row["line"], found, left=values)


def located(rows: pa.RecordBatch, file: str, first: int, *, needs: bool = True) -> Iterator[Located]:
    """Yield (row number, event) or a quarantine record for each row, of any types."""
    for number, row in enumerate(_plain_rows(rows), first):
        if isinstance(row, str):
            yield Quarantined(file, number, row)
            continue
        found = event_of(row, needs=needs)
        yield (number, found) if isinstance(found, Event) else Quarantined(file, number, found, left=readable(row))


def _plain_rows(batch: pa.RecordBatch) -> Iterator[dict[str, object] | str]:
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


def _typed(rows: pa.RecordBatch, columns: Sequence[Column], *, coded: bool) -> dict[str, pa.Array] | None:
    """Return columns in the types of the event table, if every value has one."""
    found: dict[str, pa.Array] = {}
    for column in columns:
        place = rows.schema.get_field_index(column.name)
        if place < 0:
            continue
        array = rows.column(place)
        try:
            stays = coded and _is_coded(array.type)
            found[column.name] = array if stays else array.cast(arrow_type(column.type))
        except pa.ArrowException:
            return None
    return found


def _is_coded(kind: pa.DataType) -> bool:
    """Return whether a column has the codes of strings, or lists of them."""
    inner = kind.value_type if pa.types.is_list(kind) else kind
    return bool(inner == _CODED)


def checked(rows: pa.RecordBatch, *, needs: bool = True) -> pa.RecordBatch:
    """Return a batch of rows in which those that are not events have a reason; unless `needs`, see `event_of`."""
    try:
        rows.validate(full=True)  # neither Parquet nor Spark promises that a string is UTF-8
    except pa.ArrowException:
        rows = _without_broken_texts(rows)
    places = _suspects(rows, needs=needs)
    if not len(places):
        return rows
    names = [name for name in rows.schema.names if name in _COLUMNS]
    refused: dict[int, Quarantined] = {}
    for place, row in zip(places.tolist(), rows.take(pa.array(places)).to_pylist(), strict=True):
        values = {name: row[name] for name in names}
        found = row["reason"] or event_of(values, needs=needs)
        if found is not row["reason"] and isinstance(found, str):
            refused[place] = Quarantined("", None, found, left=readable(values))
    return _replaced(rows, refused, names) if refused else rows


def _without_broken_texts(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch in which rows with texts that are not UTF-8 are refused."""
    found = enumerate(_plain_rows(rows))
    refused = {place: Quarantined("", None, row) for place, row in found if isinstance(row, str)}
    return _replaced(rows, refused, [name for name in rows.schema.names if name in _COLUMNS])


def _replaced(rows: pa.RecordBatch, refused: Mapping[int, Quarantined], names: Sequence[str]) -> pa.RecordBatch:
    """Return a batch in which some rows are refused, and say what can be read of them alone."""
    taken = np.arange(len(rows))
    taken[list(refused)] = len(rows) + np.arange(len(refused))
    left = columns_of([each.left for each in refused.values()], [_COLUMNS[name] for name in names])
    left["reason"] = pa.array([each.reason for each in refused.values()], pa.string())
    for place, name in enumerate(rows.schema.names):
        if name in left:
            both = [rows.column(place).cast(left[name].type), left[name]]
            rows = rows.set_column(place, name, pa.concat_arrays(both).take(pa.array(taken)))
    return rows


def _suspects(rows: pa.RecordBatch, *, needs: bool) -> Longs:
    """Return the places of rows that lack something that the columns demand, or may lack it."""
    found: Flags | None = None
    for flags in _faults(rows, needs=needs):
        if flags is not None and pc.any(flags).as_py():
            own = flags.fill_null(False).to_numpy(zero_copy_only=False)
            found = own if found is None else found | own
    return np.zeros(0, np.int64) if found is None else np.flatnonzero(found)


def _faults(rows: pa.RecordBatch, *, needs: bool) -> Iterator[pa.Array | None]:
    """Yield flags for each demand that a column makes; null is for a value that is not there."""
    for place, name in enumerate(rows.schema.names):
        column, array = _COLUMNS.get(name), rows.column(place)
        if column is None:
            continue
        if column.required and array.null_count:
            yield array.is_null()
        if column.named:
            yield _told(array, _is_empty)
        if column.among:
            yield _told(array, partial(_is_other, column.among))
        if column.least is not None:
            yield pc.less(array, column.least)
        if column.type == "double":
            yield pc.invert(pc.is_finite(array))
        elif column.type == "array<string>":
            yield _no_sets(array)
        elif column.type == DEPENDENCIES:
            yield array.is_valid()
    if needs:
        yield from _lacking(rows)


def _lacking(rows: pa.RecordBatch) -> Iterator[pa.Array]:
    """Yield flags of rows without a column that their kind needs."""
    for name, kinds in NEEDED.items():
        array = rows.column(name)
        absent = array.is_null()
        if pa.types.is_string(EVENTS.field(name).type) and (empty := _told(array, _is_empty)) is not None:
            absent = pc.or_(absent, empty.fill_null(False))
        of_kind = _told(rows.column("kind"), partial(pc.is_in, value_set=pa.array(kinds)))
        if of_kind is not None:
            yield pc.and_(absent, of_kind)


def _is_other(among: Iterable[str], texts: pa.Array) -> pa.Array:
    return pc.invert(pc.is_in(texts, pa.array(sorted(among))))


def _is_empty(texts: pa.Array) -> pa.Array:
    return pc.equal(pc.binary_length(texts), 0)


def _told(array: pa.Array, flag: Callable[[pa.Array], pa.Array]) -> pa.Array | None:
    """Return flags of texts, computed once for each dictionary entry; None if no flag is set."""
    if not pa.types.is_dictionary(array.type):
        return flag(array)
    flags = flag(array.dictionary)
    return flags.take(array.indices) if pc.any(flags).as_py() else None


def _no_sets(lists: pa.Array) -> pa.Array | None:
    """Return flags of lists that hold a name twice, or one that is null or empty; None if there is none."""
    names = lists.flatten()
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    bad = np.zeros(len(lists), np.bool_)
    parents = np.repeat(np.arange(len(lists)), lengths)
    if names.null_count:
        bad[parents[names.is_null().to_numpy(zero_copy_only=False)]] = True
    if (empty := _told(names, _is_empty)) is not None:
        bad[parents[empty.fill_null(False).to_numpy(zero_copy_only=False)]] = True
    if len(parents) and lengths.max() > 1:
        coded = names if pa.types.is_dictionary(names.type) else names.dictionary_encode()
        codes = coded.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        keys = parents * np.int64(max(1, len(coded.dictionary))) + codes
        keys.sort(kind="stable")  # nearly sorted already: eight times as fast as the default
        twice = keys[1:][keys[1:] == keys[:-1]]
        bad[twice // max(1, len(coded.dictionary))] = True
    return pa.array(bad) if bad.any() else None
