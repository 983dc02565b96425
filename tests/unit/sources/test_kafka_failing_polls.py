"""A poll that raises loses no record: the next one goes on from the last commit, as after a crash."""

from __future__ import annotations

import json
from collections import deque
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, Message

from thence import Orderer
from thence.errors import PeerError
from thence.tables.sources import kafka
from thence.tables.sources.kafka_state import StateRecord, whole_state

RECORDS = 12


def record(number: int) -> Message:
    """Return the record of this offset: each of three needs the one before it."""
    causes = [f"m{number - 1}"] if number % 3 else []
    headers = [("thence-message", f"m{number}".encode()), ("thence-causes", json.dumps(causes).encode())]
    where = {"topic": "events", "partition": 0, "offset": number, "timestamp": (1, 1000)}
    return Message(**where, key=None, value=b"%d" % number, headers=headers)


class Broker:
    """A topic of one partition and a state topic, for one consumer that is chosen at once."""

    def __init__(self, failing: dict[int, KafkaError]) -> None:
        self.failing = failing
        """errors that come once, in place of the record of an offset"""
        self.at: int | None = None
        self.states: list[StateRecord] = []
        self.open: list[StateRecord] = []
        self.called: deque[Any] = deque()
        self.offset = -1001
        self.aborted = 0
        self.told: list[tuple[str, int]] = []
        """the offsets of the topic, as other tools see them"""

    # -- the consumer

    def subscribe(self, topics: list[str], on_assign: Any, on_revoke: Any) -> None:
        on_assign(self, [confluent_kafka.TopicPartition("state", 0)])

    def assign(self, places: list[Any]) -> None:
        self.at = max(places[0].offset, 0) if places else None

    def consume(self, limit: int, timeout: float) -> list[Message]:
        found: list[Message] = []
        while self.at is not None and self.at < RECORDS and len(found) < min(limit, 5):
            error = self.failing.pop(self.at, None)
            if error is not None:
                found.append(Message(topic="events", partition=0, error=error))
            else:
                found.append(record(self.at))
                self.at += 1
        return found

    def committed(self, places: list[Any], timeout: float) -> list[Any]:
        return [SimpleNamespace(offset=self.offset)]

    def commit(self, offsets: list[Any], asynchronous: bool) -> None:
        self.offset, self.told = offsets[0].offset, [(each.topic, each.offset) for each in offsets[1:]]

    # -- the producer

    def init_transactions(self, timeout: float) -> None:
        self.open = []

    def begin_transaction(self) -> None:
        assert not self.open

    def produce(self, topic: str, value: bytes, headers: Any = (), key: Any = b"", **more: Any) -> None:
        if topic != "state":
            raise confluent_kafka.KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        self.open.append(StateRecord(key, value, list(headers)))
        self.called.append((more["on_delivery"], len(self.states)))

    def flush(self, timeout: float) -> int:
        while self.called:
            called, offset = self.called.popleft()
            called(None, Message(topic="state", partition=0, offset=offset))
        return 0

    def commit_transaction(self, timeout: float) -> None:
        self.states += self.open
        self.open = []

    def abort_transaction(self, timeout: float) -> None:
        self.aborted += 1
        self.open = []


def consumer(monkeypatch: pytest.MonkeyPatch, broker: Broker, make: Any) -> kafka.CausalConsumer:
    """Return a consumer of the records, whose client is the broker itself."""
    clients = {"Consumer": lambda config: broker, "Producer": lambda config: broker}
    monkeypatch.setattr(kafka, "client", lambda: SimpleNamespace(**{**vars(confluent_kafka), **clients}))
    monkeypatch.setattr(kafka, "ensure_topic", lambda *_: None)
    monkeypatch.setattr(kafka, "topic_partitions", lambda *_: {"events": [0]})
    monkeypatch.setattr(kafka.CausalConsumer, "_stored_records", lambda self, start: iter(broker.states), raising=True)
    return kafka.CausalConsumer({"group.id": "g"}, ["events"], make, state_topic="state")


def drained(reader: kafka.CausalConsumer, failures: int) -> tuple[list[str], list[str]]:
    """Poll until every record came, committing after each poll; return the ids, and the words of the errors."""
    ids: list[str] = []
    said: list[str] = []
    for _ in range(40):
        try:
            ids += [str(row["message"]) for row in reader.poll(0)]
            reader.commit()
        except (PeerError, OSError) as error:
            said.append(str(error))
    assert len(said) == failures
    return ids, said


WANTED = [f"m{number}" for number in range(RECORDS)]


@pytest.mark.parametrize("at", range(RECORDS))
def test_an_error_in_place_of_a_record_loses_none_of_those_beside_it(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    broker = Broker({at: KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)})
    ids, said = drained(consumer(monkeypatch, broker, lambda: Orderer("depends_on")), 1)
    assert ids == WANTED
    assert "uthori" in said[0]
    assert whole_state(broker.states) is not None


def test_a_stand_by_that_gets_an_error_does_not_take_over(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker({})
    monkeypatch.setattr(broker, "subscribe", lambda *_, **more: None)
    reader = consumer(monkeypatch, broker, lambda: Orderer("depends_on"))
    errors = [[Message(error=KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))], [], []]
    monkeypatch.setattr(broker, "consume", lambda limit, timeout: errors.pop(0))
    with pytest.raises(PeerError, match="uthori"):
        reader.poll(0)
    assert reader.poll(0) == reader.poll(0) == []
    assert not reader.active


@pytest.mark.parametrize("call", range(3))
def test_a_question_that_fails_loses_no_record(monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    """Every third record waits for one that only `known` knows; the answer fails once."""
    monkeypatch.setattr(f"{__name__}.record", _behind_others)
    asked: list[list[str]] = []

    def known(ids: list[str]) -> list[str]:
        asked.append(ids)
        if len(asked) == call + 1:
            raise OSError("the target is away")
        return ids

    ids, said = drained(consumer(monkeypatch, Broker({}), lambda: Orderer("depends_on", known=known)), 1)
    assert ids == WANTED
    assert said == ["the target is away"]


def _behind_others(number: int) -> Message:
    causes = [f"old{number}"] if number % 3 == 2 else []
    headers = [("thence-message", f"m{number}".encode()), ("thence-causes", json.dumps(causes).encode())]
    where = {"topic": "events", "partition": 0, "offset": number, "timestamp": (1, 1000)}
    return Message(**where, key=None, value=b"%d" % number, headers=headers)


def test_a_forwarded_row_that_the_client_refuses_is_an_error_and_not_tried_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = consumer(monkeypatch, broker := Broker({}), lambda: Orderer("depends_on"))
    first = [row["message"] for row in reader.poll(0)]
    reader.forward("elsewhere", {"key": None, "value": b"1", "message": "m0", "outcome": "delivered", "position": 1})
    with pytest.raises(PeerError, match=r"nothing was committed, because .*too large"):
        reader.commit()
    assert broker.aborted == 1
    assert whole_state(broker.states) is None
    assert [row["message"] for row in reader.poll(0)] == first


def test_a_state_that_cannot_be_read_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker({})
    asked: list[list[str]] = []

    def partitions(_: Any, topics: list[str]) -> dict[str, list[int]]:
        asked.append(topics)
        if len(asked) == 1:
            raise OSError("no answer")
        return {"events": [0]}

    reader = consumer(monkeypatch, broker, lambda: Orderer("depends_on"))
    monkeypatch.setattr(kafka, "topic_partitions", partitions)
    ids, said = drained(reader, 1)
    assert ids == WANTED
    assert said == ["no answer"]


def test_the_offsets_that_other_tools_see_stop_before_what_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter([0, 2, 1, 5, 4, 3])  # of three in a row, each needs the one before it
    monkeypatch.setattr(f"{__name__}.record", _renumbered({at: next(numbers) for at in range(6)}))
    reader = consumer(monkeypatch, broker := Broker({}), lambda: Orderer("depends_on"))
    reader.poll(0)
    told = []
    for _ in range(6):
        reader.poll(0, limit=1)
        reader.commit()
        told.append(broker.told)
    assert told == [[("events", offset)] for offset in (1, 1, 3, 3, 3, 6)]


def _renumbered(numbers: dict[int, int]) -> Any:
    whole = record

    def found(at: int) -> Message:
        made = whole(numbers.get(at, at))
        where = {"topic": "events", "partition": 0, "offset": at, "timestamp": (1, 1000)}
        return Message(**where, key=None, value=made.value(), headers=made.headers())

    return found
