"""Causal traffic for Kafka: three processes that send to a sink and to each other, into partitions drawn at random.

The test is the network between the processes, so it knows what each of them had sent and seen when it sent a message:
the direct causes, by which the order at the sink is judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

from thence.protocols import create
from thence.sources.kafka import CausalProducer
from thence.tables.sources.headers import STAMP

SENDERS = ["a", "b", "c"]
ROSTER = [*SENDERS, "sink"]


class Traffic:
    """What was sent, with its direct causes."""

    def __init__(self, config: dict[str, Any], topic: str, partitions: int, seed: int, by: str = "depends_on") -> None:
        self.random, self.topic, self.partitions = Random(seed), topic, partitions
        print(f"traffic of seed {seed}")
        members = {name: create("ks", ROSTER, name) if by == "stamp" else None for name in SENDERS}
        self.producers = {name: CausalProducer(config, name, members[name]) for name in SENDERS}
        self.causes: dict[str, list[str]] = {}
        self._seen: dict[str, list[str]] = {name: [] for name in SENDERS}
        self._inbox: dict[str, list[dict[str, Any]]] = {name: [] for name in SENDERS}
        self._tap()

    def _tap(self) -> None:
        """See the headers on their way, as the other processes do."""
        for name, producer in self.producers.items():
            inner = producer._producer

            class Tap:
                def __init__(self, inner: Any, name: str, traffic: Traffic) -> None:
                    self.inner, self.name, self.traffic = inner, name, traffic

                def produce(self, topic: str, value: bytes, **told: Any) -> None:
                    self.inner.produce(topic, value, **told)
                    stamps = dict(told["headers"])
                    for other in SENDERS:
                        if other != self.name:
                            row = {"message": value.decode(), "sender": self.name, "stamp": stamps.get(STAMP + other)}
                            self.traffic._inbox[other].append(row)

                def __getattr__(self, what: str) -> Any:
                    return getattr(self.inner, what)

            producer._producer = Tap(inner, name, self)

    def send(self, count: int) -> list[str]:
        """Send so many messages; between them processes see what the others sent, in order."""
        sent = []
        for _ in range(count):
            who = self.random.choice(SENDERS)
            inbox = self._inbox[who]
            for row in [inbox.pop(0) for _ in range(self.random.randint(0, min(3, len(inbox))))]:
                self.producers[who].observe(row)
                self._seen[who].append(row["message"])
            name = f"{who}{self.producers[who].count + 1}"
            self.causes[name] = list(self._seen[who])
            self._seen[who] = [name]
            others = [each for each in ROSTER if each != who]
            where = self.random.randrange(self.partitions)
            self.producers[who].produce(self.topic, name.encode(), message=name, partition=where, destinations=others)
            sent.append(name)
        return sent

    def flush(self) -> None:
        for producer in self.producers.values():
            producer.flush(600)

    def judge(self, order: Iterable[str]) -> None:
        """Assert that every message came once, and after its causes."""
        told = list(order)
        twice = [name for name, times in Counter(told).items() if times > 1]
        assert not twice, f"{len(twice)} came twice: {twice[:5]}"
        place = {name: at for at, name in enumerate(told)}
        early = [
            (name, cause) for name in told for cause in self.causes[name] if place.get(cause, len(told)) > place[name]
        ]
        assert not early, f"{len(early)} came before a cause: {early[:5]}"
