"""The forty small tables on Spark, all as keys of one table: what a batch and a stream make of them.

`tests/unit/api/test_matrix.py` holds the other inputs against the same answers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.small_tables import NUMBERS, OTHER_TYPES, TEXTS, arrow, seen, wanted

from thence.cli import main
from thence.errors import MisuseError
from thence.spark import deliver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ASKED: dict[str, Any] = {"columns": {"message": "id", "depends_on": "causes"}, "key": ["run"]}


def test_a_batch(spark: SparkSession) -> None:
    frame = spark.createDataFrame(arrow(TEXTS))
    found = seen(deliver(frame, "depends_on", separator="|", **ASKED).toArrow().to_pylist())
    for name, rows in wanted(TEXTS).items():
        assert found[name] == rows, name


def test_numbers_in_a_batch(spark: SparkSession) -> None:
    frame = spark.createDataFrame(arrow(NUMBERS, pa.int64(), pa.int16()))
    found = seen(deliver(frame, "depends_on", **ASKED).toArrow().to_pylist())
    for name, rows in wanted(NUMBERS).items():
        assert found[name] == rows, name


@pytest.mark.parametrize("types", OTHER_TYPES)
def test_other_types_are_refused(spark: SparkSession, types: str) -> None:
    frame = spark.createDataFrame(arrow({"t": "1<2 2<1"}, *OTHER_TYPES[types]))
    with pytest.raises(MisuseError, match="is never equal to a"):
        deliver(frame, "depends_on", **ASKED)


def test_a_stream(spark: object, tmp_path: Path) -> None:
    """What a batch calls blocked, a stream still holds."""
    (tmp_path / "in").mkdir()
    pq.write_table(arrow(TEXTS), tmp_path / "in" / "rows.parquet")
    asked = ["--id", "id", "--causes", "causes", "--key", "run", "--separator", "|", "--stream", "--once"]
    asked += ["--checkpoint", str(tmp_path / "c"), "--out", str(tmp_path / "out"), "--json", str(tmp_path / "said")]
    assert main(["deliver", str(tmp_path / "in"), *asked]) == 0
    files = sorted((tmp_path / "out").glob("*.parquet"))
    found = seen(pa.concat_tables(map(pq.read_table, files)).to_pylist())
    waits = {(row["run"], row["message"]) for row in json.loads((tmp_path / "said").read_text())["waiting"]}
    for name, rows in wanted(TEXTS).items():
        assert found.get(name, []) == [row for row in rows if row[1] != "blocked"], name
        assert {own for run, own in waits if run == name} == {row[0] for row in rows if row[1] == "blocked"}, name
