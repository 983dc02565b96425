"""Tables that are read whole and in this process alone: CSV and TSV, Arrow IPC, folders of Delta and Iceberg.

*Invariant.* In CSV, types are declared and never guessed for our columns: ids, causes and keys are texts as they are
written (`007` is not 7, and `NA` is an id). An empty field is null. The types of other columns are those that pyarrow
finds. The first line names the columns; a line that has more or fewer fields than it is refused, with the line.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from thence.errors import MisuseError, TraceError
from thence.tables.contract.columns import DEPENDENCIES, Column
from thence.tables.files.formats import ARROW, PARQUET, Format, Unfit, nameable, say_which
from thence.tables.files.lakehouse import read_lakehouse
from thence.tables.files.source import BROKEN, GZIP, ZSTD, first_line, open_bytes

if TYPE_CHECKING:
    import pyarrow as pa

    from thence.tables.files.jsonl import Located


def ending_of(begins: bytes) -> str:
    """Return how the name of a file would end that begins so: a text that is no JSON is CSV or TSV."""
    packed = ".gz" if begins.startswith(GZIP) else ".zst" if begins.startswith(ZSTD) else ""
    try:
        text = zlib.decompressobj(wbits=31).decompress(begins, 1 << 16) if packed == ".gz" else begins
    except zlib.error:
        text = b""  # the reader says why
    if packed == ".zst":
        text = _unpacked(begins)
    first = text.lstrip(b"\xef\xbb\xbf \t\r\n").split(b"\n", 1)[0]
    if text.startswith(PARQUET):
        return ".parquet"
    if text.startswith(ARROW):
        return ".arrow"
    kind = ".jsonl" if not first or first.startswith((b"{", b"[")) else ".tsv" if b"\t" in first else ".csv"
    return kind + packed


def _unpacked(begins: bytes) -> bytes:
    """Return how a text begins of which the beginning is packed by zstandard."""
    try:
        with open_bytes(Path(), begins) as stream:
            return stream.read1(1 << 16)
    except BROKEN:
        return b""


def read_whole(path: Path, kind: Format, types: Mapping[str, pa.DataType], content: bytes | None = None) -> pa.Table:
    """Return the rows of a file, whose content may be known, or folder; `types` are those of columns of CSV."""
    if kind == "delta" or kind == "iceberg":
        return read_lakehouse(path, kind)
    return _read_arrow(path) if kind == "arrow" else _read_csv(path, kind, types, content)


def _read_arrow(path: Path) -> pa.Table:
    """Read an Arrow file, or a stream that was written to a file."""
    import pyarrow as pa

    try:
        with pa.OSFile(str(path)) as file:
            begins = file.read(len(ARROW[0]))
            file.seek(0)
            opened = pa.ipc.open_file if begins == ARROW[0] else pa.ipc.open_stream
            with opened(file) as reader:
                return reader.read_all()
    except (*BROKEN, pa.ArrowException) as error:
        raise TraceError(f"{path} cannot be read as Arrow: {first_line(error)}") from error


def _read_csv(path: Path, kind: Format, types: Mapping[str, pa.DataType], content: bytes | None) -> pa.Table:
    import pyarrow as pa
    from pyarrow import csv

    convert = csv.ConvertOptions(
        column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=True
    )
    parse = csv.ParseOptions(delimiter="\t" if kind == "tsv" else ",", newlines_in_values=True)
    try:
        with open_bytes(path, content) as stream:
            table = csv.read_csv(stream, parse_options=parse, convert_options=convert)
    except (*BROKEN, pa.ArrowException) as error:
        raise TraceError(f"{path} cannot be read as {kind.upper()}: {first_line(error)}") from error
    twice = [name for name in table.column_names if table.column_names.count(name) > 1]
    if twice:
        raise MisuseError(f"{path} has two columns {twice[0]!r}; rename one")
    return table


# -- events ------------------------------------------------------------------------------------------------------------


def event_table(path: Path, kind: Format, columns: Sequence[Column], content: bytes | None = None) -> pa.Table | Unfit:
    """Return the columns of an event that a table has, in our names, or why it cannot be used."""
    import pyarrow as pa

    from thence.tables.contract.spark_to_arrow_types import arrow_type
    from thence.tables.files.inputs import without_views
    from thence.tables.files.parquet_reader import misfit, our_columns

    types = {
        column.theirs: arrow_type(column.type) if column.type in ("long", "int") else pa.string()
        for column in columns
        if column.type not in ("double", DEPENDENCIES)
    }
    try:
        table = read_whole(path, kind, types, content)
    except TraceError as error:
        return Unfit(str(error).removeprefix(f"{path} "), claims=True)
    if kind in ("csv", "tsv"):
        table = _with_lists(table, columns)
    found = misfit(table.schema, columns)
    if found is not None:
        return nameable((f"{found[1]}; ", *say_which(found[0], table.column_names)))
    return our_columns(without_views(table), columns)


def _with_lists(table: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """Return a table in which texts of lists are lists: a field is one name, or a list as JSON writes it."""
    import pyarrow as pa

    for column in columns:
        if column.theirs not in table.column_names:
            continue
        place = table.column_names.index(column.theirs)
        if column.type == "array<string>":
            lists = [None if text is None else _list(text) for text in table.column(place).to_pylist()]
            table = table.set_column(place, column.theirs, pa.array(lists, pa.list_(pa.string())))
        elif column.type == DEPENDENCIES:
            table = table.remove_column(place)  # CSV has no form for it
    return table


def _list(text: str) -> list[str]:
    try:
        found = json.loads(text) if text.startswith("[") else None
    except ValueError:
        found = None
    return found if isinstance(found, list) and all(isinstance(each, str) for each in found) else [text]


def table_batches(
    table: pa.Table, path: Path, columns: Sequence[Column], *, needs: bool, coded: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table in our names as batches, see `checked_batches`."""
    from thence.tables.files.checked_batches import event_batch
    from thence.tables.files.parquet_reader import BATCH_ROWS

    first = 1
    for batch in _own(table, columns).to_batches(max_chunksize=BATCH_ROWS):
        yield event_batch(batch, columns, str(path), first, needs=needs, coded=coded)
        first += len(batch)


def table_located(table: pa.Table, path: Path, columns: Sequence[Column], *, needs: bool) -> Iterator[Located]:
    """Yield (row number, event) or a quarantine record for each row of a table in our names."""
    from thence.tables.files.checked_batches import located
    from thence.tables.files.parquet_reader import BATCH_ROWS

    first = 1
    for batch in _own(table, columns).to_batches(max_chunksize=BATCH_ROWS):
        yield from located(batch, str(path), first, needs=needs)
        first += len(batch)


def _own(table: pa.Table, columns: Sequence[Column]) -> pa.Table:
    return table.select([column.name for column in columns if column.name in table.column_names])
