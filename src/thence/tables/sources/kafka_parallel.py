"""Kafka records handled in parallel, each after its causes have been *handled*: `CausalConsumer(concurrency=)`.

*Invariant.* A commit is two steps: the fates of the records that were settled since the last one go to the state topic,
then the group's offsets are committed, with the records that are settled beyond them in the metadata
(`kafka_progress.py`). The offsets say what is settled; the state topic says the ids, since an effect names its cause
by id. A fate in the state topic whose offset is not committed as settled does not count.

One consumer of a group reads all partitions, and the others stand by; or, with `by_partition`, each reads its share:
then the key of the gate is the key of the record, and all records of a key lie in partitions of one number.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

from thence.core.model.plain import Field, Fields
from thence.errors import MisuseError, PeerError, TraceError
from thence.tables.delivery.columns import Key
from thence.tables.delivery.gate import Fate, Gate, Identity
from thence.tables.delivery.gate_entry import GateEntry
from thence.tables.delivery.gate_feed import DEAD, FINISHED, Feed
from thence.tables.delivery.gate_map import Handled
from thence.tables.sources.kafka_client import (
    CALL_SECONDS,
    Found,
    client,
    connection,
    ensure_topic,
    patiently,
    raise_error,
    record_row,
    stored,
    topic_partitions,
)
from thence.tables.sources.kafka_progress import WINDOW, Progress, read_commit
from thence.tables.sources.kafka_state import CHUNK

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition

PartitionName = tuple[str, int]
T = TypeVar("T")
STATE_TOPIC = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
METADATA = 4096
"""bytes of metadata that a broker takes with an offset, unless it was configured otherwise"""
MUCH, LITTLE = 2000, 500
"""records that wait here to be taken: reading pauses above the first, and goes on below the second"""
MOMENT = 0.02
"""seconds that reading waits for records while handlers run"""


class ParallelConsumer:
    """Runs a handler for each record of some topics, as parallel as their causes allow."""

    def __init__(
        self,
        config: Fields,
        topics: Iterable[str],
        gate: Callable[[], Gate],
        *,
        concurrency: int,
        destination: str | None = None,
        state_topic: str | None = None,
        by_partition: bool = False,
        commit_seconds: float = 1.0,
        metadata_bytes: int = METADATA,
    ) -> None:
        """Join a group; `CausalConsumer` says what the parameters are."""
        self.topics, self._make, self.concurrency = list(topics), gate, concurrency
        self.group, self._config = str(config["group.id"]), connection(config)
        self.destination = destination or self.group
        self.state_topic = state_topic or f"{self.group}-thence-done"
        self.by_partition, self._seconds, self._limit = by_partition, commit_seconds, metadata_bytes
        self.active, self._chosen, self._stop = False, list[int](), Event()
        self.gate = self._new_gate()
        self._feed: Feed
        self._handler: Callable[[Fields], Any]
        self._on_handled: Callable[[Handled], object] | None = None
        self._reset()
        units = self._units()
        ensure_topic(self._config, self.state_topic, units, STATE_TOPIC)
        kafka = client()
        self._writer = kafka.Producer({**self._config, "enable.idempotence": True, "compression.type": "gzip"})
        settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "isolation.level": "read_committed"}
        settings |= {"partition.assignment.strategy": "range"}  # partitions of one number go to one consumer
        self._consumer = kafka.Consumer({**settings, **config})
        found = patiently(lambda: self._consumer.list_topics(self.state_topic, CALL_SECONDS)).topics[self.state_topic]
        if found.partitions and len(found.partitions) != units:
            raise MisuseError(
                f"{self.state_topic} has {len(found.partitions)} partitions and this group needs {units}: "
                "by_partition= or the number of partitions changed; name another state_topic= or group.id"
            )
        wanted = self.topics if by_partition else [self.state_topic]
        self._consumer.subscribe(wanted, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)

    # -- for the caller ----------------------------------------------------------------------------------------------

    def run(self, handler: Callable[[Fields], Any], on_handled: Callable[[Handled], object] | None = None) -> None:
        """Handle records until `stop` is called, then commit and leave the group."""
        self._handler, self._on_handled = handler, on_handled
        try:
            while not self._stop.is_set():
                self._step()
            if self.active:
                self._end(commit=True)
        finally:
            if self.active:
                self._feed.close()
            self._consumer.close()

    def stop(self) -> None:
        """Make `run` return when the handlers that run have ended; from a handler, a thread or a signal."""
        self._stop.set()

    def retry(self, id: str, key: Iterable[Field] | None = None) -> None:
        """Handle a record that failed again."""
        found = [row for row in self.gate.failed() if self._is(row, id, key)]
        if not found:
            raise MisuseError(f"{id} has not failed; a failed record can be retried")
        for row in found:
            self._feed.offer(row)

    def skip(self, id: str, key: Iterable[Field] | None = None) -> None:
        """Go on without a record that failed or has not arrived: its effects are `released`."""
        names, failed = self.gate.columns.key, any(self._is(row, id, key) for row in self.gate.failed())
        keys = {() if key is None else tuple(key)}
        if key is None and names:
            keys = {tuple(row[n] for n in names) for row in self.gate.waiting() if id in row["missing"]}
        self.gate.skip(id, key)
        if not failed and self.gate.by == "depends_on":  # a later run must know of it, though no record of it was read
            self._fates.extend((None, "skipped", each, (None, id, 1)) for each in keys)
            self._dirty = True

    def _is(self, row: Fields, id: str, key: Iterable[Field] | None) -> bool:
        names = self.gate.columns
        return row[names.message] == id and (key is None or tuple(row.get(name) for name in names.key) == tuple(key))

    # -- reading -----------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        waits = MOMENT if self.active and not (self._feed.idle and not self._backlog()) else 0.2
        records = self._consumer.consume(MUCH, waits)
        if self._chosen:
            self._take_over()
        for found in records:
            if found.error() is not None:
                raise_error(found.error())
            elif (found.topic(), found.partition()) in self._progress:
                self._waiting[found.topic(), found.partition()].append(found)
        if self.active:
            self._settle()
            self._offer()
        if self.active:
            self._pause()
            if self._dirty and time.monotonic() - self._committed >= self._seconds:
                self._commit()

    def _backlog(self) -> int:
        return sum(map(len, self._waiting.values()))

    def _offer(self) -> None:
        """Offer what was read, one record of each partition in turn, while the gate has room."""
        while self.active and self.gate.room:
            able = [
                (where, found) for where, found in self._waiting.items() if found and not self._progress[where].full
            ]
            if not able:
                return
            for where, found in able:
                if self.active:
                    self._take(where, found.popleft())

    def _take(self, where: PartitionName, found: Found) -> None:
        offset, progress = found.offset(), self._progress[where]
        if self.by_partition:
            self._check_key(found)
        if not progress.take(offset):
            return
        if offset >= progress.ceiling:
            progress.ceiling = offset + WINDOW
            self._commit()
            if not self.active:
                return
        self._feed.offer(record_row(found, self.destination) | {"repeated": progress.repeated(offset)})

    def _check_key(self, found: Found) -> None:
        """Refuse a record that shows that the key is not what partitions records."""
        key, number = found.key(), found.partition()
        if key is None:
            raise PeerError(
                f"{found.topic()}/{number}/{found.offset()} has no key; with by_partition=True each record needs one"
            )
        if self._homes.setdefault(key, number) != number:
            raise PeerError(
                f"key {key!r} is in partition {self._homes[key]} and in partition {number} of {found.topic()}; with "
                "by_partition=True a key stays in one. Produce all topics with one partitioner, or leave it out"
            )

    def _pause(self) -> None:
        """Pause partitions of which much waits, and those whose metadata is full; let the others go on."""
        kafka = client()
        for where, found in self._waiting.items():
            paused = where in self._paused
            much = len(found) > (LITTLE if paused else MUCH) or self._progress[where].full
            if much != paused:
                (self._consumer.pause if much else self._consumer.resume)([kafka.TopicPartition(*where)])
                (self._paused.add if much else self._paused.discard)(where)
        if self._dirty or not self._feed.idle or self.gate.failed() or self.gate.ready:
            return
        full = [where for where, each in self._progress.items() if each.full]
        if full and len(full) == len(self._progress):
            first = next(iter(self.gate.waiting()), {})
            raise TraceError(
                f"the metadata of a commit is full for {full}, and nothing runs: {first.get('message')} "
                f"{first.get('reason')}. Skip that cause, or raise metadata_bytes=, and the broker's limit"
            )
        limit = self.gate.held_limit
        if limit is not None and self.gate.held >= limit:
            raise TraceError(f"held_limit={limit} is reached and nothing runs: {self.gate.waiting()[0]['reason']}")

    # -- what became of records --------------------------------------------------------------------------------------

    def _settle(self) -> None:
        for each, entry in self._feed.settled():
            name = (entry.key, entry.identity)
            if each.outcome == "failed":
                self._failed[name][id(each.row)] = each.row
            else:
                fate = _fate(each)
                rows = self._failed.pop(name, {}) | {id(each.row): each.row}  # more than one where a record came twice
                for row in rows.values():
                    self._note(row, entry, fate)
            if self._on_handled is not None:
                self._on_handled(each)

    def _note(self, row: Fields, entry: GateEntry, fate: Fate | None) -> None:
        where = (row.get("topic"), row.get("partition"))
        place = (*where, row["offset"]) if where in self._progress else None
        if place is not None:
            self._progress[place[:2]].settle(place[2])
        self._dirty = True
        if fate is not None and entry.identity[1] is not None and not (fate == "done" and self.gate.known is not None):
            self._fates.append((place, fate, entry.key, entry.identity))

    def _commit(self) -> None:
        """Write the fates, then the offsets. Another consumer's turn ends this one's."""
        kafka = client()
        commits = {where: each.commit() for where, each in self._progress.items() if each.next >= 0}
        self._write_fates({where: (each.first, each.metadata) for where, each in commits.items()})
        places = [kafka.TopicPartition(*where, each.first, each.metadata) for where, each in commits.items()]
        self._dirty, self._committed = False, time.monotonic()
        if not places:
            return
        try:
            for some in _pieces(places, lambda each: len(each.metadata)):  # a broker keeps each commit as one record
                patiently(partial(self._consumer.commit, offsets=some, asynchronous=False))
        except kafka.KafkaException as error:
            code, codes = error.args[0].code(), kafka.KafkaError
            if code == codes.REBALANCE_IN_PROGRESS:  # the partitions are about to be revoked, which commits
                self._dirty = True
            elif code in (codes.ILLEGAL_GENERATION, codes.UNKNOWN_MEMBER_ID, codes.FENCED_INSTANCE_ID):
                self._end(commit=False)
            else:
                raise PeerError(f"group {self.group}: {error.args[0].str()}") from None

    def _write_fates(self, commits: dict[PartitionName, tuple[int, str]]) -> None:
        units: dict[int, dict[str, list[Any]]] = defaultdict(lambda: {"fates": [], "commits": []})
        while self._fates:
            place, fate, key, identity = self._fates.popleft()
            chosen = [self._unit(place[1])] if place is not None else sorted({self._unit(p) for _, p in self._progress})
            for unit in chosen:
                units[unit]["fates"].append([place, fate, _plain(key), identity])
        if not units:
            return
        for (topic, number), (first, metadata) in commits.items():
            units[self._unit(number)]["commits"].append([topic, number, first, metadata])
        for unit, value in units.items():
            for data in _fate_records(value["fates"], value["commits"]):
                self._writer.produce(self.state_topic, data, partition=unit)
        if self._writer.flush(CALL_SECONDS):
            raise PeerError(f"the broker did not take the state of group {self.group} within {CALL_SECONDS:.0f} s")

    def _unit(self, partition: int) -> int:
        return partition if self.by_partition else 0

    # -- taking over and ending --------------------------------------------------------------------------------------

    def _units(self) -> int:
        """Return how many partitions the state topic needs; check what sharing the work rests on."""
        if not self.by_partition:
            return 1
        if self.gate.columns.key != ("key",):
            raise MisuseError(
                f"by_partition=True needs Gate(key=['key']), the key of the record; key={list(self.gate.columns.key)}"
            )
        counts = {topic: len(parts) for topic, parts in self._partitions().items()}
        if len(set(counts.values())) != 1:
            raise MisuseError(f"by_partition=True needs topics with equally many partitions; found {counts}")
        return next(iter(counts.values()))

    def _partitions(self) -> dict[str, list[int]]:
        from confluent_kafka.admin import AdminClient

        return topic_partitions(AdminClient(self._config), self.topics)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Note what the group assigned; nothing is asked of the client while it calls back."""
        self._chosen = sorted({each.partition for each in partitions})
        consumer.assign([])

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Let handlers end and commit, before another consumer continues."""
        self._chosen = []
        if self.active:
            self._end(commit=True)
        consumer.unassign()

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Stop without a commit, which would be refused: another consumer may be active already."""
        self._chosen = []
        if self.active:
            self._end(commit=False)
        consumer.unassign()

    def _take_over(self) -> None:
        """Read the group's settled records, and continue from there."""
        kafka = client()
        units, self._chosen = self._chosen, []
        self._reset()
        self.gate = self._new_gate()
        places = [
            kafka.TopicPartition(topic, number)
            for topic, numbers in self._partitions().items()
            for number in (units if self.by_partition else numbers)
        ]
        for each in patiently(lambda: self._consumer.committed(places, CALL_SECONDS)):
            before = read_commit(each.offset, each.metadata) if each.offset >= 0 else None
            self._progress[each.topic, each.partition] = Progress(before, self._limit)
        for unit in units:
            self._recall(unit)
        self._waiting.update({where: deque() for where in self._progress})
        self._feed = Feed(self.gate, self._handler)
        self.active = True
        starts = {
            where: each.next if each.next >= 0 else kafka.OFFSET_BEGINNING for where, each in self._progress.items()
        }
        self._consumer.assign([kafka.TopicPartition(*where, at) for where, at in starts.items()])

    def _recall(self, unit: int) -> None:
        """Read the fates of a unit's records; where the broker has forgotten the group's offsets, those too."""
        values = [
            json.loads(found.value() or b"{}") for found in stored(self._config, self.group, (self.state_topic, unit))
        ]
        lost = {where for where, each in self._progress.items() if each.before is None}
        for value in values:
            for topic, number, first, metadata in value["commits"]:
                if (topic, number) in lost:
                    self._progress[topic, number] = Progress(read_commit(first, metadata), self._limit)
        for value in values:
            for place, fate, key, identity in value["fates"]:
                progress = None if place is None else self._progress.get((place[0], place[1]))
                before = None if progress is None else progress.before
                if place is None or (before is not None and before.settled(place[2])):
                    label, source, count = identity
                    self.gate.recall(_original(key), (label, source, count), fate)

    def _new_gate(self) -> Gate:
        gate = self._make()
        if not isinstance(gate, Gate):
            raise MisuseError(f"with concurrency= the third argument makes a Gate; it made a {type(gate).__name__}")
        gate.concurrency = self.concurrency
        return gate

    def _end(self, *, commit: bool) -> None:
        """Wait for the handlers that run; then another consumer may continue."""
        self.active = False
        self._feed.close()
        self._settle()
        if commit:
            self._commit()
        self._reset()

    def _reset(self) -> None:
        self._progress: dict[PartitionName, Progress] = {}
        self._waiting: dict[PartitionName, deque[Found]] = {}
        self._paused: set[PartitionName] = set()
        self._homes: dict[bytes, int] = {}
        self._failed: dict[tuple[Key, object], dict[int, Fields]] = defaultdict(dict)
        self._fates: deque[tuple[tuple[str, int, int] | None, Fate, Key, Identity]] = deque()
        self._dirty, self._committed = False, time.monotonic()


def _fate_records(fates: Iterable[Any], commits: Iterable[Any]) -> Iterator[bytes]:
    """Yield records that a broker accepts; fates come first, since a commit implies that all of them are there."""
    named = [("fates", each) for each in fates] + [("commits", each) for each in commits]
    texts = ((name, json.dumps(each, separators=(",", ":"))) for name, each in named)
    for piece in _pieces(texts, lambda each: len(each[1])):
        lists = [
            f'"{name}":[{",".join(text for kind, text in piece if kind == name)}]' for name in ("fates", "commits")
        ]
        yield f"{{{','.join(lists)}}}".encode()


def _pieces(values: Iterable[T], length: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield values in lists that are no longer than what a broker accepts in one record."""
    piece: list[T] = []
    size = 0
    for each in values:
        more = length(each) + 1
        if piece and size + more > CHUNK:
            yield piece
            piece, size = [], 0
        piece.append(each)
        size += more
    if piece:
        yield piece


def _fate(each: Handled) -> Fate | None:
    """Return what later runs must know of a record, if anything."""
    if each.outcome in FINISHED:
        return "done"
    if each.outcome == "skipped":
        return "skipped"
    return "dead" if each.outcome == "quarantined" and DEAD in each.reason else None


def _plain(key: Key) -> list[Any]:
    return [{"hex": v.hex()} if isinstance(v, bytes) else v for v in key]


def _original(key: list[Any]) -> Key:
    return tuple(bytes.fromhex(v["hex"]) if isinstance(v, dict) else v for v in key)
