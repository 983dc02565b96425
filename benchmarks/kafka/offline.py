"""`CausalConsumer` without a broker: processor seconds of this process for each record that it orders and commits.

    python benchmarks/kafka/offline.py [BEFORE [EVENTS [LAG]]]     BEFORE: a tree of other code, measured in turn

The stamps of `run.py`, as confluent-kafka's own `Message` objects, six partitions read in turn by 64 KB, and the last
one LAG turns behind, so that as many rows are held as of a real broker (`fetch.py`); a commit for every 5,000 records,
whose records are counted and dropped. What the client does in its own threads, fetching among it, is left out: `run.py`
has it, with a broker. Five rounds, each in a process of its own; writes results/offline.json.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests"))
PARTITIONS, ROUNDS, POLL, COMMIT = 6, 5, 1000, 5000
FETCHED = 1 << 16


class Recorder:
    """Takes the place of a producer: keeps what is produced as the messages that a consumer would read."""

    def __init__(self, partitions: list[list[Any]]) -> None:
        self.partitions = partitions

    def produce(self, topic: str, value: bytes, *, headers: Any, partition: int, **_: Any) -> None:
        from confluent_kafka import Message

        here = self.partitions[partition]
        place = {"topic": topic, "partition": partition, "offset": len(here), "timestamp": (1, 1_700_000_000_000)}
        here.append(Message(**place, key=None, value=value, headers=list(headers)))

    def poll(self, _: float) -> int:
        return 0


class Backlog:
    """Takes the place of a consumer: hands on a backlog, of each partition 64 KB in turn, the last one behind."""

    def __init__(self, partitions: list[list[Any]], lag: int) -> None:
        """Put the records in the order in which they are read: that is the client's work, not the consumer's."""
        left = [deque(each) for each in partitions]
        self.ready: deque[Any] = deque()
        while any(left):
            for place, part in enumerate(left):
                if place == len(left) - 1 and lag > 0 and any(left[:-1]):
                    lag -= 1
                    continue
                size = 0
                while part and size < FETCHED:
                    size += sum(len(value) for _, value in part[0].headers()) + 100
                    self.ready.append(part.popleft())

    def consume(self, limit: int, _: float) -> list[Any]:
        return [self.ready.popleft() for _ in range(min(limit, len(self.ready)))]

    def commit(self, **_: Any) -> None:
        pass


class Taken:
    """Takes the place of the transactional producer: counts what a commit writes."""

    def __init__(self) -> None:
        self.records = self.bytes = 0
        self.callbacks: list[Any] = []

    def begin_transaction(self) -> None:
        pass

    def produce(self, topic: str, value: bytes | None, on_delivery: Any = None, **_: Any) -> None:
        from confluent_kafka import Message

        self.records += 1
        self.bytes += len(value or b"")
        if on_delivery is not None:
            self.callbacks.append((on_delivery, Message(topic=topic, partition=0, offset=self.records)))

    def flush(self, _: float) -> int:
        for called, message in self.callbacks:
            called(None, message)
        self.callbacks = []
        return 0

    def commit_transaction(self, _: float) -> None:
        pass


def partitions(events: int) -> list[list[Any]]:
    """Return the records of `run.py`, by partition."""
    from support.broker import Traffic

    found: list[list[Any]] = [[] for _ in range(PARTITIONS)]
    traffic = Traffic({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, "bench", PARTITIONS, seed=1, by="stamp")
    for producer in traffic.producers.values():
        producer._producer.inner = Recorder(found)
    traffic.send(events)
    return found


def consumer(backlog: Backlog) -> tuple[Any, Taken]:
    """Return a consumer that is active, on a backlog."""
    from support.broker import ROSTER

    from thence import Orderer
    from thence.tables.sources import kafka

    made = kafka.CausalConsumer.__new__(kafka.CausalConsumer)
    ensured, kafka.ensure_topic = kafka.ensure_topic, lambda *_: None
    try:
        config = {"bootstrap.servers": "127.0.0.1:1", "group.id": "offline", "log_level": 0}
        made.__init__(config, ["bench"], lambda: Orderer("stamp", roster=ROSTER), destination="sink")
    finally:
        kafka.ensure_topic = ensured
    made._consumer.close()
    taken = Taken()
    made._consumer, made._writer, made.active = backlog, taken, True
    made._next = {("bench", number): 0 for number in range(PARTITIONS)}
    return made, taken


def measured(records: list[list[Any]], lag: int) -> dict[str, float]:
    """Read all records; return seconds, and the most rows that waited."""
    reader, taken = consumer(Backlog(records, lag))
    events = sum(map(len, records))
    gc.collect()
    count = since = most = 0
    commits = 0.0
    work = time.process_time()
    while count < events:
        rows = reader.poll(1.0, POLL)
        count, since = count + len(rows), since + len(rows)
        if since >= COMMIT:
            most = max(most, sum(map(len, reader.orderer.held().values())))
            begun = time.process_time()
            reader.commit()
            commits += time.process_time() - begun
            since = 0
    reader.commit()
    return {
        "seconds": time.process_time() - work, "in commits": commits, "held": most,
        "written, MB": round(taken.bytes / 1e6, 1),
    }  # fmt: skip


def one(events: int, lag: int) -> dict[str, Any]:
    """Measure both cases, each after a run that is not counted."""
    records = partitions(events)
    found = {}
    for name, behind in (("even", 0), ("one partition behind", lag)):
        measured(records, behind)
        found[name] = measured(records, behind)
    return found


def child(source: Path, events: int, lag: int) -> dict[str, Any]:
    """Measure the code below a folder, in a process of its own."""
    command = [sys.executable, __file__, "--one", str(events), str(lag)]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(source)}, capture_output=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main(before: str = "", events: int = 50_000, lag: int = 6) -> None:
    sources = {"now": HERE.parents[1] / "src"} | ({"before": Path(before).resolve() / "src"} if before else {})
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in sources}
    for _ in range(ROUNDS):
        for name, source in sources.items():
            rounds[name].append(child(source, events, lag))
    result: dict[str, Any] = {"events": events, "rounds": ROUNDS, "load": round(os.getloadavg()[0])}
    for case in ("even", "one partition behind"):
        for name, told in rounds.items():
            cases = [each[case] for each in told]
            result[f"{case}, {name}"] = {
                "records a CPU second, best": round(events / min(each["seconds"] for each in cases)),
                "records a CPU second, median": round(events / median(each["seconds"] for each in cases)),
                "share of commits": round(median(each["in commits"] / each["seconds"] for each in cases), 2),
                "held": cases[0]["held"],
                "written, MB": cases[0]["written, MB"],
            }
            print(case, name, result[f"{case}, {name}"])
    (HERE / "results" / "offline.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(one(*map(int, sys.argv[2:]))))
    else:
        main(*sys.argv[1:2], *map(int, sys.argv[2:]))
