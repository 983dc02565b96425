"""What the operators refuse, what passes through, and what a stream does with idle keys and late rows."""

from __future__ import annotations

import datetime
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.arrivals import play

from thence.errors import MisuseError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CAUSES = "run string, destination string, arrival long, message string, depends_on array<string>, time timestamp"
DAY = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)


def rows(*told: tuple[str, list[str], float]) -> list[tuple[Any, ...]]:
    return [
        ("r", "d", place, message, causes, DAY + datetime.timedelta(seconds=at))
        for place, (message, causes, at) in enumerate(told, 1)
    ]


def test_what_is_refused(spark: SparkSession) -> None:
    from thence.spark import deliver, into_table, stamp, waiting, waiting_in_stream

    table = spark.createDataFrame(rows(("a", [], 0)), CAUSES)
    with pytest.raises(MisuseError, match="no column 'stamp'"):
        deliver(table, "stamp", roster=["a"])
    with pytest.raises(MisuseError, match="map<string,long> is accepted"):
        deliver(table.withColumn("sender", table.message), "clock", columns={"clock": "depends_on"})
    with pytest.raises(MisuseError, match="one that delivery adds"):
        deliver(table.withColumn("reason", table.message), "depends_on")
    with pytest.raises(MisuseError, match="idle_seconds is for streams"):
        deliver(table, "depends_on", idle_seconds=1)
    with pytest.raises(MisuseError, match="needs event time"):
        deliver(table.drop("time"), "depends_on", policy="release", after_seconds=1)
    with pytest.raises(MisuseError, match="neither a trace"):
        stamp(table)
    with pytest.raises(MisuseError, match="the DataFrame that deliver returned for a batch; found DataFrame"):
        waiting(table)
    with pytest.raises(MisuseError, match=r"found SparkSession\. For a stream: waiting_in_stream"):
        waiting(spark)  # type: ignore[arg-type]
    with pytest.raises(MisuseError, match="a SparkSession first; found DataFrame"):
        waiting_in_stream(table, "checkpoint")  # type: ignore[arg-type]
    stream = spark.readStream.format("rate").load().selectExpr("'r' run", "'d' destination", "timestamp time")
    stream = stream.selectExpr("*", "'m' message", "array('x') depends_on")
    with pytest.raises(MisuseError, match="carry a watermark on 'time'"):
        deliver(stream.withWatermark("time", "1 minute"), "depends_on")
    with pytest.raises(MisuseError, match="which has no end"):
        deliver(stream, "depends_on", policy="fail")
    timed = deliver(stream, "depends_on", wait_seconds=60)
    with pytest.raises(MisuseError, match="never ends with wait_seconds"):
        into_table(timed, "anywhere", checkpoint="checkpoint", trigger={"availableNow": True})


def test_payload_of_any_type_passes_through(spark: SparkSession) -> None:
    from thence.spark import deliver

    table = spark.sql(
        "select 'd' destination, m.message, m.depends_on, cast(1.50 as decimal(10,2)) price, date'2024-01-02' day, "
        "timestamp'2024-01-02 03:04:05' moment, map('k', array(1, 2)) deep, named_struct('x', cast(null as int)) s, "
        "binary('b') bytes, interval '1' day span, true flag, cast(1 as tinyint) tiny "
        "from values ('b', array('a')), ('a', cast(array() as array<string>)) as m(message, depends_on)"
    )
    out = deliver(table, "depends_on")
    assert out.columns[: len(table.columns)] == table.columns
    assert [(f.name, f.dataType) for f in out.schema.fields[: len(table.columns)]] == [
        (f.name, f.dataType) for f in table.schema.fields
    ]
    got = sorted(out.collect(), key=lambda row: row["position"])
    assert [row["message"] for row in got] == ["a", "b"]
    before = {row["message"]: row.asDict(recursive=True) for row in table.collect()}
    for row in got:
        told = row.asDict(recursive=True)
        assert {name: told[name] for name in table.columns} == before[row["message"]]


def test_rows_without_a_destination_are_quarantined_and_keys_split_orders(spark: SparkSession) -> None:
    from thence.spark import deliver

    told = [("r", None, 1, "a", [], DAY), ("r", "d", 1, "b", ["a"], DAY), ("r", "d", 2, "a", [], DAY)]
    out = {
        (r["destination"], r["message"]): r
        for r in deliver(spark.createDataFrame(told, CAUSES), "depends_on").collect()
    }
    assert (out[None, "a"]["outcome"], out[None, "a"]["reason"]) == ("quarantined", "no destination")
    assert out["d", "b"]["position"] == 2
    table = spark.createDataFrame(told, CAUSES).withColumnRenamed("run", "tenant")
    split = deliver(table, "depends_on", key=["tenant"]).collect()
    assert sorted((r["message"], r["outcome"]) for r in split) == [
        ("a", "delivered"),
        ("a", "duplicate"),
        ("b", "delivered"),
    ]


def test_stamps_from_a_trace(spark: SparkSession) -> None:
    from thence.spark import deliver, stamp

    run = play("unordered", 4, senders=4, sinks=2, messages=60)
    told = [(e.run, e.process, e.index, e.kind, e.message, e.destinations, n) for n, e in enumerate(run.events)]
    schema = (
        "run string, process string, index long, kind string, message string, destinations array<string>, order long"
    )
    made = stamp(spark.createDataFrame(told, schema), roster=run.roster)
    copies = sum(len(e.destinations or ()) for e in run.events if e.kind == "send")
    kept = made.where("destination in ('e', 'f')").drop("arrival").repartition(3)
    for by, roster in (("stamp", run.roster), ("depends_on", None)):
        out = deliver(kept, by, roster=roster).groupBy("outcome").count().collect()  # type: ignore[arg-type]
        assert [row["outcome"] for row in out] == ["delivered"]
    assert made.count() == copies


def test_a_row_a_day_late_and_an_idle_key(spark: SparkSession, tmp_path: Path) -> None:
    from thence.spark import DeliveryListener, deliver

    parts = [rows(("b", ["a"], 0.0), ("c", [], 1.0)), rows(("x", ["y"], 86400.0)), rows(("a", [], 0.0))]
    (tmp_path / "in").mkdir()
    listener = DeliveryListener()
    spark.streams.addListener(listener)
    source = spark.readStream.schema(CAUSES).parquet(str(tmp_path / "in"))
    ordered = deliver(source, "depends_on", policy="release", after_rows=1000, idle_seconds=1.0)
    writer = ordered.writeStream.format("parquet").option("path", str(tmp_path / "out")).queryName("late")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(processingTime="1 second").start()
    try:
        seen = 0
        for part in parts:
            spark.createDataFrame(part, CAUSES).coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
            seen += len(part)
            _until(query, lambda seen=seen: listener.latest("late").rows >= seen)
        _until(query, lambda: not listener.latest("late").held)
    finally:
        query.stop()
        spark.streams.removeListener(listener)
    out = {row["message"]: row for row in spark.read.parquet(str(tmp_path / "out")).collect()}
    assert set(out) == {"a", "b", "c", "x"}
    assert out["x"]["outcome"] == "released"
    assert "nothing came for 1 s" in out["x"]["reason"]
    assert out["a"]["outcome"] in ("delivered", "late")  # by then, b may have been idle for a second
    told = listener.latest("late")
    assert told.held == 0
    assert told.delivered + told.released + told.late == 4


def _until(query: Any, done: Any) -> None:
    """Wait; the limit of the test itself is the only one. (With timers, `processAllAvailable` never returns.)"""
    while not done():
        assert query.isActive, query.exception()
        time.sleep(0.1)
