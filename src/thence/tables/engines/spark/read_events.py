"""Trace files as a DataFrame: splits of files, which the workers open themselves and read side by side.

Invariant: the rows are those of `tables.files.batches` on the same files: every event, and every row or file that is
none with its `reason`. `line` and `order` are the same however the files are cut. No name of a file is ever read by
Hadoop.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from thence.core.model.events import Event
from thence.errors import MisuseError
from thence.tables.contract.columns import JUDGED_COLUMNS, PLACE_COLUMNS, Column, ddl
from thence.tables.engines.spark.versions import repartition_by_id
from thence.tables.files.batches import read_batches
from thence.tables.files.checked_batches import refused_batch, table_batches
from thence.tables.files.formats import Format
from thence.tables.files.jsonl import format_line
from thence.tables.files.read import split_files
from thence.tables.files.splits import Split
from thence.tables.judge.tasks import BatchFunction

SPLIT_BYTES = 16 << 20
"""Bytes of JSONL that one task reads, about."""
PARQUET_ROW_BYTES = 64
"""Bytes of JSONL that a row of Parquet counts for."""
SHORTEST = len(format_line(Event("", "a", 1, "crash")))
"""No row of any run takes fewer bytes."""
_SPLIT = "file string, format string, first bigint, order bigint, start bigint, length bigint, group int"


class _TaskInput(NamedTuple):
    """The rows that one task reads."""

    splits: list[Split]
    weight: int


def read_events(
    spark: SparkSession,
    files: Mapping[Path, Format],
    columns: Sequence[Column] = JUDGED_COLUMNS,
    *,
    needs: bool = True,
    whole: Mapping[Path, pa.Table] | None = None,
) -> DataFrame:
    """Return tables of events as one DataFrame: these columns, then `file`, `line` and `reason`.

    Unless `needs`, what a kind of row needs is left to the judge of its run. `whole` are the tables among the files
    that the driver has read.
    """
    logs = [path for path, kind in files.items() if kind == "shiviz"]
    if logs:
        raise MisuseError(f"{logs[0]} is a log with clocks: it has no messages and is not a table of events")
    schema = ddl((*columns, *PLACE_COLUMNS), nullable=True)
    cut = split_files(files, SPLIT_BYTES, columns)
    given = [refused_batch(cut.refused, columns)] if cut.refused else []
    for path, table in (whole or {}).items():
        given += table_batches(table, columns, str(path), needs=needs)
    frame = _driver_rows(spark, given or [refused_batch([], columns)], schema)
    inputs = _task_inputs(cut.splits)
    if not inputs:
        return frame
    rows = [(task, *asdict(each).values()) for task, task_input in enumerate(inputs) for each in task_input.splits]
    splits = spark.createDataFrame(rows, f"task int, {_SPLIT}")
    names = repartition_by_id(splits, len(inputs), F.col("task"))
    read = names.drop("task").mapInArrow(in_this_folder(_reading(tuple(columns), needs)), schema)
    return read.unionByName(frame) if given else read


def _task_inputs(splits: list[Split]) -> list[_TaskInput]:
    """Return the splits of each task; neighbouring small splits share a task."""
    inputs: list[_TaskInput] = []
    for each in splits:
        weight = _weight(each)
        if not inputs or inputs[-1].weight + weight > SPLIT_BYTES:
            inputs.append(_TaskInput([], 0))
        held = inputs.pop()
        inputs.append(_TaskInput([*held.splits, each], held.weight + weight))
    return inputs


def _weight(split: Split) -> int:
    if split.format == "parquet":
        return PARQUET_ROW_BYTES * (split.length or 0)
    return split.length or Path(split.file).stat().st_size


def in_this_folder(work: BatchFunction) -> BatchFunction:
    """Return the function wrapped so that it runs in the caller's folder, if the worker has it, for relative names."""
    folder = os.getcwd()

    def there(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with chdir(folder) if os.path.isdir(folder) else nullcontext():
            yield from work(batches)

    return there


def _reading(
    columns: tuple[Column, ...], needs: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of a task, which reads the splits named by its rows."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield from map(plain_names, read_batches(Split(**row), columns, needs=needs))

    return work


def plain_names(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose file names are strings, as Spark wants them."""
    place = batch.schema.get_field_index("file")
    return batch.set_column(place, "file", batch.column(place).cast(pa.string()))


def _driver_rows(spark: SparkSession, batches: list[pa.RecordBatch], schema: str) -> DataFrame:
    """Return what the driver has read: tables that are read whole, and records of files that cannot be read."""
    tables = [pa.Table.from_batches([plain_names(batch)]) for batch in batches]
    return spark.createDataFrame(pa.concat_tables(tables, promote_options="permissive"), schema)
