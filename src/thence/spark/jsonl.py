"""JSONL traces as a DataFrame: a Python data source that reads slices of files side by side.

Law. Every line that is not blank comes out as exactly one row: an event, or what is left of it with `reason`.
`order` is what the line says, else where it stands: file after file, then byte offset. `line` is the byte
offset of the row's line; `numbered` turns offsets into line numbers, for the few that anyone wants to see.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from thence.model.events import Event
from thence.trace.jsonl import format_line, parse_line
from thence.trace.source import BROKEN, LINE_LIMIT, open_bytes

NAME = "thence_jsonl"
DDL = (
    "run string, process string, index bigint, kind string, message string, destinations array<string>, label string, "
    "order bigint, file string, line bigint, reason string"
)
_SCHEMA = pa.schema(
    [
        ("run", pa.string()), ("process", pa.string()), ("index", pa.int64()), ("kind", pa.string()),
        ("message", pa.string()), ("destinations", pa.list_(pa.string())), ("label", pa.string()),
        ("order", pa.int64()), ("file", pa.string()), ("line", pa.int64()), ("reason", pa.string()),
    ]
)  # fmt: skip
_EVENT = ("run", "process", "index", "kind", "message", "destinations", "label", "order")
SLICE = 16 << 20
BATCH = 10_000
SHORTEST = len(format_line(Event("", "a", 1, "crash")))
"""No row of any run takes fewer bytes."""
PACKED = 1100
"""No gzip file unpacks to more than so many times its size."""


def read_jsonl(spark: SparkSession, files: Iterable[str | Path]) -> DataFrame:
    """Return JSONL files, plain or gzipped, as one DataFrame of events and refused lines."""
    spark.dataSource.register(JsonlSource)
    names = json.dumps([str(file) for file in files])
    return spark.read.format(NAME).option("files", names).load()


class JsonlSource(DataSource):
    """The data source behind `read_jsonl`."""

    @classmethod
    def name(cls) -> str:
        """Return the name it is registered under."""
        return NAME

    def schema(self) -> str:
        """Return the columns."""
        return DDL

    def reader(self, schema: Any) -> DataSourceReader:
        """Return the reader."""
        return _Reader(json.loads(self.options["files"]))


@dataclass(frozen=True)
class _Slice:
    """Part of a file, or all of it; `base` is the `order` of its first byte."""

    base: int
    file: str
    start: int
    end: int | None


class _Share(InputPartition):
    """What one task reads: one slice of a large file, or some small files."""

    def __init__(self, slices: list[_Slice]) -> None:
        self.slices = slices


class _Reader(DataSourceReader):
    def __init__(self, files: list[str]) -> None:
        self.files = files

    def partitions(self) -> list[InputPartition]:
        """Cut large files into slices; a packed one cannot be cut."""
        shares: list[InputPartition] = []
        small: list[_Slice] = []
        held = base = 0
        for name in self.files:
            path = Path(name)
            size = path.stat().st_size if path.exists() else 0
            here, base = base, base + 1 + (size * PACKED if path.suffix == ".gz" else size)
            if size > SLICE and path.suffix != ".gz":
                ends = [(at, min(size, at + SLICE)) for at in range(0, size, SLICE)]
                shares += [_Share([_Slice(here, name, start, end)]) for start, end in ends]
                continue
            small.append(_Slice(here, name, 0, None))
            held += size
            if held > SLICE:
                shares.append(_Share(small))
                small, held = [], 0
        return [*shares, _Share(small)] if small else shares

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one slice."""
        assert isinstance(partition, _Share)
        held: list[dict[str, Any]] = []
        for row in (row for piece in partition.slices for row in _rows(piece)):
            held.append(row)
            if len(held) == BATCH:
                yield pa.RecordBatch.from_pylist(held, schema=_SCHEMA)
                held = []
        if held:
            yield pa.RecordBatch.from_pylist(held, schema=_SCHEMA)


def _rows(piece: _Slice) -> Iterator[dict[str, Any]]:
    offset = piece.start
    try:
        with open_bytes(Path(piece.file)) as stream:
            if piece.start:
                stream.seek(piece.start - 1)
                offset += len(stream.readline()) - 1  # the line that began before belongs to the slice before
            while piece.end is None or offset < piece.end:
                raw = stream.readline(LINE_LIMIT)
                if not raw:
                    return
                at, offset = offset, offset + len(raw)
                whole = raw.endswith(b"\n") or len(raw) < LINE_LIMIT
                while not whole and (rest := stream.readline(LINE_LIMIT)):
                    offset += len(rest)
                    if rest.endswith(b"\n"):
                        break
                if at == 0:
                    raw = raw.removeprefix(b"\xef\xbb\xbf")
                if raw and not raw.isspace():
                    yield _row(piece, at, raw, whole)
    except BROKEN as error:
        yield _refused(piece, offset, f"the file breaks off: {error}")


def _row(piece: _Slice, at: int, raw: bytes, whole: bool) -> dict[str, Any]:
    if not whole:
        return _refused(piece, at, f"the line is longer than {LINE_LIMIT} bytes")
    event = parse_line(raw, order=piece.base + at)
    if isinstance(event, Event):
        return {name: getattr(event, name) for name in _EVENT} | {"file": piece.file, "line": at}
    cut = "" if raw.endswith(b"\n") else "the last line is cut off or not an event: "
    return _refused(piece, at, cut + event)


def _refused(piece: _Slice, at: int, reason: str) -> dict[str, Any]:
    return {"order": piece.base + at, "file": piece.file, "line": at, "reason": reason}


def numbered(file: str, offsets: Iterable[int]) -> dict[int, int]:
    """Return the line number of each byte offset of a file."""
    wanted = sorted(set(offsets))
    found: dict[int, int] = {}
    number, at = 1, 0
    try:
        with open_bytes(Path(file)) as stream:
            for offset in wanted:
                while at < offset and (block := stream.read(min(1 << 20, offset - at))):
                    number += block.count(b"\n")
                    at += len(block)
                found[offset] = number
    except BROKEN:
        found.update(dict.fromkeys((offset for offset in wanted if offset not in found), number))
    return found
