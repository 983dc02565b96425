"""The forty small tables on Spark, all as keys of one table: what a batch and a stream make of them.

`tests/unit/api/test_matrix.py` holds the other inputs against the same answers.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.deliveries import run_stream
from support.small_tables import NUMBER_TYPES, NUMBERS, OTHER_TYPES, SEEN, TEXTS, arrow, seen, wanted

from thence.errors import MisuseError
from thence.spark import deliver, waiting_in_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ASKED: dict[str, Any] = {"id": "id", "causes": "causes", "key": ["run"]}
Row = dict[str, Any]
MICRO_BATCHES = 2


def batch(spark: SparkSession, table: pa.Table, folder: Path, more: Row) -> list[Row]:
    rows: list[Row] = deliver(spark.createDataFrame(table), **ASKED, **more).toArrow().to_pylist()
    return rows


def stream(spark: SparkSession, table: pa.Table, folder: Path, more: Row) -> list[Row]:
    """Deliver in two micro-batches, in the order of arrival; what the stream holds at the end is blocked."""
    (folder / "in").mkdir()
    ordered = table.sort_by([("arrival", "ascending"), ("run", "ascending")])
    for part in range(MICRO_BATCHES):
        start, stop = (place * len(ordered) // MICRO_BATCHES for place in (part, part + 1))
        file = folder / "in" / f"{part}.parquet"
        pq.write_table(ordered.slice(start, stop - start), file)
        os.utime(file, (1_700_000_000 + part, 1_700_000_000 + part))
    schema = spark.createDataFrame(table).schema
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    query = run_stream(deliver(source, **ASKED, **more), folder)
    assert len([each for each in query.recentProgress if each.numInputRows]) == MICRO_BATCHES
    out: list[Row] = spark.read.parquet(str(folder / "out")).toArrow().to_pylist()
    came = {(row["run"], _text(row["id"])): row for row in reversed(table.to_pylist())}  # the first one is held
    for held in waiting_in_stream(spark, folder / "checkpoint").toArrow().to_pylist():
        row = came[held["run"], held["message"]]
        out.append(row | held | {"outcome": "blocked", "position": None, "waited_for": None})
    return out


INPUTS: dict[str, Callable[[SparkSession, pa.Table, Path, Row], list[Row]]] = {"batch": batch, "stream": stream}


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _comparable(kind: str, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return a table's rows as each kind says them: `waiting` has no `waited_for`, and files have no order."""
    if kind == "batch":
        return rows
    outcome, position, waited_for = map(SEEN.index, ("outcome", "position", "waited_for"))
    found = [
        (*row[:waited_for], None if row[outcome] == "blocked" else row[waited_for], *row[waited_for + 1 :])
        for row in rows
    ]
    return sorted(found, key=lambda row: (int(row[position] or 0), str(row)))


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize(
    ("tables", "types", "more"),
    [
        (TEXTS, (), {"separator": "|"}),
        (NUMBERS, (pa.int64(), NUMBER_TYPES["another width"]), {}),
        (NUMBERS, (pa.int64(), NUMBER_TYPES["floats"]), {}),
    ],
    ids=["texts", "numbers", "floats"],
)
def test_every_table(
    spark: SparkSession, tmp_path: Path, kind: str, tables: dict[str, str], types: tuple[pa.DataType, ...], more: Row
) -> None:
    found = seen(INPUTS[kind](spark, arrow(tables, *types), tmp_path, more))
    answers = wanted(tables)
    assert found.keys() == answers.keys()
    for name, rows in answers.items():
        assert _comparable(kind, found[name]) == _comparable(kind, rows), name


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("types", OTHER_TYPES)
def test_other_types_are_refused(spark: SparkSession, tmp_path: Path, kind: str, types: str) -> None:
    table = arrow({"t": "1<2 2<1"}, *OTHER_TYPES[types])
    with pytest.raises(MisuseError, match="is never equal to a"):
        INPUTS[kind](spark, table, tmp_path, {})
