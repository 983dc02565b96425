"""Arrivals in CSV and TSV, read by pyarrow: explicit causes alone.

*Invariant.* Ids, causes and keys are texts as they are written: `007` is not 7, and `NA` is an id. An empty field is
null. The types of other columns are those that pyarrow finds. The first line names the columns; a line that has more or
fewer fields than it is refused, with the line.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from thence.errors import MisuseError, TraceError
from thence.tables.files.formats import PARQUET
from thence.tables.files.source import BROKEN, GZIP, first_line, open_bytes

if TYPE_CHECKING:
    import pyarrow as pa

    from thence.tables.delivery.columns import Columns

Separated = Literal["csv", "tsv"]
_SEPARATORS: dict[Separated, str] = {"csv": ",", "tsv": "\t"}


def separated(path: Path) -> Separated | None:
    """Return which of the two a name says, if any."""
    inner = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return {".csv": "csv", ".tsv": "tsv"}.get(inner.suffix.lower())  # type: ignore[return-value]


def suffix_of(begins: bytes) -> str:
    """Return how the name of a file would end that begins so: a text that is no JSON is CSV or TSV."""
    packed = begins.startswith(GZIP)
    try:
        text = zlib.decompressobj(wbits=31).decompress(begins, 1 << 16) if packed else begins
    except zlib.error:
        text = b""  # the reader says why
    first = text.lstrip(b"\xef\xbb\xbf \t\r\n").split(b"\n", 1)[0]
    if text.startswith(PARQUET):
        return ".parquet"
    kind = ".jsonl" if not first or first.startswith((b"{", b"[")) else ".tsv" if b"\t" in first else ".csv"
    return kind + ".gz" * packed


def read_separated(files: list[Path], kind: Separated, columns: Columns) -> pa.Table:
    """Return the rows of files of one kind."""
    import pyarrow as pa

    tables = [_read(file, kind, {columns.message, columns.cause, columns.sender, *columns.key}) for file in files]
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise TraceError(f"the files of arrivals do not fit together: {first_line(error)}") from error


def _read(file: Path, kind: Separated, texts: set[str]) -> pa.Table:
    import pyarrow as pa
    from pyarrow import csv

    types = dict.fromkeys(texts, pa.string())
    convert = csv.ConvertOptions(
        column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=True
    )
    parse = csv.ParseOptions(delimiter=_SEPARATORS[kind], newlines_in_values=True)
    try:
        with open_bytes(file) as stream:
            table = csv.read_csv(stream, parse_options=parse, convert_options=convert)
    except (*BROKEN, pa.ArrowException) as error:
        raise TraceError(f"{file} cannot be read as {kind.upper()}: {first_line(error)}") from error
    twice = [name for name in table.column_names if table.column_names.count(name) > 1]
    if twice:
        raise MisuseError(f"{file} has two columns {twice[0]!r}; rename one")
    return table
