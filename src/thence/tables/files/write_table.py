"""Tables written to one file; the end of its name says the format.

*Invariant.* A file appears complete or not at all: it is written beside its place and then moved there. CSV has no
lists and objects, so these are JSON texts there. In JSON, moments are ISO 8601, decimals texts, bytes base64.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from uuid import UUID

from thence.errors import MisuseError
from thence.tables.files.formats import Format, by_name
from thence.tables.files.source import PACKED

if TYPE_CHECKING:
    import pyarrow as pa

WRITTEN_ROWS = 1 << 16
"""Rows that are written at a time."""
ENDINGS = ".parquet, .csv, .tsv, .jsonl, .json, .ndjson or .arrow, the texts also with .gz or .zst"
_ENDING = re.compile(r"\.[A-Za-z]\w*")
_COMPRESSION = {".gz": "gzip", ".zst": "zstd"}


def output_format(path: Path) -> Format | None:
    """Return the format of a file of this name; None if the name is that of a folder. `-` is standard output."""
    if str(path) == "-":
        return "jsonl"
    found = by_name(path)
    if found in ("parquet", "arrow") and path.suffix in PACKED:
        raise MisuseError(f"{path.name}: {found} packs its own columns; leave {path.suffix} out")
    if found is None and (path.suffix in PACKED or _ENDING.fullmatch(path.suffix)):
        raise MisuseError(f"{path.name} names no format; a file may end in {ENDINGS}, a folder's name has no ending")
    return found


def write_table(table: pa.Table, path: Path, kind: Format) -> None:
    """Write a table to a file, which is replaced if it exists, or to standard output."""
    if str(path) == "-":
        _write_lines(table, sys.stdout.buffer)
        return
    beside = path.with_name(f".{path.name}.unfinished")
    try:
        _write(table, beside, kind, _COMPRESSION.get(path.suffix))
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _write(table: pa.Table, path: Path, kind: Format, compression: str | None) -> None:
    import pyarrow as pa

    if kind == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, path)
        return
    with pa.output_stream(str(path), compression=compression) as stream:
        if kind == "arrow":
            with pa.ipc.new_file(stream, table.schema) as writer:
                writer.write_table(table)
        elif kind == "jsonl":
            _write_lines(table, stream)
        else:
            from pyarrow import csv

            options = csv.WriteOptions(delimiter="\t" if kind == "tsv" else ",")
            csv.write_csv(_flat(table), stream, options)


def _write_lines(table: pa.Table, stream: IO[bytes]) -> None:
    import pyarrow as pa

    encode = json.JSONEncoder(ensure_ascii=False, default=_plain).encode
    maps = [field.name for field in table.schema if pa.types.is_map(field.type)]
    for batch in table.to_batches(max_chunksize=WRITTEN_ROWS):
        rows = batch.to_pylist()
        for name in maps:
            for row in rows:
                row[name] = _as_object(row[name])
        stream.write("".join(encode(row) + "\n" for row in rows).encode())


def _as_object(pairs: list[tuple[Any, Any]] | None) -> Any:
    """Return a map as JSON has it, an object; as pairs if a key is there twice or is not a text."""
    found = dict(pairs or ())
    whole = pairs is not None and len(found) == len(pairs) and all(isinstance(key, str) for key in found)
    return found if whole else pairs


def _plain(value: Any) -> Any:
    """Return a value that JSON has no form for in one that it has."""
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value) if isinstance(value, Decimal | UUID) else repr(value)


def _flat(table: pa.Table) -> pa.Table:
    """Return a table without lists, objects and bytes, which CSV cannot hold: they are texts."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if pa.types.is_nested(field.type) or pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
            cells = _texts(table.column(place), _as_object if pa.types.is_map(field.type) else None)
            table = table.set_column(place, field.name, pa.array(cells, pa.string()))
        elif pa.types.is_dictionary(field.type):
            table = table.set_column(place, field.name, table.column(place).cast(field.type.value_type))
        elif isinstance(field.type, pa.BaseExtensionType):
            texts = [None if value is None else str(value) for value in table.column(place).to_pylist()]
            table = table.set_column(place, field.name, pa.array(texts, pa.string()))
    return table


def _texts(values: pa.ChunkedArray, made: Callable[[Any], Any] | None = None) -> Iterator[str | None]:
    encode = json.JSONEncoder(ensure_ascii=False, default=_plain, separators=(",", ":")).encode
    for value in values.to_pylist() if made is None else map(made, values.to_pylist()):
        yield value if value is None else _plain(value) if isinstance(value, bytes) else encode(value)
