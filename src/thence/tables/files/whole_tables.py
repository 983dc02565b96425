"""Tables that are read whole and in this process alone: CSV and TSV, Arrow IPC, folders of Delta and Iceberg.

*Invariant.* In CSV types are declared and never guessed: of arrivals every column is text as it is written (`007` is
not 7, and `NA` is an id), of events our columns have their types. An empty field is null. The first line names the
columns; a line that has more or fewer fields than it is refused, with its row. Files of CSV are opened by Arrow alone:
its threads may outlive the read, and one that then needs the interpreter aborts a process that is about to end.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from thence.core.model.escape import visible
from thence.errors import MisuseError, TraceError
from thence.tables.contract.columns import DEPENDENCIES, Column
from thence.tables.files.formats import ARROW, PARQUET, Format, Unfit, nameable, say_which
from thence.tables.files.lakehouse import read_lakehouse
from thence.tables.files.source import BROKEN, GZIP, ZSTD, excerpt, first_line, open_bytes

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import csv

SIGNS = (",", ";", "\t", "|")
"""What may separate the fields of CSV: the first of them that the first line has."""
NOT_UTF_8 = "looks like Latin-1 text; UTF-8 is accepted: iconv -f latin1 -t utf-8"
_MISREAD = re.compile(r"In CSV column #(\d+): CSV conversion error to int\d+: invalid value '(.*)'", re.DOTALL)


class Misread(TraceError):
    """A column of the contract holds a value of another type."""

    def __init__(self, path: Path, names: list[str], column: str, value: str) -> None:
        """Name the columns, this one and the value."""
        self.names, self.column = names, column
        self.said = f"column {visible(column)} holds {excerpt(value)!r}, which is not a whole number"
        super().__init__(f"{path}: {self.said}")


def ending_of(begins: bytes) -> str:
    """Return how the name of a file would end that begins so: a text that is not JSON is CSV or TSV."""
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


def read_whole(
    path: Path, kind: Format, types: Mapping[str, pa.DataType] | None, content: bytes | None = None
) -> pa.Table:
    """Return the rows of a file, whose content may be known, or folder.

    `types` are those of columns of CSV, of which the others have the type that pyarrow finds; None: all are texts.
    """
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


def _read_csv(path: Path, kind: Format, types: Mapping[str, pa.DataType] | None, content: bytes | None) -> pa.Table:
    import pyarrow as pa
    from pyarrow import csv

    names: list[str] = []
    parse = csv.ParseOptions(newlines_in_values=True)
    try:
        with open_bytes(path, content) as lines:
            parse.delimiter = _sign(lines.readline(1 << 16), kind)
        with _opened(path, content) as stream, csv.open_csv(stream, parse_options=parse) as reader:
            names = reader.schema.names
        types = dict.fromkeys(names, pa.string()) if types is None else types
        convert = csv.ConvertOptions(
            column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=True
        )
        with _opened(path, content) as stream:
            table = csv.read_csv(stream, parse_options=parse, convert_options=convert)
    except (*BROKEN, pa.ArrowException, UnicodeDecodeError) as error:
        if misread := _MISREAD.match(str(error)):
            raise Misread(path, names, names[int(misread[1])], misread[2]) from error
        line = _not_utf_8(path, content)
        why = _in_row(error, path, content, parse) if line is None else f"line {line} {NOT_UTF_8}"
        raise TraceError(f"{path} cannot be read as {kind.upper()}: {why}") from error
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise MisuseError(f"{path} has two columns {twice[0]!r}; rename one")
    return table


def _sign(first: bytes, kind: Format) -> str:
    """Return what separates the fields of the first line."""
    # spreadsheets write semicolons where the comma is the decimal sign
    return "\t" if kind == "tsv" else next((sign for sign in SIGNS if sign.encode() in first), ",")


def _not_utf_8(path: Path, content: bytes | None) -> int | None:
    """Return the first line that is not UTF-8, if there is one."""
    try:
        with open_bytes(path, content) as stream:
            for number, line in enumerate(stream, 1):
                try:
                    line.decode()
                except UnicodeDecodeError:
                    return number
    except BROKEN:
        pass  # a damaged file gets another error
    return None


def _in_row(error: Exception, path: Path, content: bytes | None, parse: csv.ParseOptions) -> str:
    """Return an error's text, with the row, which only a reader without threads reports."""
    import pyarrow as pa
    from pyarrow import csv

    if isinstance(error, pa.ArrowInvalid):
        try:
            with _opened(path, content) as stream:
                csv.read_csv(stream, csv.ReadOptions(use_threads=False), parse)
        except (*BROKEN, pa.ArrowException) as again:
            return first_line(again)
    return first_line(error)


def _opened(path: Path, content: bytes | None) -> pa.NativeFile:
    """Open a file, or its content if that is known, without any object of Python's; what is packed is unpacked."""
    import pyarrow as pa

    if content is None:
        file = pa.OSFile(str(path))
    else:
        copied = pa.BufferOutputStream()
        copied.write(content)
        file = pa.BufferReader(copied.getvalue())
    begins = file.read(len(ZSTD))
    file.seek(0)
    packed = "gzip" if begins.startswith(GZIP) else "zstd" if begins == ZSTD else None
    return file if packed is None else pa.CompressedInputStream(file, packed)


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
    except Misread as error:
        (column,) = (each for each in columns if each.theirs == error.column)
        return nameable((f"{error.said}; ", *say_which(column, error.names)))
    except TraceError as error:
        return Unfit(str(error).removeprefix(f"{path} "), claims=True)
    if kind in ("csv", "tsv"):
        if several := _several_in_one(table, columns):
            return Unfit(several, claims=True)
        table = _with_lists(table, columns)
    found = misfit(table.schema, columns, empty=not table.num_rows)
    if found is not None:
        return nameable((f"{found[1]}; ", *say_which(found[0], table.column_names)))
    return our_columns(without_views(table), columns)


def _several_in_one(table: pa.Table, columns: Sequence[Column]) -> str | None:
    """Return the field that seems to name several processes in a form that would be read as one name."""
    theirs = {column.name: column.theirs for column in columns}
    if theirs["destinations"] not in table.column_names or theirs["process"] not in table.column_names:
        return None
    known = set(table.column(theirs["process"]).unique().to_pylist())
    for text in table.column(theirs["destinations"]).unique().to_pylist():
        if text is None or text in known or _list(text) != [text] or not (parts := _PARTS.findall(text))[1:]:
            continue
        return (
            f"{theirs['destinations']} is {text!r}, and no process has this name; several are accepted as a list in "
            f"JSON: {json.dumps(parts, ensure_ascii=False)}; one with such a name too: "
            f"{json.dumps([text], ensure_ascii=False)}"
        )
    return None


_PARTS = re.compile(r"[^][,;|'\"\s](?:[^][,;|'\"]*[^][,;|'\"\s])?")
"""The names in a text that separates them by a comma, a semicolon or a bar, as a list or not."""


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
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, list) and all(isinstance(each, str) for each in found) else [text]
