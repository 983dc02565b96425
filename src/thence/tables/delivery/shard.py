"""A shard of a stream's keys: many keys in one state, a small head and the segments that it names.

*Invariant.* The head names the segments whose changes, applied in order, are the state. A micro-batch appends one
segment with what it changed; when a level has `2 * FOUR` segments, the oldest `FOUR` become one of the next level, so
that what is written follows what changed. Every write has a token of its own, the name of its segment. A worker keeps
shards in memory (`shard_memory.py`) with the token of the last segment applied: if the head ends with that token, the
shard is used as it is; if the head names it earlier, the segments after it are applied; else all of them are read. A
task that is run again, or a head that was rolled back, ends with another token, so a stale shard is never used.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from thence.core.model.plain import Row
from thence.errors import MisuseError
from thence.tables.contract.numpy_types import Longs
from thence.tables.delivery.checkpoint_terms import made_with
from thence.tables.delivery.codes_cy import DONE, fingerprint
from thence.tables.delivery.columns import Key
from thence.tables.delivery.delivery_rule_cy import Rule
from thence.tables.delivery.delivery_terms import DeliveryTerms
from thence.tables.delivery.held_cy import HeldRow
from thence.tables.delivery.many_keys import TICKET_BITS, ManyKeys, known_ids, same_key
from thence.tables.delivery.packing import pack
from thence.tables.delivery.partition_by_key import by_key
from thence.tables.delivery.rule_state import know, read_held_row
from thence.tables.delivery.shard_state import (
    Segment,
    by_number,
    changed_columns,
    fitted,
    held_columns,
    merged,
    schemas,
    table_of,
)
from thence.tables.delivery.state import State, agree, reading_terms
from thence.tables.delivery.without_collection import without_collection

FOUR = 4
TICKET = (1 << TICKET_BITS) - 1


When = Callable[[int, int | None], int | None]
"""Computes when a key is due from the times of its last row and of the row that is held longest, if any."""


class SegmentStore(Protocol):
    """Where the segments of one shard are."""

    def get(self, name: str) -> bytes | None:
        """Return a segment, if it is there."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Write a segment under this name."""
        ...

    def delete(self, name: str) -> None:
        """Remove the segment of this name."""
        ...


class Shard(ManyKeys):
    """The keys of one shard, and what is written of them."""

    def __init__(self, terms: DeliveryTerms, schema: pa.Schema, keys: pa.Schema, shards: int) -> None:
        """Begin empty; `schema` is that of the rows, `keys` that of the key's columns as they travel."""
        super().__init__(terms)
        self.let_go, self.held.recorded = [], True
        self.schema, self.keys, self.shards = schema, keys, shards
        self.made = made_with(terms, schema)
        self.name, self.segments = uuid.uuid4().hex, list[tuple[str, int]]()
        """... tokens and levels, oldest first"""
        self.numbers: dict[Key, int] = {}
        self.values: dict[int, Key] = {}
        self.next = self.written = 0
        self.last: dict[int, int] = {}
        """When rows of each key came last, in milliseconds of processing time"""
        self.remembered: dict[int, int] = {}
        """How many ids a key remembers, where that is limited"""
        self.timer: int | None = None
        """When Spark is to look at the shard again"""
        self.due: list[tuple[int, int]] | None = None
        """A heap of moments and keys; a key may have been looked at since. None: not known yet"""
        self.touched: dict[int, None] = {}
        self.born: list[int] = []
        self.dead: list[int] = []

    @property
    def token(self) -> str:
        """The name of the last segment written; empty before the first."""
        return self.segments[-1][0] if self.segments else ""

    # -- rows ------------------------------------------------------------------------------------------------------

    def number(self, key: Key) -> int:
        """Return the number of a key, a new one if it is not known."""
        found = self.numbers.get(same_key(key))
        if found is None:
            found = self.next
            self.next += 1
            self.born.append(found)
            self._know(found, key)
        return found

    def _know(self, number: int, key: Key) -> Rule:
        self.numbers[same_key(key)], self.values[number] = number, key
        rule = self.begin(number, key)
        rule.fresh = []
        return rule

    def arrive(
        self, rows: pa.RecordBatch, order: Sequence[str], drop: Sequence[str], moment: int
    ) -> pa.RecordBatch | None:
        """Take rows in any order; `order` says the order of arrival, and `drop` columns that are not the caller's.

        Return those that leave; None if nothing leaves.
        """
        columns = [rows.column(name) for name in self.keys.names]

        def numbered(firsts: Longs) -> Longs:
            values = [column.take(pa.array(firsts)).to_pylist() for column in columns]
            return np.array([self.number(key) for key in zip(*values, strict=True)], np.int64)

        parted = by_key(rows, columns, order, numbered)
        for number in parted.numbers:
            self.touched[number] = None
            self.last[number] = moment
        given = parted.rows.drop_columns(list(drop)) if drop else parted.rows
        return self.take(given, np.array(parted.numbers, np.int64), np.array(parted.starts, np.int64), moment)

    def know_before(self, rows: pa.RecordBatch, moment: int) -> None:
        """Count the ids of rows as delivered: keys begin with them."""
        values = [rows.column(name).to_pylist() for name in self.keys.names]
        keys = list(zip(*values, strict=True)) if values else [()] * len(rows)
        numbers = [self.number(key) for key in keys]
        for number, ids in known_ids(self.terms, rows, np.array(numbers, np.int64)).items():
            know(self.rules[number], None, ids)
            self.rules[number].fresh += ids
        for number in numbers:
            self.touched[number] = None
            self.last[number] = moment

    def forget(self, number: int) -> None:
        """Drop a key that holds nothing."""
        super().forget(number)
        self.numbers.pop(same_key(self.values.pop(number)), None)
        self.touched.pop(number, None)
        self.last.pop(number, None)

    def oldest_seconds(self) -> float | None:
        """Return how long the row held longest has waited in event time, of the keys of this micro-batch."""
        found = [0.0]
        for number in self.touched:
            rule = self.rules[number]
            first = rule.first_row()
            if first is not None:
                since = first.since
                found.append(rule.now - (rule.began if since != since else since))
        return max((each for each in found if each == each), default=None)

    # -- time --------------------------------------------------------------------------------------------------------

    def look_again(self, when: When) -> int | None:
        """Return when the next key is due, the keys of this micro-batch seen to."""
        due = self._heap(when)
        for number in self.touched:
            moment = self._due(number, when)
            if moment is not None:
                heappush(due, (moment, number))
        if len(due) > 2 * len(self.rules) + 64:
            self.due = None
            due = self._heap(when)
        return due[0][0] if due else None

    def _heap(self, when: When) -> list[tuple[int, int]]:
        if self.due is None:
            moments = ((self._due(number, when), number) for number in self.rules)
            self.due = [(moment, number) for moment, number in moments if moment is not None]
            heapify(self.due)
        return self.due

    def _due(self, number: int, when: When) -> int | None:
        first = self.rules[number].first_row()
        return when(self.last.get(number, 0), None if first is None else first.came)

    def expired(self, moment: int, when: When) -> list[int]:
        """Return the keys that are due."""
        found: dict[int, None] = {}
        due = self._heap(when)
        while due and due[0][0] <= moment:
            number = heappop(due)[1]
            again = self._due(number, when) if number in self.rules else None
            if again is not None and again <= moment:
                found[number] = self.touched[number] = None
            elif again is not None:
                heappush(due, (again, number))
        return list(found)

    # -- writing -----------------------------------------------------------------------------------------------------

    def write(self, store: SegmentStore) -> None:
        """Write what changed as a segment, and merge segments that have become many."""
        self.written = 0
        if not (self.touched or self.dead):
            return
        self.segments.append((uuid.uuid4().hex, 0))
        self._put(store, self.segments[-1], self._changes().encode())
        level = 0
        while True:
            places = [place for place, segment in enumerate(self.segments) if segment[1] == level]
            if len(places) < 2 * FOUR:
                return
            old = [self.segments[place] for place in places[:FOUR]]
            whole = merged([Segment.decode(read_segment(store, each)) for each in old], first=places[0] == 0)
            level += 1
            made = (old[-1][0], level)
            self._put(store, made, whole.encode())
            for each in old:
                store.delete(segment_name(each))
            self.segments[places[0] : places[0] + FOUR] = [made]

    def _put(self, store: SegmentStore, segment: tuple[str, int], data: bytes) -> None:
        store.put(segment_name(segment), data)
        self.written += len(data)

    def head(self) -> bytes:
        """Return the head: what the shard is made with, and the names of its segments."""
        names = ("name", "shards", "made", "segments", "next", "timer")
        columns = {
            "keys": ("b", self.keys.serialize().to_pybytes()),
            "rows": ("b", self.schema.serialize().to_pybytes()),
        }
        return pack({name: getattr(self, name) for name in names}, columns)

    def _changes(self) -> Segment:
        """Return what changed since the last write, and count it as written."""
        segment, forms = Segment(), schemas(self.terms.by)
        born = [number for number in self.born if number in self.rules]
        keys = [list(each) for each in zip(*(self.values[number] for number in born), strict=True)]
        schema = pa.schema([("number", pa.int64()), *((f"key {n}", kind) for n, kind in enumerate(self.keys.types))])
        segment.add("born", table_of(schema, [born, *(keys or [[] for _ in self.keys])]))
        dead = [number for number in self.dead if number not in set(self.born)]
        columns: dict[str, list[list[Any]]] = {name: [[] for _ in form] for name, form in forms.items()}
        columns["dead"] = [dead]
        made: dict[str, int] = {}
        places: dict[int, int] = {}  # by the reading: keys share one, or many have equal ones
        state = []
        for number in self.touched:
            rule = self.rules[number]
            place = places.get(id(rule.reading))
            if place is None:
                about = list(reading_terms(rule.reading))
                place = places[id(rule.reading)] = made.setdefault(repr(about), len(made))
                if place == len(segment.made):
                    segment.made.append(about)
            state.append(changed_columns(columns, number, rule, self.last.get(number, 0), place))
        columns["state"] = [list(each) for each in zip(*state, strict=True)] or columns["state"]
        new = [chunk.alive() for chunk in self.held.fresh]
        ids = np.concatenate([np.zeros(0, np.int64), *(chunk.ids for chunk in new)])
        for each in ids.tolist():
            number = each >> TICKET_BITS
            rule = self.rules[number]
            held_columns(columns["held"], number, rule, rule.row_at(each & TICKET))
        rows = [fitted(chunk.rows, self.schema) for chunk in new if len(chunk.ids)]
        all_new = np.concatenate([np.zeros(0, np.int64), *(chunk.ids for chunk in self.held.fresh)])
        left = np.concatenate([np.zeros(0, np.int64), *(self.let_go or ())])
        left = left[~np.isin(left, all_new)]
        columns["left"] = [(left >> TICKET_BITS).tolist(), (left & TICKET).tolist()]
        for name, form in forms.items():
            segment.add(name, table_of(form, columns[name]))
        if rows:
            segment.add("rows", pa.concat_batches(rows))
        self.held.fresh, self.let_go, self.born, self.dead = [], [], [], []
        self.touched = {}
        return segment

    def retire(self, number: int) -> None:
        """Forget a key that holds nothing, and note it."""
        self.dead.append(number)
        self.forget(number)

    # -- reading -----------------------------------------------------------------------------------------------------

    def follow(self, head: Row, store: SegmentStore) -> bool:
        """Apply the segments after the last one that was applied; False if that one is not among them."""
        segments = [(str(token), int(level)) for token, level in head["segments"]]
        tokens = [token for token, _ in segments]
        if self.segments and self.token not in tokens:
            return False
        self.name, self.next, self.timer = head["name"], head["next"], head["timer"]
        missed = segments[tokens.index(self.token) + 1 if self.segments else 0 :]
        with without_collection():
            for each in missed:
                self._apply(Segment.decode(read_segment(store, each)))
        self.segments = segments
        if missed:
            self.held.fresh, self.due = [], None
            self.held.compact()
        return True

    def _apply(self, segment: Segment) -> None:
        """Take over what a segment says: first what is no more, then levels, then what is held under them."""
        for number, *key in zip(*segment.columns("born"), strict=True):
            if number not in self.rules:
                self._know(number, tuple(key))
        left = segment.ids("left")
        if len(left):
            self.held.pop(left)
        for each in left.tolist():
            self.rules[each >> TICKET_BITS].drop(each & TICKET)
        for (number,) in zip(*segment.columns("dead"), strict=True):
            if number in self.rules:
                self.forget(number)
        changed: list[tuple[Rule, int]] = []
        self._apply_state(segment)
        self._apply_sources(segment, changed)
        self._apply_ids(segment, changed)
        self._apply_held(segment)
        for rule, code in changed:  # rows that waited for what has come wait for what they still lack
            rule.woken(code)
        for number, label, me, dump in zip(*segment.columns("receivers"), strict=True):
            rule = self.rules[number]
            tickets = sorted(row.ticket for row in rule.rows_held() if row.label == label)
            rule.receiver(label, me).load(dump, tickets)

    def _apply_state(self, segment: Segment) -> None:
        for number, rows, position, last, kept, made, now, began, doubted in zip(
            *segment.columns("state"), strict=True
        ):
            rule = self.rules[number]
            rule.rows, rule.position, self.last[number] = rows, position, last
            rule.now, rule.began, rule.doubted = now, began, doubted
            if self.shared is None:
                rule.reading = agree(State(self.terms.by, *segment.made[made]), self.terms.reading())
                rule.dense = rule.reading.dense
            if kept >= 0:
                self.remembered[number] = kept

    def _apply_sources(self, segment: Segment, changed: list[tuple[Rule, int]]) -> None:
        for number, label, name, level, seen, quarantined, holes in zip(*segment.columns("sources"), strict=True):
            rule = self.rules[number]
            code = rule.code(label, name)
            if code == DONE and rule.cyclic:
                continue
            source = rule.source(code)
            rule.set_level(code, level)
            source.seen, source.quarantined = seen, quarantined
            rule.holes += len(holes) // 2 - len(source.holes or ())
            source.holes = [*zip(holes[::2], holes[1::2], strict=True)] or None
            changed.append((rule, code))

    def _apply_ids(self, segment: Segment, changed: list[tuple[Rule, int]]) -> None:
        for number, names in by_number(segment.columns("ids")):
            rule = self.rules[number]
            rule.known(None, names[0])
            sources = rule.orders[None]
            for code in {sources.get(name, DONE) for name in names} - {DONE}:
                rule.set_level(code, 1)
                changed.append((rule, code))
                rule.retire(code)
            sources.update(dict.fromkeys(names, DONE))
            if rule.recent is not None:
                rule.recent.extend(names)
                while len(rule.recent) > self.remembered.get(number, len(rule.recent)):
                    sources.pop(rule.recent.popleft(), None)
        for number, prints in by_number(segment.columns("gone")):
            self._apply_gone(self.rules[number], set(prints), changed)

    def _apply_gone(self, rule: Rule, prints: set[int], changed: list[tuple[Rule, int]]) -> None:
        """Take over fingerprints; a merged segment may have the fingerprint alone of an id that rows wait for."""
        rule.forgotten.update(prints)
        sources = rule.orders.get(None, {})
        for name, code in list(sources.items()):
            if code != DONE and not rule.level_of(code) and fingerprint(name) in prints:
                rule.set_level(code, 1)
                del sources[name]
                changed.append((rule, code))
                rule.retire(code)

    def _apply_held(self, segment: Segment) -> None:
        if "held" not in segment.tables:
            return
        ids, columns = segment.ids("held"), segment.columns("held")
        order = np.argsort(ids, kind="stable")
        for place in order.tolist():
            number, ticket, label, since, ahead, came, source, count, waits, *needs = (each[place] for each in columns)
            rule = self.rules[number]
            if waits is not None:
                rule.keep(HeldRow(ticket, label, -1, 0, since, ahead, came, [], [], tuple(waits)))
            else:
                about = ticket, label, source, count, since, ahead, came
                rule.keep(read_held_row(rule, about, list(zip(*needs, strict=True))))
        self.held.add(ids[order], fitted(segment.tables["rows"], self.schema).take(pa.array(order)))

    def explained(self) -> Iterator[tuple[Key, str | None, Row]]:
        """Yield what is held back: the key, the message if rows have one, and why it waits."""
        ids, rows = self.held.all()
        name = self.terms.columns.message
        found = [
            row
            for batch in rows
            for row in (batch.column(name).to_pylist() if name in batch.schema.names else [None] * len(batch))
        ]
        messages = dict(zip(ids.tolist(), found, strict=True))
        for number, rule in self.rules.items():
            for each in rule.pending() if rule.held else ():
                message = messages[number << TICKET_BITS | each.ticket]
                yield self.values[number], None if message is None else str(message), each._asdict()


def segment_name(segment: tuple[str, int]) -> str:
    """Return the name under which a segment is stored."""
    return f"{segment[0]}/{segment[1]}"


def read_segment(store: SegmentStore, segment: tuple[str, int]) -> bytes:
    """Return a segment that a head names."""
    data = store.get(segment_name(segment))
    if data is None:
        raise MisuseError(f"the checkpoint lacks segment {segment_name(segment)} of a shard: it is not complete")
    return data
