"""One key's delivery by arrays: the fast stepper, held equal to `plain.Delivery` row for row.

Law. `step` gives the outcomes that the plain stepper gives on the same rows, and `state` the state that it would leave
behind. Rows that do not fit into arrays are not taken: `step` returns None and nothing has changed.
"""

from __future__ import annotations

import math
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thence.delivery.array_reading import ArrayReading, Readings
from thence.delivery.arrow_rows import Leaving, Rows
from thence.delivery.arrow_texts import from_texts, to_texts
from thence.delivery.event_time import doubt
from thence.delivery.outcome import SHOWN, Kind, listed
from thence.delivery.packing import Texts
from thence.delivery.plain_state import resumed
from thence.delivery.policy import Policy
from thence.delivery.reading import Reading
from thence.delivery.rule import fingerprint
from thence.delivery.state import HeldRows, Order, Sources, State, agree, told
from thence.errors import TraceError
from thence.kernels.arrays import Bytes, Doubles, Flags, Longs, places_in
from thence.kernels.arrival_rows import FOREVER, NONE, Arrived, Holes, Known, Left, Limits, Status, Why
from thence.kernels.event_times import clocked
from thence.kernels.receive import run
from thence.kernels.stamps import LARGE
from thence.protocols.receiver import ClockMember

MANY = 1 << 16
"""Ids beyond those to remember that may be kept before they are forgotten, in memory."""

_KINDS = {
    Status.HELD: Kind.BLOCKED,
    Status.DELIVERED: Kind.DELIVERED,
    Status.RELEASED: Kind.RELEASED,
    Status.LATE: Kind.LATE,
    Status.HELD_ALREADY: Kind.DUPLICATE,
    Status.DELIVERED_BEFORE: Kind.DUPLICATE,
    Status.QUARANTINED_BEFORE: Kind.DUPLICATE,
    Status.UNUSABLE: Kind.QUARANTINED,
    Status.CYCLE: Kind.QUARANTINED,
}
_REASONS = {
    Status.LATE: "it came after it was given up",
    Status.HELD_ALREADY: "it is held already",
    Status.DELIVERED_BEFORE: "it was delivered before",
    Status.QUARANTINED_BEFORE: "it was quarantined before",
}
_OUTCOMES = pa.array([_KINDS[status].value for status in Status])
_WORDS = pa.array([_REASONS.get(status) for status in Status], pa.string())


class ArrayStepper:
    """Array state of one key that has one causal order and the shared rule."""

    def __init__(self, reading: Reading, policy: Policy, where: str = "") -> None:
        """Start empty; `where` names the key in errors."""
        self.reading, self.policy, self.where = reading, policy, where
        self.reader = ArrayReading(reading)
        self.rows = self.position = 0
        self.now = self.began = self.doubted = math.nan
        self.known = Known(_ints(), _ints(), np.zeros(0, np.bool_), _ints())
        self.hole_source = _ints()
        self.hole_first = _ints()
        self.hole_last = _ints()
        self.sequence: list[Longs] = []
        """for explicit causes: what was delivered, in order"""
        self.forgotten: set[int] = set()
        self.ticket, self.source, self.number, self.length = _ints(), _ints(), _ints(), _ints()
        self.since, self.ahead, self.came = np.zeros(0), np.zeros(0), _ints()
        self.need_source, self.need_number, self.need_waited = _ints(), _ints(), np.zeros(0, np.bool_)
        self._grow()

    @property
    def tickets(self) -> Longs:
        """The tickets of the held rows."""
        return self.ticket

    # -- rows ------------------------------------------------------------------------------------------------------

    def step(self, rows: Rows) -> Leaving | None:
        """Take new rows; return those that leave, or None if they do not fit into arrays."""
        known_before = self.reader.sources
        read = self.reader.read(rows)
        if read is None:
            return None
        self._grow()
        self._recall(known_before)
        return self._run(rows, read)

    def _grow(self) -> None:
        """Make room for sources that are new, and for as many again: a key of many rows is not copied at each batch."""
        level, seen, quarantined, hole = self.known
        if self.reader.sources <= len(level) > 0:
            return
        more = max(self.reader.sources, 1)
        self.known = Known(
            np.concatenate([level, np.zeros(more, np.int64)]), np.concatenate([seen, np.zeros(more, np.int64)]),
            np.concatenate([quarantined, np.zeros(more, np.bool_)]),
            np.concatenate([hole, np.full(more, NONE, np.int64)]),
        )  # fmt: skip

    def _recall(self, start: int) -> None:
        """Find among new names those that were delivered and forgotten."""
        if not self.forgotten or self.reader.sources == start:
            return
        names = self.reader.names.texts().slice(start).to_pylist()
        back = [start + place for place, name in enumerate(names) if fingerprint(name) in self.forgotten]
        self.known.level[back] = 1

    def _run(self, rows: Rows, read: Readings) -> Leaving:
        held, count = len(self.ticket), rows.count
        jump = math.inf if self.policy.max_jump is None else float(self.policy.max_jump)
        now, ahead, *time = clocked(rows.times, self.now, self.began, self.doubted, jump)
        unusable = np.zeros(held + count, np.bool_)
        unusable[[held + row for row in read.unusable]] = True
        since = np.concatenate([self.since, now])
        taken = Arrived(
            np.concatenate([self.source, read.source]),
            np.concatenate([self.number, read.number]),
            np.concatenate([np.cumsum(self.length) - self.length, read.start + len(self.need_source)]),
            np.concatenate([self.length, read.length]),
            np.concatenate([self.need_source, read.need_source]),
            np.concatenate([self.need_number, read.need_number]),
            np.concatenate([self.need_waited, np.zeros(len(read.need_source), np.bool_)]),
            np.concatenate([self.ticket, self.rows + 1 + np.arange(count, dtype=np.int64)]),
            np.where(np.isnan(since), time[1], since),
            unusable,
        )
        here = self._concerned(taken)
        known, local = self._local(taken, here)
        holes = self._holes(len(taken.need_source) + 2 * (held + count), known, here)
        times = np.concatenate([np.full(held, np.nan), now])
        status, left = run(held, local, times, known, holes, self._limits())
        taken, left = self._global(taken, local, left, known, here)
        done = held + count if left.stopped < 0 else left.stopped + 1
        self.ahead = np.concatenate([self.ahead, ahead])
        self.came = np.concatenate([self.came, np.full(count, rows.moment, np.int64)])
        out = self._leaving(taken, left, read, times, held)
        self.rows += done - held
        self.now, self.began, self.doubted = time
        self._keep(taken, status[:done], since)
        self._keep_holes(holes, known, here)
        if left.stopped >= 0:
            resumed(self.state([None] * len(self.ticket)), self.reading, self.policy, self.where).enforce([])
            raise AssertionError("a limit was met by arrays that the plain stepper does not meet")
        self._forget()
        return out

    def _limits(self) -> Limits:
        policy = self.policy
        return Limits(
            policy.after_rows or FOREVER,
            math.inf if policy.after_seconds is None else float(policy.after_seconds),
            policy.held_limit or FOREVER,
            policy.name == "fail",
            policy.when_full == "fail",
            self.reading.dense and self.reading.by != "depends_on",
            self.reading.by == "depends_on",
        )

    def _concerned(self, taken: Arrived) -> Longs | None:
        """Return the sources that a step is about, if they are few among all: arrays of all would cost too much."""
        if len(self.known.level) <= 2 * (len(taken.source) + len(taken.need_source) + len(self.hole_source)):
            return None
        found: Longs = np.unique(np.concatenate([taken.source[taken.source >= 0], taken.need_source, self.hole_source]))
        return found

    def _local(self, taken: Arrived, here: Longs | None) -> tuple[Known, Arrived]:
        """Number the sources of a step anew."""
        if here is None:
            self.known.hole[:] = NONE
            return self.known, taken
        level, seen, quarantined, _ = self.known
        known = Known(level[here], seen[here], quarantined[here], np.full(len(here), NONE, np.int64))
        source = np.where(taken.source < 0, NONE, np.searchsorted(here, taken.source))
        return known, taken._replace(source=source, need_source=np.searchsorted(here, taken.need_source))

    def _global(
        self, taken: Arrived, local: Arrived, left: Left, known: Known, here: Longs | None
    ) -> tuple[Arrived, Left]:
        """Give the sources of a step their own numbers again."""
        if here is None:
            return taken, left
        self.known.level[here], self.known.seen[here] = known.level, known.seen
        self.known.quarantined[here] = known.quarantined
        return (
            taken._replace(need_source=here[local.need_source]),
            left._replace(missing_source=here[left.missing_source]),
        )

    def _holes(self, more: int, known: Known, here: Longs | None) -> Holes:
        """Link the holes of each source, the last one first."""
        used = len(self.hole_source)
        following = np.full(used + more, NONE, np.int64)
        sources = self.hole_source if here is None else np.searchsorted(here, self.hole_source)
        for hole, source in enumerate(sources.tolist()):
            following[hole] = known.hole[source]
            known.hole[source] = hole
        room = np.zeros(more, np.int64)
        first, last = np.concatenate([self.hole_first, room]), np.concatenate([self.hole_last, room])
        return Holes(first, last, following, np.array([used], np.int64))

    def _keep_holes(self, holes: Holes, known: Known, here: Longs | None) -> None:
        """Take the holes out of their links."""
        if not holes.used[0]:
            return
        found: list[tuple[int, int, int]] = []
        for source in np.flatnonzero(known.hole != NONE).tolist():
            hole, linked = int(known.hole[source]), []
            while hole != NONE:
                own = source if here is None else int(here[source])
                linked.append((own, int(holes.first[hole]), int(holes.last[hole])))
                hole = int(holes.following[hole])
            found += reversed(linked)
        columns = np.array(found, np.int64).reshape(-1, 3)
        self.hole_source, self.hole_first, self.hole_last = (columns[:, place].copy() for place in range(3))

    def _keep(self, taken: Arrived, status: Bytes, since: Doubles) -> None:
        """Keep what is still held."""
        keep = np.flatnonzero(status == Status.HELD)
        flat = places_in(taken.start[keep], taken.length[keep])
        self.ticket, self.source, self.number = taken.ticket[keep], taken.source[keep], taken.number[keep]
        self.length, self.since, self.ahead, self.came = (
            taken.length[keep], since[keep], self.ahead[keep], self.came[keep]
        )  # fmt: skip
        self.need_source, self.need_number = taken.need_source[flat], taken.need_number[flat]
        self.need_waited = taken.need_waited[flat]

    # -- outcomes --------------------------------------------------------------------------------------------------

    def _leaving(self, taken: Arrived, left: Left, read: Readings, times: Doubles, held: int) -> Leaving:
        status = left.status
        placed = (status == Status.DELIVERED) | (status == Status.RELEASED) | (status == Status.LATE)
        position = self.position + np.cumsum(placed)
        self.position += int(placed.sum())
        if self.reading.by == "depends_on" and placed.any():
            self.sequence.append(taken.source[left.row[placed]])
        explained = placed | (status == Status.CYCLE)
        since = np.where(np.isnan(times[left.at]), np.nan, times[left.at] - taken.since[left.row])
        tickets = taken.ticket[left.row]
        return Leaving(
            tickets,
            [
                _OUTCOMES.take(pa.array(status)),
                pa.array(position, mask=~placed),
                self._waited(taken, left, explained),
                pa.array(taken.ticket[left.at] - tickets),
                pa.array(since, mask=~explained | np.isnan(since)),
                self._reasons(taken, left, read, held),
                self._missing(left),
                pa.nulls(len(status), pa.string()),
            ],
        )

    def _waited(self, taken: Arrived, left: Left, explained: Flags) -> pa.ListArray:
        lengths = np.where(explained, taken.length[left.row], 0)
        flat = places_in(taken.start[left.row], lengths)
        keep = taken.need_waited[flat]
        kept = np.concatenate([[0], np.cumsum(keep)])[np.concatenate([[0], np.cumsum(lengths)])]
        flat = flat[keep]
        names = self.reader.cause_names(taken.need_source[flat], taken.need_number[flat])
        return pa.ListArray.from_arrays(pa.array(kept.astype(np.int32)), names)

    def _missing(self, left: Left) -> pa.ListArray:
        ends = np.concatenate([[0], left.missing_end]).astype(np.int32)
        return pa.ListArray.from_arrays(
            pa.array(ends), self.reader.cause_names(left.missing_source, left.missing_number)
        )

    def _reasons(self, taken: Arrived, left: Left, read: Readings, held: int) -> pa.Array:
        words = _WORDS.take(pa.array(left.status))
        if bool((left.status == Status.RELEASED).any()):
            words = pc.if_else(pa.array(left.status == Status.RELEASED), self._released(left), words)
        special = np.flatnonzero((left.status == Status.UNUSABLE) | (left.status == Status.CYCLE)).tolist()
        ahead = self.ahead[left.row]
        doubted = np.flatnonzero(~np.isnan(ahead)).tolist()
        if not special and not doubted:
            return words
        texts, cycles = words.to_pylist(), self._cycles(taken, left)
        for place in special:
            unusable = left.status[place] == Status.UNUSABLE
            texts[place] = read.unusable[int(left.row[place]) - held] if unusable else cycles[int(left.at[place])]
        for place in doubted:
            words = doubt(float(ahead[place]), float(self.policy.max_jump or 0))
            texts[place] = words if texts[place] is None else f"{texts[place]}; {words}"
        return pa.array(texts, pa.string())

    def _released(self, left: Left) -> pa.Array:
        """Say what rows were released without, and why."""
        missing = self._missing(left)
        shown = pc.binary_join(pc.list_slice(missing, 0, SHOWN), ", ")
        more = left.missing_total - np.minimum(pc.list_value_length(missing).to_numpy(), SHOWN)
        policy = self.policy
        reasons = {
            Why.FREE: "",
            Why.ROWS: f", {policy.after_so_many_rows()}",
            Why.SECONDS: "" if policy.after_seconds is None else f", {policy.after_so_long()}",
            Why.FULL: f", {policy.too_many()}",
        }
        why = pa.array([reasons[each] for each in Why]).take(pa.array(left.why))
        beyond = pc.binary_join_element_wise(" and ", pa.array(more).cast(pa.string()), " more", "")
        beyond = pc.if_else(pa.array(more > 0), beyond, "")
        return pc.binary_join_element_wise("released without ", shown, beyond, why, "")

    def _cycles(self, taken: Arrived, left: Left) -> dict[int, str]:
        """Say which rows are on each cycle, by the row that closed it; they left one after the other."""
        rows = left.row[left.status == Status.CYCLE]
        closed, first, count = np.unique(left.at[left.status == Status.CYCLE], return_index=True, return_counts=True)
        shown = np.minimum(count, SHOWN)
        members = rows[places_in(first, shown)]
        names = iter(self.reader.cause_names(taken.source[members], taken.number[members]).to_pylist())
        cycles = zip(closed.tolist(), shown.tolist(), count.tolist(), strict=True)
        return {at: f"on a cycle of causes: {listed(list(islice(names, few)), many)}" for at, few, many in cycles}

    # -- memory ----------------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        """Keep no more ids than the policy says, give or take."""
        remember, limit = self.policy.remember, self.policy.filter_limit
        if remember is None:
            return
        beyond = sum(map(len, self.sequence)) - remember
        if limit is not None and len(self.forgotten) + max(beyond, 0) > limit:
            raise TraceError(f"{self.where}{self.policy.too_many_forgotten()}")
        if beyond > remember + MANY:
            self._load(self.state([None] * len(self.ticket)))

    # -- the state -------------------------------------------------------------------------------------------------

    def state(self, messages: list[str | None]) -> State:
        """Return the state; `messages` are the ids of the held rows."""
        protocol, roster = told(self.reading)
        state = State(self.reading.by, protocol, roster if self.reading.by == "stamp" else None)
        state.rows, state.position = self.rows, self.position
        state.now, state.began, state.doubted = (_known(each) for each in (self.now, self.began, self.doubted))
        state.orders = [self._order()] if self.rows else []
        state.held = HeldRows(
            self.ticket, np.zeros(len(self.ticket), np.int64), self.since, self.ahead, self.came,
            np.array([message is not None for message in messages], np.int64),
            Texts.of([message or "" for message in messages]), self._sources(self.source), self.number, self.length,
            self._sources(self.need_source), self.need_number, self.need_waited.astype(np.int64),
        )  # fmt: skip
        return state

    def _order(self) -> Order:
        known, by = self.known, self.reading.by
        forgotten = set(self.forgotten)
        if by == "depends_on":
            came = np.concatenate([_ints(), *self.sequence])
            if self.policy.remember is not None and len(came) > self.policy.remember:
                cut = len(came) - self.policy.remember
                forgotten |= {fingerprint(name) for name in self.reader.cause_names(came[:cut], came[:cut]).to_pylist()}
                came = came[cut:]
        else:
            came = np.flatnonzero(known.level)
        seen = np.flatnonzero(known.seen) if by == "clock" else _ints()
        numbers = np.ones(len(came), np.int64) if by == "depends_on" else known.level[came]
        return Order(
            None, self._sources(came), numbers, self._sources(self.hole_source), self.hole_first, self.hole_last,
            self._sources(seen), known.seen[seen], self._sources(np.flatnonzero(known.quarantined)),
            np.array(sorted(forgotten), np.int64),
        )  # fmt: skip

    def _sources(self, codes: Longs) -> Longs | Texts:
        if self.reading.by == "stamp":
            return codes
        return to_texts(self.reader.names.texts().take(pa.array(codes)))

    @classmethod
    def resume(cls, state: State, reading: Reading, policy: Policy, where: str = "") -> ArrayStepper | None:
        """Return the stepper that goes on from a state; None where only the plain one can."""
        fresh = agree(state, reading)
        labels = [order.label for order in state.orders]
        if labels not in ([None], []) or any(order.receiver for order in state.orders):
            return None
        if fresh.entry is not None and not issubclass(fresh.entry.protocol, ClockMember):
            return None
        if state.roster is not None and state.roster != list(reading.rosters[0].names):
            return None
        numbers = [state.held.number, state.held.need_number, *(order.delivered_number for order in state.orders)]
        if any(len(each) and max(each) >= LARGE for each in numbers):
            return None
        stepper = cls(fresh, policy, where)
        stepper._load(state)
        return stepper

    def _load(self, state: State) -> None:
        reading = self.reading
        self.reader = ArrayReading(reading)
        order = state.orders[0] if state.orders else Order()
        held = state.held
        self.rows, self.position = state.rows, state.position
        self.now, self.began, self.doubted = (_nan(each) for each in (state.now, state.began, state.doubted))
        delivered, seen = self._codes(order.delivered_source), self._codes(order.seen_source)
        self.hole_source, quarantined = self._codes(order.hole_source), self._codes(order.quarantined)
        self.source, self.need_source = self._codes(held.source), self._codes(held.need_source)
        self.known = Known(_ints(), _ints(), np.zeros(0, np.bool_), _ints())
        self._grow()
        self.known.level[delivered] = _array(order.delivered_number)
        self.known.seen[seen] = _array(order.seen_number)
        self.known.quarantined[quarantined] = True
        self.hole_first, self.hole_last = _array(order.hole_first), _array(order.hole_last)
        np.maximum.at(self.known.level, self.hole_source, self.hole_last)
        self.sequence = [delivered] if reading.by == "depends_on" else []
        self.forgotten = set(np.asarray(order.forgotten).tolist())
        self._recall(0)
        self.ticket, self.number, self.length = _array(held.ticket), _array(held.number), _array(held.needs)
        self.since, self.ahead = np.array(held.since, np.float64), np.array(held.ahead, np.float64)
        self.came, self.need_number = _array(held.came), _array(held.need_number)
        self.need_waited = _array(held.need_waited).astype(np.bool_)

    def _codes(self, sources: Sources) -> Longs:
        if self.reading.by == "stamp":
            return _array(sources)
        return self.reader.names.codes(from_texts(sources))


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number


def _nan(number: float | None) -> float:
    return math.nan if number is None else number


def _ints() -> Longs:
    return np.zeros(0, np.int64)


def _array(values: Sources) -> Longs:
    return np.array(values, np.int64)
