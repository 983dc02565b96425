"""Shared by our producer and our consumer: the import of confluent-kafka, its settings, and retries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from thence.core.model.plain import Fields, Row
from thence.errors import MisuseError, PeerError
from thence.tables.sources.headers import read_headers

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

CALL_SECONDS = 60.0
"""seconds that one call waits for a broker that is away"""
OUTAGE = 600.0
"""seconds after which a broker that is away is taken for gone"""
RETRY_SECONDS = 0.2
"""seconds between two calls"""
_EVERYBODYS = (
    "bootstrap.",
    "metadata.",
    "security.",
    "sasl.",
    "ssl.",
    "socket.",
    "broker.",
    "client.",
    "reconnect.",
    "log",
)
T = TypeVar("T")


class Found(Protocol):
    """A record, as the package returns it."""

    def topic(self) -> str:
        """Return the topic of the record."""

    def partition(self) -> int:
        """Return the partition of the record."""

    def offset(self) -> int:
        """Return the offset in the partition."""

    def key(self) -> bytes | None:
        """Return Kafka's key of the record."""

    def value(self) -> bytes | None:
        """Return the content of the record."""

    def headers(self) -> list[tuple[str, bytes]] | None:
        """Return the headers of the record, in order."""

    def timestamp(self) -> tuple[int, int]:
        """Return the kind of its time, and milliseconds."""


def client() -> ModuleType:
    """Return the package, which an extra brings."""
    try:
        import confluent_kafka
    except ImportError:
        raise MisuseError("Kafka needs confluent-kafka: pip install 'thence[kafka]'") from None
    return confluent_kafka


def connection(config: Fields) -> Row:
    """Return the settings that say how to reach the broker, and not those of a consumer alone."""
    return {key: value for key, value in config.items() if key.startswith(_EVERYBODYS)}


def passing(error: KafkaError) -> bool:
    """Return whether an error may pass by itself: Kafka says so, or a broker is away."""
    kafka = client().KafkaError
    away = (kafka._ALL_BROKERS_DOWN, kafka._TRANSPORT, kafka._RESOLVE, kafka._TIMED_OUT)
    over = error.fatal() or error.txn_requires_abort()
    return not over and (error.retriable() or error.code() in away)


def patiently(act: Callable[[], T]) -> T:
    """Retry a call while the broker is unavailable."""
    end = time.monotonic() + OUTAGE
    while True:
        try:
            return act()
        except client().KafkaException as error:
            if time.monotonic() > end or not passing(error.args[0]):
                raise
            time.sleep(RETRY_SECONDS)


def raise_error(error: KafkaError) -> None:
    """Raise an error that a record stands for, unless it is the end of a partition or may pass by itself."""
    if error.code() != client().KafkaError._PARTITION_EOF and not passing(error):
        raise PeerError(f"Kafka: {error.str()}")


def ensure_topic(config: Fields, name: str, partitions: int, settings: Mapping[str, str]) -> None:
    """Make a topic unless it is there."""
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    admin, topic = AdminClient(dict(config)), NewTopic(name, partitions, config=dict(settings))
    try:
        patiently(lambda: admin.create_topics([topic])[name].result())
    except client().KafkaException as error:
        if error.args[0].code() != client().KafkaError.TOPIC_ALREADY_EXISTS:
            raise PeerError(f"state topic {name}: {error.args[0].str()}") from None


def stored(config: Fields, group: str, place: tuple[str, int], start: int = -1) -> Iterator[Found]:
    """Yield the committed records of a state topic's partition, from an offset or from the beginning."""
    kafka = client()
    settings: Row = {"group.id": f"{group}-state-reader", "isolation.level": "read_committed"}
    settings |= {"auto.offset.reset": "earliest", "enable.partition.eof": True, "enable.auto.commit": False}
    reader = kafka.Consumer({**config, **settings})
    try:
        reader.assign([kafka.TopicPartition(*place, start if start >= 0 else kafka.OFFSET_BEGINNING)])
        end = time.monotonic() + OUTAGE
        while time.monotonic() < end:
            for found in reader.consume(1000, 0.2):
                if found.error() is None:
                    yield found
                elif found.error().code() == kafka.KafkaError._PARTITION_EOF:
                    return
                else:
                    raise_error(found.error())
        raise PeerError(f"the state of group {group} in {place[0]} did not come within {OUTAGE:.0f} s")
    finally:
        reader.close()


def record_row(found: Found, destination: str) -> Row:
    """Return the row of a record: what its headers say, where it lies, and what it holds."""
    where = (found.topic(), found.partition(), found.offset())
    row: Row = read_headers(found.headers(), where, destination)
    row["topic"], row["partition"], row["offset"] = where
    row["key"], row["value"], row["time"] = found.key(), found.value(), found.timestamp()[1] / 1000
    return row


def topic_partitions(consumer: Any, topics: Iterable[str]) -> dict[str, list[int]]:
    """Return the partitions of topics; refuse those that are not there."""
    known = patiently(lambda: consumer.list_topics(timeout=CALL_SECONDS)).topics
    missing = [topic for topic in topics if topic not in known]
    if missing:
        raise MisuseError(f"no topic {', '.join(missing)}; make the topics before consuming them")
    return {topic: sorted(known[topic].partitions) for topic in topics}
