"""Trace files as a DataFrame for a replay: every column that a replay needs, `time` among them.

Law. Every event of the files is a row. What is no event is set aside with its reason: a Parquet file that is no
trace as `refused`, a line of JSONL as a row that has nothing but `file`, `line` and `reason`. Rows of JSONL that
say no `order` get one from the place of their line, file after file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from thence.errors import MisuseError
from thence.trace.jsonl import located
from thence.trace.parquet import unfit
from thence.trace.read import Trace
from thence.trace.source import BROKEN, Quarantined, open_bytes

COLUMNS = {
    "run": "string", "process": "string", "index": "bigint", "kind": "string", "message": "string",
    "destinations": "array<string>", "label": "string", "order": "bigint", "time": "double",
    "file": "string", "line": "bigint", "reason": "string",
}  # fmt: skip
DDL = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())
_ARROW = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "array<string>": pa.list_(pa.string()),
}
_SCHEMA = pa.schema([(name, _ARROW[kind]) for name, kind in COLUMNS.items()])
_EVENT = [name for name in COLUMNS if name not in ("file", "line", "reason")]
BATCH = 10_000
FILE_SHIFT = 42


@dataclass(slots=True)
class Read:
    """A frame of events, and files that are none."""

    events: DataFrame
    refused: list[Quarantined] = field(default_factory=list)


def read_events(spark: SparkSession, trace: Trace) -> Read:
    """Return tables of events; logs with clocks have no messages and cannot be replayed."""
    logs = [str(path) for path, kind in trace.files.items() if kind == "shiviz"]
    if logs:
        raise MisuseError(f"{logs[0]} is a log with clocks: it has no messages, so there is nothing to replay")
    refused: list[Quarantined] = []
    tables = [path for path, kind in trace.files.items() if kind == "parquet" and _is_trace(path, refused)]
    lines = [path for path, kind in trace.files.items() if kind == "jsonl"]
    frames = [_read_tables(spark, tables)] if tables else []
    frames += [_read_lines(spark, lines)] if lines else []
    if not frames:
        frames = [spark.createDataFrame([], DDL)]
    return Read(reduce(lambda one, two: one.unionByName(two), frames), refused)


def _is_trace(path: Path, refused: list[Quarantined]) -> bool:
    try:
        reason = unfit(pq.read_schema(path))
    except (*BROKEN, pa.ArrowException) as error:
        reason = f"it cannot be read as Parquet: {(str(error).splitlines() or [''])[0]}"
    if reason is not None:
        refused.append(Quarantined(str(path), None, reason))
    return reason is None


def _read_tables(spark: SparkSession, files: list[Path]) -> DataFrame:
    frame = spark.read.option("mergeSchema", True).parquet(*(str(file) for file in files))
    return frame.select(
        *(
            (F.col(f"`{name}`") if name in frame.columns else F.lit(None)).cast(kind).alias(name)
            for name, kind in COLUMNS.items()
        )
    )


def _read_lines(spark: SparkSession, files: list[Path]) -> DataFrame:
    rows = [(number, str(file)) for number, file in enumerate(files)]
    names = spark.createDataFrame(rows, "number int, file string").repartitionById(len(rows), F.col("number"))
    return names.mapInArrow(_read_named, DDL)


def _read_named(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    held: list[dict[str, Any]] = []
    for batch in batches:
        for each in batch.to_pylist():
            for row in _rows(each["file"], each["number"] << FILE_SHIFT):
                held.append(row)
                if len(held) == BATCH:
                    yield pa.RecordBatch.from_pylist(held, schema=_SCHEMA)
                    held = []
    yield pa.RecordBatch.from_pylist(held, schema=_SCHEMA)


def _rows(file: str, start: int) -> Iterator[dict[str, Any]]:
    try:
        with open_bytes(Path(file)) as stream:
            for found in located(stream, file, start=start):
                if isinstance(found, Quarantined):
                    yield {"file": file, "line": found.line, "reason": found.reason}
                else:
                    yield {name: getattr(found[1], name) for name in _EVENT}
    except BROKEN as error:
        yield {"file": file, "reason": f"it cannot be read: {error}"}
