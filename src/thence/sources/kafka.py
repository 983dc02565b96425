"""Kafka without Spark, over confluent-kafka: a producer that says causes, a consumer that keeps effects behind them.

    from thence import Orderer
    from thence.sources.kafka import CausalConsumer, CausalProducer

    producer = CausalProducer({"bootstrap.servers": "..."}, "orders")
    producer.produce("events", b"placed", message="o-1")

    group = {"bootstrap.servers": "...", "group.id": "billing"}
    consumer = CausalConsumer(group, ["events"], lambda: Orderer("depends_on"))
    for row in consumer.poll():
        ...                      # each row once, causes first, with its outcome
    consumer.commit()

Law. One consumer of a group is active and reads all partitions of its topics, since messages of two partitions may
depend on each other; the others stand by, and one of them takes over where it stopped. `commit` writes, in one Kafka
transaction, the state of the orderer (held records among it), the offsets up to which everything was handed on, and
what was forwarded. So after a crash of consumer or broker the next one goes on from the last commit: nothing is lost,
and of what was forwarded to a topic (read with `isolation.level=read_committed`) nothing comes twice. A sink outside
Kafka may see again what came after the last commit: it knows it by its message id.

The active consumer is whoever Kafka assigns the one partition of the state topic; the offset committed for that
partition says where the latest state begins. A consumer that was replaced is fenced: its `commit` raises `PeerError`.

Departures. Offsets are committed for other tools to see; reading goes on where the state says, behind what is held.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from thence.delivery import Orderer
from thence.errors import MisuseError, PeerError
from thence.model.plain import Fields
from thence.sources.arrival import Record
from thence.sources.headers import read_headers
from thence.sources.kafka_client import PATIENCE, client, connection, patiently
from thence.sources.kafka_producer import CausalProducer

Row = dict[str, Any]
Partition = tuple[str, int]
__all__ = ["CausalConsumer", "CausalProducer"]
CHUNK = 900_000
"""bytes of state in one record; brokers accept a little more than a million"""


class CausalConsumer:
    """Hands on the records of topics in causal order."""

    def __init__(
        self,
        config: Fields,
        topics: Iterable[str],
        orderer: Callable[[], Orderer],
        *,
        destination: str | None = None,
        state_topic: str | None = None,
    ) -> None:
        """Join a group. `orderer` makes an empty orderer; `destination` is who consumes, the group if not given.

        The state topic, `<group>-thence-state` if not given, is made with one partition if it is not there.
        """
        self.topics, self._make = list(topics), orderer
        self.group = str(config.get("group.id") or "")
        if not self.group:
            raise MisuseError("config has no group.id; the group that consumes is needed")
        self.destination = destination or self.group
        self.state_topic = state_topic or f"{self.group}-thence-state"
        self._config = connection(config)
        self.orderer, self.active = orderer(), False
        self._next: dict[Partition, int] = {}
        self._unhanded: dict[Partition, set[int]] = defaultdict(set)
        self._forwarded: list[tuple[str, Row]] = []
        self._writer: Any = None
        self._chosen = False
        """chosen by the group, and not yet active"""
        kafka = client()
        self._ensure_state_topic()
        settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "isolation.level": "read_committed"}
        self._consumer = kafka.Consumer({**settings, **config})
        self._consumer.subscribe([self.state_topic], on_assign=self._assigned, on_revoke=self._revoked)

    def poll(self, timeout: float = 1.0, limit: int = 1000) -> list[Row]:
        """Read up to `limit` records; return the rows that leave now, in order. A stand-by consumer returns none."""
        out: list[Row] = []
        records = self._consumer.consume(limit, timeout)
        if self._chosen:
            self._take_over()
        for found in records:
            if found.error() is not None:
                self._judge(found.error())
            elif (found.topic(), found.partition()) in self._next:
                out += self._take(found)
        return out

    def forward(self, topic: str, row: Row) -> None:
        """Write a row's value to a topic at the next commit, in the same transaction."""
        self._forwarded.append((topic, row))

    def commit(self) -> None:
        """Make what was handed on final, with what was forwarded; raise `PeerError` if another consumer took over."""
        if not self.active:
            return
        try:
            self._writer.begin_transaction()
            for topic, row in self._forwarded:
                self._write(topic, row["value"], key=row["key"], headers=_forwarded_headers(row))
            offsets = [self._state_offset(), *self._handed_on()]
            patiently(lambda: self._send_offsets(offsets))
            patiently(lambda: self._writer.commit_transaction(PATIENCE))
        except (client().KafkaException, PeerError) as error:
            self._give_up(error)
        self._forwarded = []

    def waiting(self) -> list[Row]:
        """Explain every held record, as `Orderer.waiting`."""
        return self.orderer.waiting()

    def close(self) -> None:
        """Leave the group, without a commit."""
        self._consumer.close()

    # -- reading ---------------------------------------------------------------------------------------------------

    def _take(self, found: Any) -> list[Row]:
        where = (found.topic(), found.partition())
        record = Record(None, None, found.topic(), found.partition(), found.offset())
        self._next[where] = found.offset() + 1
        self._unhanded[where].add(found.offset())
        row: Row = read_headers(found.headers(), record, self.destination)
        row |= {"topic": where[0], "partition": where[1], "offset": found.offset()}
        row |= {"key": found.key(), "value": found.value(), "time": found.timestamp()[1] / 1000}
        out = self.orderer.push(row)
        for each in out:
            self._unhanded[each["topic"], each["partition"]].discard(each["offset"])
        return out

    def _judge(self, error: Any) -> None:
        """A broker that is away comes back; anything else is told."""
        kafka = client().KafkaError
        passing = (kafka._ALL_BROKERS_DOWN, kafka._TRANSPORT, kafka._RESOLVE, kafka._PARTITION_EOF, kafka._TIMED_OUT)
        if error.fatal() or not (error.retriable() or error.code() in passing):
            raise PeerError(f"Kafka: {error.str()}")

    # -- taking over -----------------------------------------------------------------------------------------------

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        """Note that the group chose this consumer; nothing is asked of the client while it calls back."""
        if partitions:
            self._chosen = True
            consumer.assign([])

    def _take_over(self) -> None:
        """Fence who was active before, read the state of the last commit, and go on from there."""
        kafka = client()
        self._chosen = False
        settings = {"transactional.id": f"thence-{self.group}", "log_level": 0}  # its calls raise what is wrong
        self._writer = kafka.Producer({**self._config, **settings})
        patiently(lambda: self._writer.init_transactions(PATIENCE))
        self._load()
        self.active = True
        self._consumer.assign([kafka.TopicPartition(*where, offset) for where, offset in sorted(self._next.items())])

    def _revoked(self, consumer: Any, partitions: list[Any]) -> None:
        """Somebody else goes on from the last commit; what was read since is theirs."""
        self._chosen = False
        self._forget()
        consumer.unassign()

    def _forget(self) -> None:
        self.active, self.orderer = False, self._make()
        self._next, self._forwarded = {}, []
        self._unhanded.clear()

    def _load(self) -> None:
        kafka = client()
        self._forget()
        place = kafka.TopicPartition(self.state_topic, 0)
        start = patiently(lambda: self._consumer.committed([place], PATIENCE))[0].offset
        known = patiently(lambda: self._consumer.list_topics(timeout=PATIENCE)).topics
        missing = [topic for topic in self.topics if topic not in known]
        if missing:
            raise MisuseError(f"no topic {', '.join(missing)}; make the topics before consuming them")
        self._next = {
            (topic, part): kafka.OFFSET_BEGINNING for topic in self.topics for part in known[topic].partitions
        }
        if start >= 0:
            self._restore(self._read_state(start))

    def _restore(self, data: bytes) -> None:
        header, _, snapshot = data.partition(b"\n")
        told = json.loads(header)
        self._next |= {(topic, part): offset for topic, part, offset in told["next"]}
        self._unhanded.update({(topic, part): set(offsets) for topic, part, offsets in told["unhanded"]})
        self.orderer.restore(snapshot)

    def _read_state(self, start: int) -> bytes:
        kafka = client()
        settings = {"group.id": f"{self.group}-state-reader", "isolation.level": "read_committed"}
        reader = kafka.Consumer({**self._config, **settings, "enable.auto.commit": False})
        try:
            reader.assign([kafka.TopicPartition(self.state_topic, 0, start)])
            chunks: list[bytes] = []
            total = 1
            while len(chunks) < total:
                found = reader.poll(PATIENCE)
                if found is None:
                    raise PeerError(f"state of group {self.group} at offset {start} of {self.state_topic} did not come")
                if found.error() is not None:
                    self._judge(found.error())
                    continue
                total = int(dict(found.headers())["chunks"])
                chunks.append(found.value())
            return b"".join(chunks)
        finally:
            reader.close()

    # -- committing ------------------------------------------------------------------------------------------------

    def _state_offset(self) -> Any:
        """Write the state, and return where it begins."""
        told = {
            "next": [[*where, offset] for where, offset in self._next.items()],
            "unhanded": [[*where, sorted(offsets)] for where, offsets in self._unhanded.items() if offsets],
        }
        data = json.dumps(told).encode() + b"\n" + self.orderer.snapshot()
        pieces = [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)]
        begun: list[int] = []
        for piece in pieces:
            self._write(
                self.state_topic,
                piece,
                partition=0,
                headers=[("chunks", str(len(pieces)).encode())],
                on_delivery=lambda error, record: begun.append(-1 if error else record.offset()),
            )
        try:
            left = self._writer.flush(PATIENCE)
        except SystemError as error:  # how the client raises a fatal error while it calls back
            raise PeerError(str(error.__cause__ or error)) from None
        if left or min(begun) < 0:
            raise PeerError("the broker did not take the state")
        return client().TopicPartition(self.state_topic, 0, min(begun))

    def _handed_on(self) -> list[Any]:
        """Return, for each partition, the offset up to which everything was handed on."""
        ends = {where: min(self._unhanded[where], default=end) for where, end in self._next.items() if end >= 0}
        return [client().TopicPartition(*where, offset) for where, offset in ends.items()]

    def _send_offsets(self, offsets: list[Any]) -> None:
        self._writer.send_offsets_to_transaction(offsets, self._consumer.consumer_group_metadata(), PATIENCE)

    def _write(self, topic: str, value: bytes | None, **told: Any) -> None:
        while True:
            try:
                self._writer.produce(topic, value, **told)
                return
            except BufferError:
                self._writer.poll(0.1)

    def _give_up(self, why: Exception) -> None:
        """A transaction that failed is undone, and the state of the last one is read again."""
        kafka = client()
        try:
            patiently(lambda: self._writer.abort_transaction(PATIENCE))
        except kafka.KafkaException:
            self._forget()
            raise PeerError(f"group {self.group}: {why}; another consumer may have taken over") from None
        self._load()
        self._consumer.assign([kafka.TopicPartition(*where, offset) for where, offset in sorted(self._next.items())])
        self.active = True

    def _ensure_state_topic(self) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

        admin = AdminClient(self._config)
        topic = NewTopic(self.state_topic, 1, config={"retention.ms": "-1"})
        try:
            admin.create_topics([topic])[self.state_topic].result()
        except client().KafkaException as error:
            if error.args[0].code() != client().KafkaError.TOPIC_ALREADY_EXISTS:
                raise PeerError(f"state topic {self.state_topic}: {error.args[0].str()}") from None


def _forwarded_headers(row: Row) -> list[tuple[str, bytes]]:
    """Say of a forwarded record which one it is and its place in the order."""
    told = [
        ("thence-message", row["message"]),
        ("thence-outcome", row["outcome"]),
        ("thence-position", row["position"]),
    ]
    return [(name, str(value).encode()) for name, value in told if value is not None]
