"""What a producer names as causes is what it has produced and observed."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from thence.tables.sources import kafka_producer
from thence.tables.sources.kafka_producer import CausalProducer


class Refusing:
    """Takes the place of the client's producer, which refuses some values at once."""

    def __init__(self) -> None:
        self.causes: dict[str, list[str]] = {}

    def produce(self, topic: str, value: bytes, headers: Any, **more: Any) -> None:
        if value == b"full" and "full" not in self.causes:
            self.causes["full"] = []
            raise BufferError("the queue is full")
        if value == b"large":
            raise ValueError("Message size too large")
        found = dict(headers)
        self.causes[found["thence-message"].decode()] = json.loads(found["thence-causes"])

    def poll(self, timeout: float) -> int:
        return 0


def test_a_record_that_the_client_refuses_is_no_cause_of_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """No consumer would ever get it, so everything behind it would wait forever."""
    inner = Refusing()
    monkeypatch.setattr(kafka_producer, "client", lambda: SimpleNamespace(Producer=lambda config: inner))
    producer = CausalProducer({}, "a")
    producer.produce("t", b"first", message="m1")
    producer.observe({"message": "x"})
    for _ in range(2):
        with pytest.raises(ValueError, match="too large"):
            producer.produce("t", b"large", message="m2")
    producer.produce("t", b"full", message="m3")
    assert producer.produce("t", b"last") == "a:5"
    assert inner.causes == {"m1": [], "full": [], "m3": ["m1", "x"], "a:5": ["m3"]}
