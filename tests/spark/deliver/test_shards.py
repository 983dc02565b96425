"""The number of shards belongs to the checkpoint: another one is refused, and `reshard` makes a checkpoint for it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from thence.errors import MisuseError
from thence.spark import deliver, reshard, waiting_in_stream


def test_another_number_of_shards_is_refused_and_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    incoming, out, checkpoint = (tmp_path / name for name in ("in", "out", "checkpoint"))
    incoming.mkdir()

    def put(name: str, *rows: dict[str, object]) -> None:
        (incoming / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run(shards: int) -> None:
        arrivals = spark.readStream.schema("event string, parent string, account long").json(str(incoming))
        ordered = deliver(arrivals, id="event", causes="parent", key="account", shards=shards)
        query = (
            ordered.writeStream.format("parquet")
            .options(path=str(out), checkpointLocation=str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    put("1.json", {"event": "b", "parent": "a", "account": 1}, {"event": "x", "parent": None, "account": 2})
    run(shards=3)
    put("2.json", {"event": "a", "parent": None, "account": 1})
    with pytest.raises(
        StreamingQueryException, match="this checkpoint has 3 shards, and the stream was started with 5"
    ):
        run(shards=5)
    run(shards=3)
    rows = spark.read.parquet(str(out)).collect()
    assert sorted((row.event, row.outcome, row.position) for row in rows) == [
        ("a", "delivered", 1),
        ("b", "delivered", 2),
        ("x", "delivered", 1),
    ]


KEY = "account long, price decimal(9,2), at timestamp, day date, tags array<string>, half double, name string"


def test_another_number_of_shards_keeps_keys_held_rows_and_timers(spark: SparkSession, tmp_path: Path) -> None:
    """Keys of every kind of type, one of them with a column that came later; held rows leave in time and in order."""
    incoming, out = tmp_path / "in", tmp_path / "out"
    incoming.mkdir()
    keys = [
        {"account": n, "price": f"{n}.25", "at": f"2024-03-31T01:{n:02}:00Z", "day": f"2024-01-{n + 1:02}",
         "tags": ["x"] * (n % 3), "half": n / 2, "name": f"n{n}"}
        for n in range(24)
    ]  # fmt: skip

    def put(name: str, rows: list[dict[str, Any]]) -> None:
        (incoming / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run(checkpoint: str, shards: int, more: str = "") -> None:
        arrivals = spark.readStream.schema(f"event string, parent string, {KEY}{more}").json(str(incoming))
        ordered = deliver(
            arrivals, id="event", causes="parent", key=[each.split(" ")[0] for each in KEY.split(", ")],
            shards=shards, wait_seconds=2,
        )  # fmt: skip
        query = (
            ordered.writeStream.format("parquet").options(path=str(out), checkpointLocation=str(tmp_path / checkpoint))
            .trigger(once=True).start()
        )  # fmt: skip
        query.awaitTermination()

    with pytest.raises(MisuseError, match="no folder commits"):
        reshard(spark, tmp_path / "before", tmp_path / "after", shards=5)
    put("1.json", [key | {"event": "first", "parent": None} for key in keys])
    run("before", shards=2)
    put("2.json", [key | {"event": "effect", "parent": "cause", "note": "n"} for key in keys])
    run("before", shards=2, more=", note string")
    with pytest.raises(MisuseError, match="1 to 10000 are accepted"):
        reshard(spark, tmp_path / "before", tmp_path / "after", shards=0)
    assert reshard(spark, tmp_path / "before", tmp_path / "after", shards=5) == 5
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith("after")] == ["after"]
    with pytest.raises(MisuseError, match="exists; name a folder"):
        reshard(spark, tmp_path / "before", tmp_path / "after", shards=5)
    held = [row.message for row in waiting_in_stream(spark, tmp_path / "after").collect()]
    assert len(held) in (0, len(keys)), "the timer may have let them go while the second micro-batch ran"
    put("3.json", [key | {"event": "cause", "parent": None} for key in keys[:12]])
    time.sleep(2)
    run("after", shards=5, more=", note string")
    put("4.json", [key | {"event": "last", "parent": "first"} for key in keys])
    run("after", shards=5, more=", note string")
    rows = spark.read.schema("event string, account long, note string, position long, outcome string").parquet(str(out))
    found: dict[int, list[tuple[Any, ...]]] = {}
    for row in rows.orderBy("position").collect():
        found.setdefault(row.account, []).append((row.event, row.outcome, row.note))
    for n in range(24):
        first, last = ("first", "delivered", None), ("last", "delivered", None)
        causes = {("cause", "delivered", None), ("effect", "delivered", "n")}, {("effect", "released", "n")}
        late = {("effect", "released", "n"), ("cause", "late", None)}
        assert (found[n][0], found[n][-1]) == (first, last), n
        assert set(found[n][1:-1]) in ([causes[0], late] if n < 12 else [causes[1]]), (n, found[n])
