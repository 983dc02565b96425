"""Parquet read through pyarrow, one row group at a time, without Spark.

Invariant: every row comes out once: as an event, or with a reason. A file that lacks a required column, has a column of
another type, or is not a Parquet file is set aside whole, with the column named. Damage costs the row group it is in,
which is named with its rows. A row that is not an event is set aside alone, `line` being its number in the file, from
1. Only the columns asked for are read and looked at; other columns never are, with any names.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from thence.tables.contract.columns import EVENT_COLUMNS, Column
from thence.tables.files.checked_batches import refused_batch, table_batches
from thence.tables.files.formats import Unfit, nameable, say_which
from thence.tables.files.inputs import is_any_list, with_plain_lists
from thence.tables.files.memory import SHARE, free_memory
from thence.tables.files.source import BROKEN, Quarantined, first_line
from thence.tables.files.splits import Split

if TYPE_CHECKING:
    import pyarrow.parquet as pq  # 12 ms, with ssl and S3: loaded where a file is opened, not for lines

UNREADABLE = (*BROKEN, pa.ArrowException, UnicodeDecodeError)
"""What reading a damaged file can raise; the last of a name of a column that is not UTF-8."""


def has_order(path: Path | str) -> bool:
    """Return whether a file is Parquet with a column `order`."""
    try:
        return "order" in footer(str(path)).schema.to_arrow_schema().names
    except UNREADABLE:
        return False


def unfit_file(path: Path, columns: Sequence[Column]) -> Unfit | None:
    """Return why a file that can be opened cannot be used for these columns, by its schema alone."""
    try:
        schema = footer(str(path)).schema.to_arrow_schema()
        found = misfit(schema, columns, empty=not footer(str(path)).num_rows)
        names = schema.names
    except UNREADABLE:
        return None  # its record says why
    return nameable((f"{found[1]}; ", *say_which(found[0], names))) if found else None


def row_groups(path: Path | str, columns: Sequence[Column] = EVENT_COLUMNS) -> list[Split | Quarantined]:
    """Return the row groups of a file, or why it cannot be used for these columns."""
    try:
        whole = footer(str(path))
        if reason := unfit(whole.schema.to_arrow_schema(), columns, empty=not whole.num_rows):
            return [Quarantined(str(path), None, f"{reason}; its {whole.num_rows} rows are set aside")]
        counts = [whole.row_group(group).num_rows for group in range(whole.num_row_groups)]
    except UNREADABLE as error:
        return [Quarantined(str(path), None, f"it cannot be read as Parquet: {first_line(error)}")]
    places = zip(counts, accumulate(counts, initial=1), strict=False)
    return [
        Split(str(path), "parquet", first, length=count, group=group) for group, (count, first) in enumerate(places)
    ]


@lru_cache(64)
def _footer(path: str, size: int, changed: int) -> pq.FileMetaData:
    import pyarrow.parquet as pq

    return pq.read_metadata(path)


def footer(path: str) -> pq.FileMetaData:
    """Return the footer of a file, which is read once."""
    found = os.stat(path)
    return _footer(path, found.st_size, found.st_mtime_ns)


def read_row_group(split: Split, columns: Sequence[Column]) -> pa.Table | Quarantined:
    """Return the columns of a row group that are ours, or the record of its damage.

    Texts stay in the dictionaries that Parquet has them in: written out, one long text could stand in every row.
    """
    import pyarrow.parquet as pq

    last = split.first + (split.length or 0) - 1
    try:
        whole = footer(split.file)
        leaves, size = _leaves(whole, split.group, {column.theirs for column in columns})
        if size > SHARE * free_memory():
            raise MemoryError(f"it holds {size / 1e9:.1f} GB, more than half of the memory that is free")
        with pq.ParquetFile(
            split.file, metadata=whole, read_dictionary=leaves, page_checksum_verification=True
        ) as file:
            present = set(file.schema_arrow.names)
            found = [column for column in columns if column.theirs in present]
            names = [column.theirs for column in found]
            return our_columns(file.read_row_group(split.group, columns=names, use_threads=False), found)
    except (*UNREADABLE, MemoryError) as error:
        lost = (
            f"row group {split.group + 1}, rows {split.first} to {last}, cannot be read as Parquet: {first_line(error)}"
        )
        return Quarantined(split.file, split.first, lost)


def _leaves(whole: pq.FileMetaData, group: int, names: Collection[str]) -> tuple[list[str], int]:
    """Return the leaves of some columns that hold texts, and how many bytes the columns have in a row group."""
    rows = whole.row_group(group)
    own = [place for place in range(rows.num_columns) if rows.column(place).path_in_schema.split(".")[0] in names]
    texts = [rows.column(place).path_in_schema for place in own if rows.column(place).physical_type == "BYTE_ARRAY"]
    return texts, sum(rows.column(place).total_uncompressed_size for place in own)


def our_columns(table: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """Return those of these columns that a table has, under our names; moments as seconds."""
    found = [column for column in columns if column.theirs in table.column_names]
    table = with_plain_lists(table.select([column.theirs for column in found]))
    for place, column in enumerate(found):
        if column.type == "double" and pa.types.is_timestamp(table.schema.types[place]):
            table = table.set_column(place, column.theirs, _in_seconds(table.column(place)))
        elif column.words:
            table = table.set_column(place, column.theirs, our_words(table.column(place), column))
    return table.rename_columns([column.name for column in found])


def our_words(values: pa.Array | pa.ChunkedArray, column: Column) -> pa.Array | pa.ChunkedArray:
    """Return texts in which the caller's words are ours; other texts stay."""
    if not column.words or pa.types.is_null(values.type):
        return values
    texts = values.cast(pa.string())
    theirs, ours = zip(*column.words, strict=True)
    places = pc.index_in(texts, value_set=pa.array(theirs, pa.string()))
    return pc.coalesce(pc.take(pa.array(ours, pa.string()), places), texts)


def _in_seconds(moments: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return moments as seconds; one without a zone is taken as UTC, as `core.model.moments` has it."""
    exact = moments.cast(pa.timestamp("us", moments.type.tz), safe=False)
    return pc.divide(exact.cast(pa.int64()).cast(pa.float64()), 1e6)


def row_group_batches(
    split: Split, columns: Sequence[Column] = EVENT_COLUMNS, *, needs: bool = True, coded: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a row group as batches, see `checked_batches`; `coded`: texts may stay in dictionaries."""
    table = read_row_group(split, columns)
    if isinstance(table, Quarantined):
        yield refused_batch([table], columns)
        return
    yield from table_batches(table, columns, split.file, split.first, needs=needs, coded=coded)


def unfit(schema: pa.Schema, columns: Sequence[Column] = EVENT_COLUMNS, *, empty: bool = False) -> str | None:
    """Return why a pyarrow schema cannot be a table with these columns, or nothing."""
    return found[1] if (found := misfit(schema, columns, empty=empty)) else None


def misfit(schema: pa.Schema, columns: Sequence[Column], *, empty: bool = False) -> tuple[Column, str] | None:
    """Return the first column that a schema lacks, or has in another type, and what is wrong.

    `empty`: the table has no rows, so its types say nothing; pandas gives the columns of an empty frame any type.
    """
    for column in columns:
        name = column.theirs
        times = schema.names.count(name)
        if times > 1:
            return column, f"column {name} stands {times} times"
        if times == 0:
            if column.required or column.called:
                return column, f"column {name} is missing"
        elif not empty and not _fits(found := schema.field(name).type, column):
            return column, f"column {name} is {found}; {column.type} is accepted{_as_texts(found, column)}"
    return None


def _as_texts(found: pa.DataType, column: Column) -> str:
    """Return what to do with ids that are whole numbers, which would be other ids than their texts are."""
    inner = found.value_type if is_any_list(found) else found
    texts = column.type in ("string", "array<string>") and not column.among
    return ": convert its numbers to texts" if texts and pa.types.is_integer(inner) else ""


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
    if not is_any_list(found):
        return False
    if column.type == "array<string>":
        return _is_text(found.value_type) or bool(pa.types.is_null(found.value_type))
    return bool(pa.types.is_struct(found.value_type) or pa.types.is_null(found.value_type))


def _is_text(found: pa.DataType) -> bool:
    if pa.types.is_dictionary(found):
        found = found.value_type
    return bool(pa.types.is_string(found) or pa.types.is_large_string(found) or pa.types.is_string_view(found))
