"""Kafka without Spark, over confluent-kafka: a producer that writes causes, a consumer that keeps causal order.

    from thence import Gate, Orderer
    from thence.sources.kafka import CausalConsumer, CausalProducer

    producer = CausalProducer({"bootstrap.servers": "..."}, "orders")
    producer.produce("events", b"placed", message="o-1")

    group = {"bootstrap.servers": "...", "group.id": "billing"}
    consumer = CausalConsumer(group, ["events"], lambda: Orderer("depends_on"))
    for row in consumer.poll():
        ...                      # each row once, causes first, with its outcome
    consumer.commit()

    parallel = CausalConsumer(group, ["events"], lambda: Gate("depends_on"), concurrency=32)
    parallel.run(handle)         # handlers in parallel, each after those of its causes: `kafka_parallel.py`

Invariant: one consumer of a group is active and reads all partitions of its topics, since messages of two partitions
may depend on each other; the others stand by, and one of them takes over where it stopped. `commit` writes, in one
Kafka transaction, the state of the orderer (held records among it, and where each partition is read on) and what was
forwarded. So after a crash of consumer or broker the next one goes on from the last commit: nothing is lost, and of
what was forwarded to a topic (read with `isolation.level=read_committed`) nothing comes twice. A sink outside Kafka may
see again what came after the last commit: it knows it by its message id.

The active consumer is the one that Kafka assigns the one partition of the state topic, and the last whole state there
is the one that holds. A consumer that was replaced is fenced: its `commit` raises `PeerError`.

Departures. Offsets of the group are committed after the transaction, up to the rows that were returned, for other tools
to see; reading continues from the state, which includes held records. They are not part of the transaction, because the
client's call for that can wait forever once a broker has gone away (librdkafka#5456, #5511). The offset committed for
the state topic says from where the last state is looked for, and nothing depends on its being the latest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from thence.core.model.plain import Field, Fields, Option, Row
from thence.errors import MisuseError, PeerError
from thence.tables.delivery import Gate, Orderer
from thence.tables.delivery.gate_map import Handled
from thence.tables.delivery.without_collection import without_collection
from thence.tables.sources.kafka_client import (
    CALL_SECONDS,
    client,
    connection,
    ensure_topic,
    passing,
    patiently,
    raise_error,
    record_row,
    stored,
    topic_partitions,
)
from thence.tables.sources.kafka_parallel import ParallelConsumer
from thence.tables.sources.kafka_producer import CausalProducer
from thence.tables.sources.kafka_state import StateRecord, pack_row, state_records, unpack_row, whole_state

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer, TopicPartition

PartitionName = tuple[str, int]
__all__ = ["CausalConsumer", "CausalProducer"]
FETCH = 1 << 16
"""bytes of one partition at a time: a backlog is read evenly, so that few records wait for those of other partitions"""
STATE_TOPIC = {"cleanup.policy": "compact", "segment.bytes": str(64 << 20), "min.cleanable.dirty.ratio": "0.1"}
"""Each record of a state has its key, so that Kafka keeps the latest and clears away those before."""
_PLACE = itemgetter("topic", "partition", "offset")


class CausalConsumer:
    """Returns the records of topics in causal order."""

    def __init__(
        self,
        config: Fields,
        topics: Iterable[str],
        orderer: Callable[[], Orderer] | Callable[[], Gate],
        *,
        destination: str | None = None,
        state_topic: str | None = None,
        concurrency: int | None = None,
        **parallel: Option,
    ) -> None:
        """Join a group.

        Args:
            config: of confluent-kafka's consumer; `group.id` is needed.
            topics: what is read.
            orderer: makes an empty `Orderer`; with `concurrency`, an empty `Gate`.
            destination: the name of the consumer in stamps and headers; the group if not given.
            state_topic: where the state is kept, `<group>-thence-state` if not given (`<group>-thence-done` with
                `concurrency`); it is made if it is not there.
            concurrency: run handlers, as many at once: call `run` in place of `poll` and `commit`.
            parallel: with `concurrency`: `by_partition=True` shares the partitions among the consumers of the group
                where the gate's key is the record's key and partitions the topics; `commit_seconds` (1) is the time
                between commits; `metadata_bytes` (4096) is the broker's `offset.metadata.max.bytes`.
        """
        self.group = str(config.get("group.id") or "")
        if not self.group:
            raise MisuseError("config has no group.id; the group that consumes is needed")
        self._parallel: ParallelConsumer | None = None
        if concurrency is not None:
            self._parallel = _parallel_consumer(
                config, topics, orderer, destination=destination, state_topic=state_topic, concurrency=concurrency,
                **parallel,
            )  # fmt: skip
            return
        if parallel:
            raise MisuseError(f"{', '.join(parallel)} goes with concurrency=")
        self.topics, self._make = list(topics), orderer
        self.destination = destination or self.group
        self.state_topic = state_topic or f"{self.group}-thence-state"
        self._config = connection(config)
        self.orderer, self.active = self._orderer(), False
        self._next: dict[PartitionName, int] = {}
        self._packed: dict[tuple[str, int, int], bytes] = {}
        """held records, by their place, as a commit writes them: one held through many commits is packed once"""
        self._forwarded: list[tuple[str, Row]] = []
        self._writer: Producer
        self._chosen = self._fenced = False
        """whether the group has chosen this consumer, not active yet; and whether earlier active ones are fenced"""
        kafka = client()
        ensure_topic(self._config, self.state_topic, 1, STATE_TOPIC)
        settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "isolation.level": "read_committed"}
        self._consumer = kafka.Consumer({**settings, "fetch.message.max.bytes": FETCH, **config})
        self._consumer.subscribe([self.state_topic], on_assign=self._assigned, on_revoke=self._revoked)

    def poll(self, timeout: float = 1.0, limit: int = 1000) -> list[Row]:
        """Return the rows that leave now, in causal order. A stand-by consumer returns an empty list.

        After an error the next call goes on from the last commit.

        Args:
            timeout: seconds to wait for records.
            limit: the most records that are read.
        """
        if self._parallel is not None:
            raise MisuseError("with concurrency= handlers take the records: call run(handler)")
        records = self._consumer.consume(limit, timeout)
        if self._chosen:
            self._take_over()
        try:
            with without_collection():
                return self._ordered(records)
        except BaseException:  # rows that had left are lost with it
            self._stand()
            raise

    def _ordered(self, records: list[Any]) -> list[Row]:
        rows: list[Row] = []
        for found in records:
            if found.error() is not None:
                raise_error(found.error())
                continue
            where = (found.topic(), found.partition())
            if where in self._next:
                self._next[where] = found.offset() + 1
                rows.append(record_row(found, self.destination))
        return self.orderer.push_all(rows)

    def forward(self, topic: str, row: Row) -> None:
        """Write a row's value to a topic at the next commit, in the same transaction.

        Args:
            topic: where it goes.
            row: a row that `poll` returned.
        """
        self._forwarded.append((topic, row))

    def commit(self) -> None:
        """Commit the returned and the forwarded rows; raise `PeerError` if another consumer took over."""
        if not self.active:
            return
        try:
            self._writer.begin_transaction()
            for topic, row in self._forwarded:
                self._write(topic, row["value"], key=row["key"], headers=_forwarded_headers(row))
            with without_collection():
                begins = self._write_state()
            patiently(lambda: self._writer.commit_transaction(CALL_SECONDS))
        except (client().KafkaException, PeerError) as error:
            self._give_up(error)
        else:
            self._tell_offsets(begins)
        self._forwarded = []

    def waiting(self) -> list[Row]:
        """Explain every held record, as `Orderer.waiting` or `Gate.waiting`."""
        return self.orderer.waiting() if self._parallel is None else self._parallel.gate.waiting()

    def close(self) -> None:
        """Leave the group, without a commit; with `concurrency`, as `stop`."""
        if self._parallel is not None:
            self._parallel.stop()
        else:
            self._consumer.close()

    # -- handlers ----------------------------------------------------------------------------------------------------

    def run(self, handler: Callable[[Fields], Any], on_handled: Callable[[Handled], object] | None = None) -> None:
        """Run the handler for every record until `stop` is called.

        Args:
            handler: a function or coroutine function of a row, which has the columns of `poll`, and `repeated`: whether
                it may have been handled before a crash.
            on_handled: called with what became of each record, in the thread that called `run`.
        """
        self._handlers().run(handler, on_handled)

    def stop(self) -> None:
        """Make `run` return after the handlers that run have ended and a commit is made."""
        self._handlers().stop()

    def failed(self) -> list[Fields]:
        """Return the records whose handlers failed, which hold their effects back."""
        return self._handlers().gate.failed()

    def retry(self, id: str, key: Iterable[Field] | None = None) -> None:
        """Run the handler of a failed record again.

        Args:
            id: the id of the record.
            key: the values of the gate's key columns; every key if not given.
        """
        self._handlers().retry(id, key)

    def skip(self, id: str, key: Iterable[Field] | None = None) -> None:
        """Go on without a record that failed or has not arrived, as `Gate.skip`; later runs go on without it too.

        Args:
            id: the id of the record.
            key: the values of the gate's key columns; every key if not given.
        """
        self._handlers().skip(id, key)

    def dead_letter(self, id: str, key: Iterable[Field] | None = None) -> None:
        """Set aside a failed record with everything behind it, as `Gate.dead_letter`; later runs do so too.

        Args:
            id: the id of the failed record.
            key: the values of the gate's key columns; every key if not given.
        """
        self._handlers().gate.dead_letter(id, key)

    def _handlers(self) -> ParallelConsumer:
        if self._parallel is None:
            raise MisuseError("handlers need concurrency=, and a function that makes a Gate as the third argument")
        return self._parallel

    def _orderer(self) -> Orderer:
        made = self._make()
        if not isinstance(made, Orderer):
            raise MisuseError("without concurrency= the third argument makes an Orderer")
        return made

    # -- taking over -----------------------------------------------------------------------------------------------

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Note that the group chose this consumer; nothing is asked of the client while it calls back."""
        if partitions:
            self._chosen, self._fenced = True, False
            consumer.assign([])

    def _take_over(self) -> None:
        """Fence the earlier active consumer, read the state of the last commit, and continue from there."""
        kafka = client()
        if not self._fenced:
            settings = {"transactional.id": f"thence-{self.group}", "log_level": 0}  # calls raise its errors
            self._writer = kafka.Producer({**self._config, **settings})
            patiently(lambda: self._writer.init_transactions(CALL_SECONDS))
            self._fenced = True
        self._load()
        self.active, self._chosen = True, False
        self._consumer.assign([kafka.TopicPartition(*where, offset) for where, offset in sorted(self._next.items())])

    def _stand(self) -> None:
        """Read nothing, so that the next poll goes on from the last commit if this consumer is the active one."""
        chosen = self._chosen or self.active
        self._forget()
        self._chosen = chosen
        self._consumer.assign([])

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Drop what was read since the last commit: another consumer continues from there."""
        self._chosen = False
        self._forget()
        consumer.unassign()

    def _forget(self) -> None:
        self.active, self.orderer = False, self._orderer()
        self._next, self._forwarded = {}, []
        self._packed.clear()

    def _load(self) -> None:
        kafka = client()
        self._forget()
        place = kafka.TopicPartition(self.state_topic, 0)
        start = patiently(lambda: self._consumer.committed([place], CALL_SECONDS))[0].offset
        found = topic_partitions(self._consumer, self.topics)
        self._next = {(topic, part): kafka.OFFSET_BEGINNING for topic, parts in found.items() for part in parts}
        state = whole_state(self._stored_records(start))
        if state is not None:
            self._restore(state)
        elif start >= 0:
            raise PeerError(f"group {self.group} has committed a state, but {self.state_topic} holds none")

    def _restore(self, data: bytes) -> None:
        header, _, snapshot = data.partition(b"\n")
        places = json.loads(header)
        self._next |= {(topic, part): offset for topic, part, offset in places["next"]}
        self.orderer.restore(snapshot, unpack_row)

    def _stored_records(self, start: int) -> Iterator[StateRecord]:
        """Read the state topic from where a state is known to be, or all of it, up to its last commit."""
        for found in stored(self._config, self.group, (self.state_topic, 0), start):
            yield StateRecord(found.key() or b"", found.value() or b"", found.headers() or [])

    # -- committing ------------------------------------------------------------------------------------------------

    def _write_state(self) -> int:
        """Write the state, and return the offset at which it begins."""
        places = {"next": [[*where, offset] for where, offset in self._next.items()]}
        begun: list[int] = []
        for record in state_records(json.dumps(places).encode() + b"\n" + self._snapshot()):
            self._write(
                self.state_topic,
                record.value,
                partition=0,
                key=record.key,
                headers=record.headers,
                on_delivery=lambda error, record: begun.append(-1 if error else record.offset()),
            )
        try:
            left = self._writer.flush(CALL_SECONDS)
        except SystemError as error:  # how the client raises a fatal error while it calls back
            raise PeerError(str(error.__cause__ or error)) from None
        if left or min(begun) < 0:
            raise PeerError("the broker did not take the state")
        return min(begun)

    def _snapshot(self) -> bytes:
        """Return the state of the orderer; a record that was held at the commit before is packed already."""
        before, now = self._packed, dict[tuple[str, int, int], bytes]()

        def packed(row: Fields) -> bytes:
            place = _PLACE(row)
            found = now[place] = before.get(place) or pack_row(row)
            return found

        written = self.orderer.snapshot(packed)
        self._packed = now
        return written

    def _tell_offsets(self, begins: int) -> None:
        """Commit offsets for other tools to see; one that is lost comes with the next commit."""
        kafka = client()
        places = [kafka.TopicPartition(self.state_topic, 0, begins), *self._handed_on()]
        with suppress(kafka.KafkaException):
            self._consumer.commit(offsets=places, asynchronous=True)

    def _handed_on(self) -> list[TopicPartition]:
        """Return, for each partition, the offset below which every record had been returned at this commit."""
        ends = {where: end for where, end in self._next.items() if end >= 0}
        for topic, number, offset in self._packed:
            ends[topic, number] = min(ends[topic, number], offset)
        return [client().TopicPartition(*where, offset) for where, offset in ends.items()]

    def _write(self, topic: str, value: bytes | None, **more: Option) -> None:
        while True:
            try:
                self._writer.produce(topic, value, **more)
                return
            except BufferError:
                self._writer.poll(0.1)

    def _give_up(self, why: Exception) -> None:
        """Abort the failed transaction; raise what would make it fail again."""
        kafka = client().KafkaException
        try:
            patiently(lambda: self._writer.abort_transaction(CALL_SECONDS))
        except kafka:
            self._forget()
            raise PeerError(f"group {self.group}: {why}; another consumer may have taken over") from None
        self._stand()
        if isinstance(why, kafka) and not (passing(why.args[0]) or why.args[0].txn_requires_abort()):
            raise PeerError(f"group {self.group}: nothing was committed, because {why.args[0].str()}") from None


def _parallel_consumer(config: Fields, topics: Iterable[str], gate: Any, **more: Any) -> ParallelConsumer:
    client()
    try:
        return ParallelConsumer(config, topics, gate, **more)
    except TypeError as error:
        raise MisuseError(f"CausalConsumer: {error}") from None


def _forwarded_headers(row: Row) -> list[tuple[str, bytes]]:
    """Return the number of a forwarded record and its place in the order."""
    values = [
        ("thence-message", row["message"]),
        ("thence-outcome", row["outcome"]),
        ("thence-position", row["position"]),
    ]
    return [(name, str(value).encode()) for name, value in values if value is not None]
