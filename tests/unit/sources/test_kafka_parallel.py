"""What a consumer with handlers in parallel writes at a commit is read again, however much it is."""

from __future__ import annotations

import json
from collections import deque
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, Message

from thence import Gate
from thence.tables.sources import kafka_parallel
from thence.tables.sources.kafka_parallel import ParallelConsumer
from thence.tables.sources.kafka_progress import Committed, Progress

MEGABYTE = 1_000_000
"""the longest record that the client takes, unless it is configured otherwise"""


class Taken:
    """Takes the place of a producer to the state topic, with the client's limit."""

    def __init__(self) -> None:
        self.records: list[Message] = []

    def produce(self, topic: str, data: bytes, partition: int) -> None:
        if len(data) > MEGABYTE:
            raise confluent_kafka.KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        self.records.append(Message(topic=topic, partition=partition, offset=len(self.records), value=data))

    def flush(self, seconds: float) -> int:
        return 0


def consumer(partitions: int) -> ParallelConsumer:
    """Return a consumer of one topic that has begun to read it."""
    made = ParallelConsumer.__new__(ParallelConsumer)
    made.group, made.state_topic, made.by_partition, made._config = "g", "done", False, {}
    made._make, made.concurrency, made._limit = (lambda: Gate("depends_on")), 1, 4096
    made._writer = Taken()  # type: ignore[assignment]
    made._reset()
    made.gate = made._new_gate()
    made._progress = {("events", number): Progress(None, 4096) for number in range(partitions)}
    return made


@pytest.mark.parametrize(("count", "partitions", "length"), [(0, 3, 8), (1, 1, 8), (40_000, 3, 60), (3000, 500, 900)])
def test_any_number_of_fates_is_written_and_recalled(
    count: int, partitions: int, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{number:0{length}}" for number in range(count)]
    made = consumer(partitions)
    made._fates = deque(
        (("events", number % partitions, number // partitions), "done", (), (None, name, 1))
        for number, name in enumerate(names)
    )
    metadata = Committed(count, count, tuple((count + 2 * at, count + 2 * at + 1) for at in range(1500))).metadata
    commits = {("events", number): (count, metadata) for number in range(partitions)}
    made._write_fates(commits)
    written: list[Any] = made._writer.records  # type: ignore[attr-defined]
    values = [json.loads(each.value()) for each in written]
    assert sum(len(value["fates"]) for value in values) == count
    assert [tuple(commit) for value in values for commit in value["commits"]] == [
        (*where, *said) for where, said in commits.items() if count
    ]

    again = consumer(partitions)
    monkeypatch.setattr(kafka_parallel, "stored", lambda *_: iter(written))
    again._recall(0)
    last = {"message": "last", "depends_on": names[:50] + names[-50:]}
    assert [each.outcome for each in again.gate.map([last], lambda row: None)] == ["delivered"]


def test_the_metadata_of_many_partitions_is_committed_in_several_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker keeps each commit as one record, and takes none above a megabyte."""
    made, committed = consumer(300), list[list[Any]]()
    made._consumer = SimpleNamespace(commit=lambda offsets, asynchronous: committed.append(offsets))  # type: ignore
    for progress in made._progress.values():
        for offset in range(2700):
            progress.take(offset)
        for offset in range(1, 2700, 2):
            progress.settle(offset)
    made._commit()
    assert [(each.topic, each.partition) for some in committed for each in some] == list(made._progress)
    assert all(sum(len(each.metadata) for each in some) < MEGABYTE for some in committed)
    assert len(committed) > 1
    assert all(len(each.metadata) > 3000 for some in committed for each in some)
