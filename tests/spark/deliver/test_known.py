"""`known=` on Spark: a batch equals this process, and a stream begins with what is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from support.deliveries import run_stream

import thence
from thence.cli import main
from thence.errors import MisuseError
from thence.spark import deliver, waiting_in_stream

ROWS = [
    {"account": account, "id": id, "parent": parent, "arrival": arrival}
    for account in range(20)
    for arrival, (id, parent) in enumerate([("c", "b"), ("b", "a"), ("old", None), ("d", "older"), ("e", "lost")])
]
KNOWN = [{"account": account, "id": id} for account in range(15) for id in ("older", "old")]
SCHEMA, ASKED = "account long, id string, parent string, arrival long", {"id": "id", "causes": "parent"}


def seen(rows: list[Any]) -> list[tuple[Any, ...]]:
    names = ("account", "id", "outcome", "position", "reason")
    return sorted(tuple(row[name] for name in names) for row in rows)


def known(spark: SparkSession) -> DataFrame:
    """Return what an earlier delivery may have written: a row without a position is not known."""
    rows = [row | {"outcome": "late"} for row in KNOWN] + [{"account": 2, "id": "lost", "outcome": "blocked"}]
    rows[0]["outcome"] = "stored"  # of another program
    rows[1].pop("outcome")
    return spark.createDataFrame(rows, "account int, id string, outcome string")


def test_a_batch_and_a_stream_equal_this_process(spark: SparkSession, tmp_path: Path) -> None:
    wanted = thence.deliver(ROWS, key="account", known=KNOWN, **ASKED)
    assert {row["outcome"] for row in wanted if row["account"] == 3} == {"delivered", "duplicate", "blocked"}
    frame = spark.createDataFrame(ROWS, SCHEMA)
    there = deliver(frame, key="account", known=known(spark), **ASKED)
    assert there.columns == [*frame.columns, *there.columns[4:]]
    assert seen(there.collect()) == seen(wanted)

    (tmp_path / "in").mkdir()

    def step(name: str, part: list[dict[str, Any]], given: DataFrame | None) -> None:
        pq.write_table(pa.Table.from_pylist(part), tmp_path / "in" / f"{name}.parquet")
        source = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))
        run_stream(deliver(source, key="account", known=given, **ASKED), tmp_path)

    late = [row for row in ROWS if row["account"] >= 10]
    step("1", [row for row in ROWS if row["account"] < 10], known(spark))
    # what is known is in the state now, also of keys without a row so far, and nothing is added to it
    step("2", late, spark.createDataFrame([(1, "lost")], "account int, id string"))
    out = spark.read.parquet(str(tmp_path / "out")).collect()
    assert seen(out) == [row for row in seen(wanted) if row[2] != "blocked"]
    held = {(row["account"], row["message"]) for row in waiting_in_stream(spark, tmp_path / "checkpoint").collect()}
    assert held == {row[:2] for row in seen(wanted) if row[2] == "blocked"}


def test_what_cannot_be_known_is_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame(ROWS, SCHEMA)
    for given, sentence in (
        (known(spark).drop("account"), "known= has no column 'account'"),
        (known(spark).selectExpr("account", "account AS id"), "a number is never equal to a text"),
    ):
        with pytest.raises(MisuseError, match=sentence):
            deliver(frame, key="account", known=given, **ASKED)


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_the_command_equals_this_process(spark: SparkSession, tmp_path: Path, form: str) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "in.parquet")
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(KNOWN), tmp_path / "known.parquet")
    else:  # as a delivery would have written it: a row without a position is not known
        lines = [row | {"outcome": "released"} for row in KNOWN] + [{"account": 1, "id": "lost", "outcome": "blocked"}]
        (tmp_path / "known.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = {}
    for engine in ("local", "spark"):
        out = tmp_path / engine
        asked = ["--id", "id", "--causes", "parent", "--key", "account", "--known", str(tmp_path / f"known.{form}")]
        assert main(["deliver", str(tmp_path / "in.parquet"), *asked, "--engine", engine, "--out", str(out)]) == 0
        found[engine] = seen(pq.read_table(out).to_pylist())
    assert found["spark"] == found["local"] == seen(thence.deliver(ROWS, key="account", known=KNOWN, **ASKED))
