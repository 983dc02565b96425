"""What our producer and our consumer share of confluent-kafka: its import, its settings, and patience with a broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Protocol, TypeVar

from thence.core.model.plain import Fields, Option, Row
from thence.errors import MisuseError, PeerError

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
    """A record, as the package hands it over."""

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


class ClientFault(Protocol):
    """What the package says is wrong."""

    def fatal(self) -> bool:
        """Tell whether the client cannot go on."""

    def retriable(self) -> bool:
        """Tell whether it may pass."""

    def txn_requires_abort(self) -> bool:
        """Tell whether the transaction cannot go on."""

    def code(self) -> int:
        """Return the number of Kafka's error."""

    def str(self) -> str:
        """Return the text of Kafka's error."""


class PartitionOffset(Protocol):
    """A partition and an offset in it, as the package names them."""

    topic: str
    partition: int
    offset: int


class Assigned(Protocol):
    """The part of a consumer that may be asked while it calls back."""

    def assign(self, partitions: list[PartitionOffset]) -> None:
        """Read these partitions, from their offsets on."""

    def unassign(self) -> None:
        """Read no partition from now on."""


class TransactionalProducer(Protocol):
    """What is used of confluent-kafka's producer with transactions."""

    def init_transactions(self, timeout: float) -> None:
        """Fence earlier producers of the same transactional id."""

    def begin_transaction(self) -> None:
        """Begin a transaction of records and offsets."""

    def commit_transaction(self, timeout: float) -> None:
        """Make all of it visible at once."""

    def abort_transaction(self, timeout: float) -> None:
        """Discard every record since `begin_transaction`."""

    def produce(self, topic: str, value: bytes | None, **more: Option) -> None:
        """Add a record to the send queue."""

    def poll(self, timeout: float) -> int:
        """Let the client call back for delivered records."""

    def flush(self, timeout: float) -> int:
        """Wait for the broker; return how many records it did not take."""


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


def passing(error: ClientFault) -> bool:
    """Tell whether an error may pass by itself: Kafka says so, or a broker is away."""
    kafka = client().KafkaError
    away = (kafka._ALL_BROKERS_DOWN, kafka._TRANSPORT, kafka._RESOLVE, kafka._TIMED_OUT)
    over = error.fatal() or error.txn_requires_abort()
    return not over and (error.retriable() or error.code() in away)


def patiently(act: Callable[[], T]) -> T:
    """Do something that a broker may be away for, again and again until it is there."""
    end = time.monotonic() + OUTAGE
    while True:
        try:
            return act()
        except client().KafkaException as error:
            if time.monotonic() > end or not passing(error.args[0]):
                raise
            time.sleep(RETRY_SECONDS)


def raise_error(error: ClientFault) -> None:
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
