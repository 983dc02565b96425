"""Many keys at once: their rules, and the rows they hold as Arrow batches.

*Invariant.* A row that was taken leaves once or is in `held`. A row is known by its key's number and its ticket there,
in one integer (`row_ids`). Rows are read and picked for all keys together, so a key costs microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thence.tables.contract.numpy_types import Longs
from thence.tables.delivery.arrow_rows import (
    cut,
    id_texts,
    in_utc,
    joined,
    leaving,
    read_batch,
    read_stamped,
    times_in,
)
from thence.tables.delivery.columns import Key
from thence.tables.delivery.delivery_rule_cy import Rule
from thence.tables.delivery.delivery_terms import DeliveryTerms
from thence.tables.delivery.outcome_cy import Outcomes
from thence.tables.delivery.partition_by_key import runs
from thence.tables.delivery.reading import Reading
from thence.tables.delivery.room_cy import Room
from thence.tables.delivery.rule_state import know
from thence.tables.delivery.without_collection import without_collection

TICKET_BITS = 40
KNOWN = "__thence_known"
"""A column of tables that begin, in each key, with ids that count as delivered: 0 in these, 1 in the rows."""
MOST_CHUNKS = 32


def row_ids(number: int | Longs, tickets: Longs) -> Longs:
    """Return rows by the number of their key and their tickets."""
    found: Longs = (np.asarray(number, np.int64) << TICKET_BITS) | tickets
    return found


class Span(NamedTuple):
    """The rows of one key in a batch."""

    number: int
    start: int
    stop: int


class Chunk:
    """Rows that were held together; `gone` marks those that have left."""

    def __init__(self, ids: Longs, rows: pa.RecordBatch) -> None:
        """Hold rows; their ids ascend."""
        self.ids, self.rows = ids, rows
        self.gone: NDArray[np.bool_] = np.zeros(len(ids), bool)

    def alive(self) -> Chunk:
        """Return the rows that are still held."""
        if not self.gone.any():
            return self
        here = np.flatnonzero(~self.gone)
        return Chunk(self.ids[here], self.rows.take(pa.array(here)))


class HeldRows:
    """Held rows of many keys, as chunks."""

    def __init__(self) -> None:
        """Start without held rows."""
        self.chunks: list[Chunk] = []
        self.fresh: list[Chunk] = []
        """Where changes are recorded: those of `chunks` that were added since the last write"""
        self.recorded = False
        self.count = self.compacted = 0

    def add(self, ids: Longs, rows: pa.RecordBatch) -> None:
        """Hold rows; their ids ascend."""
        if not len(ids):
            return
        self.chunks.append(Chunk(ids, rows))
        if self.recorded:
            self.fresh.append(self.chunks[-1])
        self.count += len(ids)

    def compact(self) -> None:
        """Join small chunks, if many came: the rows of a large one are copied again when as many came after it."""
        if self.fresh or len(self.chunks) - self.compacted <= MOST_CHUNKS:
            return
        alive = [chunk for chunk in (each.alive() for each in self.chunks) if len(chunk.ids)]
        small: list[Chunk] = []
        while alive and (not small or len(alive[-1].ids) <= sum(len(chunk.ids) for chunk in small)):
            small.append(alive.pop())
        if small:
            small.reverse()
            ids = np.concatenate([chunk.ids for chunk in small])
            rows = pa.concat_batches([chunk.rows for chunk in small])
            if not (ids[1:] > ids[:-1]).all():
                order = np.argsort(ids, kind="stable")
                ids, rows = ids[order], rows.take(pa.array(order))
            alive.append(Chunk(ids, rows))
        self.chunks, self.compacted = alive, len(alive)

    def pop(self, ids: Longs) -> pa.RecordBatch:
        """Release rows; return them in the order of `ids`."""
        found, places, at = [], np.full(len(ids), -1, np.int64), 0
        least, most = ids.min(), ids.max()
        for chunk in self.chunks:
            if chunk.ids[0] > most or chunk.ids[-1] < least:
                continue
            place = np.minimum(np.searchsorted(chunk.ids, ids), len(chunk.ids) - 1)
            hit = np.flatnonzero((chunk.ids[place] == ids) & ~chunk.gone[place])
            if len(hit):
                chunk.gone[place[hit]] = True
                found.append(chunk.rows.take(pa.array(place[hit])))
                places[hit] = at + np.arange(len(hit))
                at += len(hit)
        assert at == len(ids), "a row leaves that is not held"
        self.count -= at
        rows = found[0] if len(found) == 1 else pa.concat_batches(found)
        ordered = bool((places[1:] > places[:-1]).all())
        return rows if ordered else rows.take(pa.array(places))

    def all(self) -> tuple[Longs, list[pa.RecordBatch]]:
        """Return the ids and the rows of all that is held, chunk by chunk."""
        alive = [chunk.alive() for chunk in self.chunks]
        ids = np.concatenate([np.zeros(0, np.int64), *(chunk.ids for chunk in alive)])
        return ids, [chunk.rows for chunk in alive if len(chunk.ids)]


class Going(NamedTuple):
    """The rows that leave a key: their number, the number of earlier rows, and the place of its new rows."""

    number: int
    came: int
    start: int
    left: int


class ManyKeys:
    """The rules of many keys by number, and the rows they hold."""

    def __init__(self, terms: DeliveryTerms) -> None:
        """Start without any key."""
        self.terms, self.held, self.room = terms, HeldRows(), Room()
        self.rules: dict[int, Rule] = {}
        self.refused: dict[int, str] = {}
        """Keys whose rows cannot be delivered, and why"""
        self.shared = None if terms.by == "stamp" else terms.reading()
        """How rows are read, where no key has a protocol of its own"""
        self.let_go: list[Longs] | None = None
        """Where changes are recorded: ids of rows that were held before, and left"""

    def reading(self) -> Reading:
        """Return the reading of a new key."""
        return self.terms.reading() if self.shared is None else self.shared

    def begin(self, number: int, key: Key) -> Rule:
        """Make the rule of a key that is new, and return it."""
        where = self.terms.columns.where(key)
        rule = self.rules[number] = Rule(self.reading(), self.terms.policy, where, self.room)
        refused = self.terms.columns.refuse(key)
        if refused is not None:
            self.refused[number] = refused
        return rule

    def forget(self, number: int) -> None:
        """Drop a key that holds nothing."""
        del self.rules[number]
        self.refused.pop(number, None)

    # -- rows ------------------------------------------------------------------------------------------------------

    def know(self, rows: pa.RecordBatch, numbers: Longs) -> None:
        """Count the ids of rows as delivered, though they get no position; `numbers` are those of their keys."""
        found: dict[int, list[str]] = {}
        for number, text in zip(
            numbers.tolist(), id_texts(rows.column(self.terms.columns.message)).to_pylist(), strict=True
        ):
            if text:
                found.setdefault(number, []).append(text)
        for number, ids in found.items():
            rule = self.rules[number]
            know(rule, None, ids)
            if rule.fresh is not None:
                rule.fresh += ids

    def take(
        self,
        rows: pa.RecordBatch,
        spans: Sequence[Span],
        moment: int = 0,
        ended: Iterable[int] = (),
        carried: pa.RecordBatch | None = None,
    ) -> pa.RecordBatch | None:
        """Take rows, key after key by ascending number, in arrival order within each; return those that leave.

        `ended`: keys of which no more will come; what still waits leaves as blocked, and the key is dropped. `carried`:
        the columns of these rows that come out; all of them if not given. None if nothing leaves.
        """
        going: list[Going] = []
        last = frozenset(ended)
        self.held.compact()
        with without_collection():
            times = times_in(rows, self.terms.columns)
            stamped = read_stamped(self.terms, rows) if self.terms.by == "stamp" else None
            coded = read_batch(self.terms, rows) if stamped is None else stamped.coded
            out = Outcomes(max(len(rows), 4), coded.lexicon)
            for number, start, stop in spans:
                rule, before = self.rules[number], len(out)
                came, refused = rule.rows, self.refused.get(number)
                if stamped is not None and refused is None:
                    stamped.settle(rule.reading, start, stop)
                rule.take(coded, start, stop, times, out, moment, refused)
                if number in last:
                    rule.finish(out)
                    self.forget(number)
                going.append(Going(number, came, start, len(out) - before))
            del coded, stamped
            return self._split(rows if carried is None else carried, spans, going, out)

    def _split(
        self, rows: pa.RecordBatch, spans: Sequence[Span], going: list[Going], outcomes: Outcomes
    ) -> pa.RecordBatch | None:
        """Pick the rows that leave, and hold the others."""
        if not len(outcomes):
            if len(rows):
                self._hold(rows, spans, going, np.arange(len(rows)))
            return None
        out = leaving(outcomes)
        places, old, ascending = outcomes.places(going, len(rows))
        if len(places) - len(old) < len(rows):
            here = np.ones(len(rows) + len(old), bool)
            here[places] = False
            self._hold(rows, spans, going, np.flatnonzero(here[: len(rows)]))
        picked = rows
        if len(old):
            numbers = np.repeat([each.number for each in going], [each.left for each in going])
            ids = row_ids(numbers[old], out.tickets[old])
            self._note(ids)
            picked = pa.concat_batches([rows, self.held.pop(ids)])
        if len(places) != len(picked) or not ascending:
            picked = picked.take(pa.array(np.asarray(places)))
        return joined(picked, out.columns)

    def _note(self, ids: Longs) -> None:
        if self.let_go is not None:
            self.let_go.append(ids)

    def _hold(self, rows: pa.RecordBatch, spans: Sequence[Span], going: list[Going], here: Longs) -> None:
        lengths = [stop - start for _, start, stop in spans]
        numbers = np.repeat(np.array([span.number for span in spans], np.int64), lengths)
        tickets = np.arange(len(rows)) + np.repeat([each.came + 1 - each.start for each in going], lengths)
        ids = row_ids(numbers, tickets)
        self.held.add(ids[here], rows if len(here) == len(rows) else rows.take(pa.array(here)))

    # -- the end, and rows released otherwise ----------------------------------------------------------------------

    def end(self, number: int) -> pa.RecordBatch | None:
        """Return the rows that a key still holds as blocked, and drop the key; None if it holds nothing."""
        out = Outcomes()
        rule = self.rules[number]
        rule.finish(out)
        self.forget(number)
        return self._release(number, out)

    def flush(self, number: int, why: str, came_by: int | None = None) -> pa.RecordBatch | None:
        """Release the held rows of a key, or those that came by a processing time; None if there are no such rows."""
        out = Outcomes()
        self.rules[number].flush(why, came_by, out)
        return self._release(number, out)

    def give_up(self, number: int, cause: str, why: str) -> pa.RecordBatch | None:
        """Give up a cause by name; None if nothing goes."""
        out = Outcomes()
        self.rules[number].give_up(cause, why, out)
        return self._release(number, out)

    def _release(self, number: int, outcomes: Outcomes) -> pa.RecordBatch | None:
        if not len(outcomes):
            return None
        out = leaving(outcomes)
        ids = row_ids(number, out.tickets)
        self._note(ids)
        return joined(self.held.pop(ids), out.columns)


def delivered(
    batches: Iterable[pa.RecordBatch],
    terms: DeliveryTerms,
    key: Sequence[str],
    drop: Sequence[str] = (),
    carried: Sequence[str] | None = None,
    starts: Longs | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch that leave, key after key, given rows sorted by key and arrival.

    `key`: the columns that say it; `drop`: columns that are not the caller's; `carried`: the columns that come out, all
    others if not given; `starts`: where each key begins among all rows, found by their values if not given. A key may
    go on in the next batch: memory follows two batches and what their keys hold.
    """
    keys, number, taken = ManyKeys(terms), -1, 0
    last: Key | None = None
    parts = (part for batch in batches for part in cut(batch, terms.columns) if len(part))
    for batch, following in pairwise(chain(parts, [None])):
        assert batch is not None
        begins = runs(batch, key) if starts is None else _within(starts, taken, taken + len(batch))
        taken += len(batch)
        named = batch.select(list(key))
        named = named if len(begins) == len(batch) else named.take(pa.array(begins))
        values = [column.to_pylist() for column in named.columns]
        found: list[Key] = list(zip(*values, strict=True)) if key else [()]
        if last is not None and same_key(found[0]) != same_key(last):
            rest = keys.end(number)
            if rest is not None:
                yield rest
            last = None
        first = number if last is not None else number + 1
        with without_collection():
            for place, each in enumerate(found):
                if place or last is None:
                    number += 1
                    keys.begin(number, each)
            last = found[-1]
            bounds = [*begins.tolist(), len(batch)]
            if KNOWN in batch.schema.names:
                batch, bounds = _without_known(keys, batch, first, bounds)
            spans = [Span(first + n, *span) for n, span in enumerate(pairwise(bounds))]
            rows = in_utc(batch.drop_columns(list(drop)) if drop else batch)
            only = None if carried is None else rows.select(list(carried))
            out = keys.take(rows, spans, ended=range(first, number + (following is None)), carried=only)
        if out is not None:
            yield out


def _within(starts: Longs, first: int, last: int) -> Longs:
    """Return where keys begin among the rows from one place to another, counted from the first of them."""
    inside = starts[np.searchsorted(starts, first, "right") : np.searchsorted(starts, last)]
    return np.concatenate([[first], inside])[: last - first] - first


def _without_known(
    keys: ManyKeys, batch: pa.RecordBatch, first: int, bounds: list[int]
) -> tuple[pa.RecordBatch, list[int]]:
    """Count known ids as delivered; return the other rows, and where each key begins among them."""
    known = batch.column(KNOWN).to_numpy() == 0
    numbers = first + np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    keys.know(batch.filter(pa.array(known)), numbers[known])
    before = np.concatenate([[0], np.cumsum(~known)])
    return batch.filter(pa.array(~known)).drop_columns([KNOWN]), before[bounds].tolist()


def same_key(key: Key) -> Key:
    """Return a key that compares equal to the same key; NaN never equals itself."""
    return tuple("NaN" if value != value else value for value in key)
