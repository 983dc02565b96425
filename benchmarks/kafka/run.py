"""Throughput on a real broker of one node: the same records read alone, and read in causal order, in one run.

python benchmarks/kafka/run.py [EVENTS [spark|consumer]]

Spark: the connector's columns and ours written to Parquet, with and without `deliver`. Plain Python: confluent-kafka's
consumer alone, the same with the fields of each record read in Python, and `CausalConsumer` with a commit for every
5,000 records; their processor time is that of this process, the client's threads included. Best of three, in turn.
Writes results/run.json as it goes.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULT = HERE / "results" / "run.json"
sys.path.insert(0, str(HERE.parents[1] / "tests"))
PARTITIONS, ROUNDS = 6, 3


def fill(kafka: Any, events: int) -> None:
    from support.broker import Traffic

    kafka.make(bench=PARTITIONS)
    traffic = Traffic(kafka.config, "bench", PARTITIONS, seed=1, by="stamp")
    for _ in range(events // 10_000):
        traffic.send(10_000)
        traffic.flush()


def timed(what: Callable[[], int], events: int) -> float:
    start = time.perf_counter()
    assert what() == events
    return time.perf_counter() - start


def spark_rounds(kafka: Any, events: int) -> dict[str, float]:
    from support.broker import ROSTER, connector

    from thence.spark import deliver
    from thence.spark.session import local_session
    from thence.spark.sources import from_kafka, kafka_options, read_kafka

    spark = local_session(conf={"spark.jars": ",".join(map(str, connector()))})
    arrivals = from_kafka(read_kafka(spark, kafka_options(kafka.address, ["bench"])), destination="sink")

    def alone() -> int:
        with tempfile.TemporaryDirectory() as folder:
            arrivals.write.parquet(f"{folder}/out")
            return spark.read.parquet(f"{folder}/out").count()

    def ordered() -> int:
        with tempfile.TemporaryDirectory() as folder:
            deliver(arrivals, by="stamp", roster=ROSTER).write.parquet(f"{folder}/out")
            return spark.read.parquet(f"{folder}/out").where("outcome = 'delivered'").count()

    found = {"alone": [timed(alone, events)], "ordered": [timed(ordered, events)]}  # the first is not counted
    for _ in range(ROUNDS):
        found["alone"].append(timed(alone, events))
        found["ordered"].append(timed(ordered, events))
    spark.stop()
    return {name: min(times[1:]) for name, times in found.items()}


def consumer_rounds(kafka: Any, events: int) -> dict[str, float]:
    from confluent_kafka import Consumer
    from support.broker import ROSTER

    from thence import Orderer
    from thence.sources.kafka import CausalConsumer

    def alone(group: str) -> int:
        config = {**kafka.config, "group.id": group, "auto.offset.reset": "earliest"}
        consumer = Consumer(config)
        consumer.subscribe(["bench"])
        count = 0
        while count < events:
            count += len(consumer.consume(1000, 1))
        consumer.close()
        return count

    def fields(group: str) -> int:
        consumer = Consumer({**kafka.config, "group.id": group, "auto.offset.reset": "earliest"})
        consumer.subscribe(["bench"])
        count = 0
        while count < events:
            for found in consumer.consume(1000, 1):
                row = dict(found.headers())
                row |= {"topic": found.topic(), "partition": found.partition(), "offset": found.offset()}
                row |= {"key": found.key(), "value": found.value(), "time": found.timestamp()[1] / 1000}
                count += 1
        consumer.close()
        return count

    def ordered(group: str) -> int:
        config = {**kafka.config, "group.id": group}
        consumer = CausalConsumer(config, ["bench"], lambda: Orderer("stamp", roster=ROSTER), destination="sink")
        count, since = 0, 0
        while count < events:
            rows = consumer.poll(1.0, 1000)
            count, since = count + len(rows), since + len(rows)
            if since >= 5000:
                consumer.commit()
                since = 0
        consumer.commit()
        consumer.close()
        return count

    found: dict[str, list[float]] = {}
    for n in range(ROUNDS):
        for name, read in (("alone", alone), ("fields", fields), ("ordered", ordered)):
            work = time.process_time()
            seconds = timed(lambda name=name, read=read, n=n: read(f"{name}-{n}"), events)  # type: ignore[misc]
            found.setdefault(f"{name}, processor", []).append(time.process_time() - work)
            found.setdefault(name, []).append(seconds)
    return {name: min(times) for name, times in found.items()}


def main(events: int = 100_000, only: str = "") -> None:
    from support.broker import broker

    known = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    told: dict[str, Any] = known if known.get("events") == events else {}
    told |= {"events": events, "partitions": PARTITIONS, "rounds": ROUNDS}
    with broker() as kafka:
        fill(kafka, events)
        for name, rounds in (("spark", spark_rounds), ("consumer", consumer_rounds)):
            if only not in ("", name):
                continue
            seconds = rounds(kafka, events)
            ratio = seconds["ordered"] / seconds["alone"]
            told[name] = {"seconds": {k: round(v, 2) for k, v in seconds.items()}, "ratio": round(ratio, 2)}
            told[name]["events a second"] = {k: round(events / v) for k, v in seconds.items()}
            RESULT.write_text(json.dumps(told, indent=2) + "\n")
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]), *sys.argv[2:])
