"""Spark's connector and a real broker: a table and a stream of arrivals, all partitions in one query."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.broker import ROSTER, Broker, Traffic, connector

from thence.sources.kafka import CausalProducer
from thence.spark import deliver, waiting_in_stream
from thence.spark.sources import from_changes, from_kafka, kafka_options, read_kafka


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from thence.spark.session import local_session

    session = local_session(quick=True, conf={"spark.jars": ",".join(map(str, connector()))})
    yield session
    session.stop()


def test_a_table_of_all_partitions_in_causal_order(kafka: Broker, spark: Any) -> None:
    kafka.make(table=3)
    traffic = Traffic(kafka.config, "table", 3, seed=19, by="stamp")
    traffic.send(300)
    traffic.flush()
    arrivals = from_kafka(read_kafka(spark, kafka_options(kafka.address, ["table"])), destination="sink")
    rows = deliver(arrivals, by="stamp", roster=ROSTER).orderBy("position").collect()
    assert [row["outcome"] for row in rows] == ["delivered"] * 300
    traffic.judge(row["message"] for row in rows)
    assert {(row["partition"], row["offset"]) for row in rows if row["value"] == row["message"].encode()} == {
        (row["partition"], row["offset"]) for row in rows
    }


def test_a_stream_goes_on_where_it_stopped_and_in_equals_out_plus_waiting(
    kafka: Broker, spark: Any, tmp_path: Path
) -> None:
    kafka.make(stream=3)
    traffic = Traffic(kafka.config, "stream", 3, seed=23)
    stuck = CausalProducer(kafka.config, "a")
    stuck.observe({"message": "never"})
    stuck.produce("stream", b"stuck", message="stuck")
    stuck.flush()
    sent = 0
    for killed in (True, False):
        sent += len(traffic.send(150))
        traffic.flush()
        if killed:
            kafka.kill()
            kafka.start()
        source = read_kafka(spark, kafka_options(kafka.address, ["stream"], most_per_batch=100), stream=True)
        ordered = deliver(from_kafka(source, destination="sink"), by="depends_on")
        query = ordered.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        query.start().awaitTermination()
    rows = spark.read.parquet(str(tmp_path / "out")).orderBy("position").collect()
    held = waiting_in_stream(spark, str(tmp_path / "checkpoint")).collect()
    assert [row["message"] for row in held] == ["stuck"]
    assert len(rows) + len(held) == sent + 1
    traffic.judge(row["message"] for row in rows)
    assert {row["outcome"] for row in rows} == {"delivered"}


def test_debeziums_topics_as_they_lie_in_kafka(kafka: Broker, spark: Any) -> None:
    import json

    from confluent_kafka import Producer

    samples = Path(__file__).parents[1] / "data" / "sources" / "debezium-sqlserver.jsonl"
    lines = [json.loads(line) for line in samples.read_text().splitlines()[1:]]
    kafka.make(**dict.fromkeys({line["topic"] for line in lines}, 1))
    producer = Producer(kafka.config)
    for line in lines:
        producer.produce(line["topic"], json.dumps(line["value"]), key=json.dumps(line["key"]))
    producer.flush()
    options = kafka_options(kafka.address, sorted({line["topic"] for line in lines}))
    table = from_changes(read_kafka(spark, options))
    rows = deliver(table, by="depends_on", key=["destination"]).orderBy("position").collect()
    assert [row["outcome"] for row in rows] == ["delivered"] * len(lines)
    wanted = [line["message"] for line in lines if line["kind"] == "create"]
    assert [row["message"] for row in rows if row["kind"] == "create"] == wanted
