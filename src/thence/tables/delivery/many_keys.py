"""Many keys at once: their rules, and the rows they hold as Arrow batches.

*Invariant.* A row that was taken leaves once or is in `held`. A row is known by its key's number and its ticket there,
in one integer (`row_ids`). Rows are read and picked for all keys together, so a key costs microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
from thence.tables.delivery.columns import Columns, Key, KeyName
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
    """Of each key of a batch: its number, how many rows came earlier, where its new rows begin, how many leave."""

    numbers: Longs
    came: Longs
    starts: Longs
    """One more than there are keys: the last is where all end"""
    left: Longs


class Whole(NamedTuple):
    """Keys that have all of their rows in a batch; the mappings are by place, counted from the first of these keys."""

    places: range
    """Which of the keys of the batch they are"""
    refused: dict[int, str]
    """Why the rows of a key cannot be delivered"""
    known: Mapping[int, list[str]]
    """Ids that count as delivered before the first row of a key"""
    where: Callable[[int], KeyName]
    """Names a key in errors"""


class Coming:
    """The rows of a batch as they are read, and where their outcomes go."""

    def __init__(self, terms: DeliveryTerms, rows: pa.RecordBatch, moment: int) -> None:
        """Read rows; `moment` is processing time in milliseconds."""
        self.times, self.moment = times_in(rows, terms.columns), moment
        self.stamped = read_stamped(terms, rows) if terms.by == "stamp" else None
        self.coded = read_batch(terms, rows) if self.stamped is None else self.stamped.coded
        self.out = Outcomes(max(len(rows), 4), self.coded.lexicon)

    def settle(self, reading: Reading, start: int, stop: int) -> None:
        """Read the stamps of one key that were not read with the batch."""
        if self.stamped is not None:
            self.stamped.settle(reading, start, stop)


class ManyKeys:
    """The rules of many keys by number, and the rows they hold."""

    def __init__(self, terms: DeliveryTerms) -> None:
        """Start without any key."""
        self.terms, self.held, self.room = terms, HeldRows(), Room()
        self.rules: dict[int, Rule] = {}
        self.passing: Rule | None = None
        """The rule of keys that begin and end within a batch, one after the other"""
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

    def take(
        self,
        rows: pa.RecordBatch,
        numbers: Longs,
        starts: Longs,
        moment: int = 0,
        *,
        whole: Whole | None = None,
        ended: Collection[int] = (),
        carried: pa.RecordBatch | None = None,
    ) -> pa.RecordBatch | None:
        """Take rows, key after key by ascending number, in arrival order within each; return those that leave.

        The rows of the key `numbers[n]` are those from `starts[n]` up to `starts[n + 1]`. `whole`: keys that have all
        of their rows here; `ended`: other keys of which no more will come. What still waits of both leaves as blocked,
        and the key is dropped. `carried`: the columns of these rows that come out; all of them if not given. None if
        nothing leaves.
        """
        self.held.compact()
        going = Going(numbers, np.zeros(len(numbers), np.int64), starts, np.diff(starts))
        with without_collection():
            coming = Coming(self.terms, rows, moment)
            first, last = (0, 0) if whole is None else (whole.places.start, whole.places.stop)
            self._take_begun(coming, going, range(first), ended)
            if whole is not None and whole.places:
                self._take_whole(coming, starts[first : last + 1], whole)
            self._take_begun(coming, going, range(last, len(numbers)), ended)
            out = coming.out
            del coming
            return self._split(rows if carried is None else carried, going, out)

    def _take_begun(self, coming: Coming, going: Going, places: range, ended: Collection[int]) -> None:
        """Take the rows of keys that have a rule."""
        for place in places:
            number, start, stop = int(going.numbers[place]), int(going.starts[place]), int(going.starts[place + 1])
            rule, before = self.rules[number], len(coming.out)
            going.came[place], refused = rule.rows, self.refused.get(number)
            if refused is None:
                coming.settle(rule.reading, start, stop)
            rule.take(coming.coded, start, stop, coming.times, coming.out, coming.moment, refused)
            if number in ended:
                rule.finish(coming.out)
                self.forget(number)
            going.left[place] = len(coming.out) - before

    def _take_whole(self, coming: Coming, starts: Longs, whole: Whole) -> None:
        """Take keys from their first row to their last, by one rule, one after the other."""
        rule = self.passing = self.passing or Rule(self.reading(), self.terms.policy, "", self.room)

        def prepare(place: int) -> None:
            if coming.stamped is not None:
                rule.reading = self.reading()
                if place not in whole.refused:
                    coming.settle(rule.reading, int(starts[place]), int(starts[place + 1]))
            if place in whole.known:
                know(rule, None, whole.known[place])

        needed = prepare if coming.stamped is not None or whole.known else None
        rule.take_whole(coming.coded, starts, coming.times, coming.out, needed, whole.refused, whole.where)

    def _split(self, rows: pa.RecordBatch, going: Going, outcomes: Outcomes) -> pa.RecordBatch | None:
        """Pick the rows that leave, and hold the others."""
        if not len(outcomes):
            if len(rows):
                self._hold(rows, going, np.arange(len(rows)))
            return None
        out = leaving(outcomes)
        places, old, ascending = outcomes.places(going.came, going.starts, going.left, len(rows))
        if len(places) - len(old) < len(rows):
            here = np.ones(len(rows) + len(old), bool)
            here[places] = False
            self._hold(rows, going, np.flatnonzero(here[: len(rows)]))
        picked = rows
        if len(old):
            ids = row_ids(np.repeat(going.numbers, going.left)[old], out.tickets[old])
            self._note(ids)
            picked = pa.concat_batches([rows, self.held.pop(ids)])
        if len(places) != len(picked) or not ascending:
            picked = picked.take(pa.array(np.asarray(places)))
        return joined(picked, out.columns)

    def _note(self, ids: Longs) -> None:
        if self.let_go is not None:
            self.let_go.append(ids)

    def _hold(self, rows: pa.RecordBatch, going: Going, here: Longs) -> None:
        lengths = np.diff(going.starts)
        tickets = np.arange(len(rows)) + np.repeat(going.came + 1 - going.starts[:-1], lengths)
        ids = row_ids(np.repeat(going.numbers, lengths), tickets)
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
        found = BatchKeys(terms.columns, batch, key, begins)
        goes_on = last is not None and same_key(found[0]) == same_key(last)
        if last is not None and not goes_on:
            rest = keys.end(number)
            if rest is not None:
                yield rest
        first = number if goes_on else number + 1
        number, last = first + len(begins) - 1, None if following is None else found[-1]
        whole = range(int(goes_on), max(int(goes_on), len(begins) - (last is not None)))
        if last is not None and number not in keys.rules:
            keys.begin(number, last)
        bounds = np.append(begins, len(batch))
        known: dict[int, list[str]] = {}
        if KNOWN in batch.schema.names:
            batch, bounds, known = _without_known(terms, batch, bounds)
            for place in [place for place in known if place not in whole]:
                know(keys.rules[first + place], None, known.pop(place))
        rows = in_utc(batch.drop_columns(list(drop)) if drop else batch)
        out = keys.take(
            rows,
            np.arange(first, number + 1),
            bounds,
            whole=found.whole(whole, known),
            ended=() if number == first and last is not None else (first,),
            carried=None if carried is None else rows.select(list(carried)),
        )
        if out is not None:
            yield out


class BatchKeys:
    """The keys of a batch, whose values are looked at only where they matter."""

    def __init__(self, columns: Columns, batch: pa.RecordBatch, names: Sequence[str], begins: Longs) -> None:
        """Take the columns that say the key, and the place of the first row of each."""
        self._columns, self._values, self._begins = columns, [batch.column(name) for name in names], begins

    def __getitem__(self, place: int) -> Key:
        """Return a key by its place."""
        begin = int(self._begins[place])
        return tuple(values[begin].as_py() for values in self._values)

    def whole(self, places: range, known: Mapping[int, list[str]]) -> Whole:
        """Describe the keys of some places; `known`: ids to begin with, by place."""
        refused = {}
        for values in self._values:
            if values.null_count:
                for place in np.flatnonzero(~values.is_valid().to_numpy(zero_copy_only=False)[self._begins]).tolist():
                    why = self._columns.refuse(self[place])
                    if why is not None:
                        refused[place - places.start] = why
        known = {place - places.start: ids for place, ids in known.items()}
        return Whole(places, refused, known, lambda place: self._columns.where(self[places.start + place]))


def _within(starts: Longs, first: int, last: int) -> Longs:
    """Return where keys begin among the rows from one place to another, counted from the first of them."""
    inside = starts[np.searchsorted(starts, first, "right") : np.searchsorted(starts, last)]
    return np.concatenate([[first], inside])[: last - first] - first


def _without_known(
    terms: DeliveryTerms, batch: pa.RecordBatch, bounds: Longs
) -> tuple[pa.RecordBatch, Longs, dict[int, list[str]]]:
    """Return the rows but those of known ids, where keys begin among them, and the known ids by place of the key."""
    known = batch.column(KNOWN).to_numpy() == 0
    places = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    ids = known_ids(terms, batch.filter(pa.array(known)), places[known])
    before = np.concatenate([[0], np.cumsum(~known)])
    return batch.filter(pa.array(~known)).drop_columns([KNOWN]), before[bounds], ids


def known_ids(terms: DeliveryTerms, rows: pa.RecordBatch, numbers: Longs) -> dict[int, list[str]]:
    """Return the ids of rows, by the numbers of their keys."""
    found: dict[int, list[str]] = {}
    texts = id_texts(rows.column(terms.columns.message)).to_pylist()
    for number, text in zip(numbers.tolist(), texts, strict=True):
        if text:
            found.setdefault(number, []).append(text)
    return found


def same_key(key: Key) -> Key:
    """Return a key that compares equal to the same key; NaN never equals itself."""
    for value in key:
        if value != value:
            return tuple("NaN" if each != each else each for each in key)
    return key
