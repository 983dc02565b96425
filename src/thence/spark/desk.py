"""One key's rows as Arrow, in and out: what a batch job and a stream both run.

Law. `take` returns the rows that leave, each once, with the output columns; the rows that stay are kept as an Arrow
table of their own, so that memory follows held rows, not rows. The outcomes are the engine's; where an array twin
exists and a batch is large enough to be worth it, the twin gives the same ones faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thence.delivery.columns import Columns
from thence.delivery.engine import Engine
from thence.delivery.outcome import Outcome
from thence.delivery.pack import unpack
from thence.delivery.policy import Policy
from thence.delivery.reading import By, Reading
from thence.delivery.state import dump, restore
from thence.model.roster import Roster

FAST_FROM = 256
"""Rows from which a batch goes through the array twin."""

OUTPUT: tuple[tuple[str, Any], ...] = (
    ("outcome", pa.string()),
    ("position", pa.int64()),
    ("waited_for", pa.list_(pa.string())),
    ("held_for", pa.int64()),
    ("held_seconds", pa.float64()),
    ("reason", pa.string()),
    ("missing", pa.list_(pa.string())),
    ("blocker", pa.string()),
)
_OUTCOMES = pa.array(["blocked", "delivered", "duplicate", "duplicate", "quarantined"])
_REASONS = pa.array([None, None, "it is held already", "it was delivered before", None], pa.string())


@dataclass(frozen=True)
class Setup:
    """What every key's desk is told."""

    by: By
    rosters: tuple[Roster, ...]
    columns: Columns
    policy: Policy
    fast_from: int = FAST_FROM

    def reading(self) -> Reading:
        """Return a fresh reading."""
        return Reading(self.by, self.rosters)


class _Work(NamedTuple):
    """Held rows and new ones in one table, and which ticket stands where."""

    table: Any
    before: int
    old: Any
    """the tickets of the held rows"""
    base: int
    """how many rows had come before the new ones"""
    used: list[Any]
    times: Any

    def pick(self, tickets: Any) -> Any:
        """Return the rows of these tickets, in this order."""
        places = self.before + tickets - self.base - 1
        if self.before:
            places = np.where(tickets <= self.base, np.searchsorted(self.old, tickets), places)
        return self.table.take(pa.array(places, pa.int64()))


class Desk:
    """One key: its state, and its held rows."""

    def __init__(self, setup: Setup, key: tuple[Any, ...], state: bytes | None = None) -> None:
        """Start empty, or from what `dump` returned."""
        self.setup, self.key = setup, key
        self.where = setup.columns.where(key)
        self.refused = setup.columns.refuse(key)
        self.held: Any = None
        self.engine: Engine | None = None
        self.fast: Any = None
        self.state = state
        if state is not None:
            _, columns = unpack(state)
            if columns["extra"]:
                self.held = _one(pa.ipc.open_stream(columns["extra"]).read_all().to_batches())

    # -- rows ------------------------------------------------------------------------------------------------------

    def take(self, new: Any) -> Any:
        """Take a batch of new rows in the order of arrival; return those that leave, in order."""
        table = new if self.held is None or not len(self.held) else pa.concat_batches([self.held, new])
        before = len(table) - len(new)
        columns, names = self.setup.columns, new.schema.names
        used = [
            new.column(name) if name in names else None
            for name in (columns.message, columns.sender, columns.destination, columns.cause)
        ]
        times = _seconds(new.column(columns.time)) if columns.time in names else np.full(len(new), np.nan)
        fast = self._use_fast(len(new))
        work = _Work(table, before, self.tickets, self._count(), used, times)
        if fast:
            try:
                left, reasons = self.fast.take(*used, times)
            except LookupError:
                pass  # the array twin has no answer to one of these rows
            else:
                done = _fast_output(table, before, left, reasons)
                if left.stopped < 0:
                    self.held = work.pick(self.tickets)
                    return done
                self.held = work.pick(self.tickets)
                out: list[Outcome] = []
                engine = self._engine()
                engine._enforce(out)  # the twin has stopped where the policy acts
                return _one([done, self._push(engine, work, left.stopped + 1, out)])
        return self._push(self._engine(), work, 0, [])

    def _use_fast(self, rows: int) -> bool:
        setup = self.setup
        if rows < setup.fast_from or self.refused or setup.by == "depends_on" or setup.policy.remember is not None:
            return False
        if self.fast is None:
            from thence.spark.fast import Fast  # numba is loaded here and not before

            state = self._state()
            destination = self._destination()
            if state is None:
                self.fast = Fast(setup.reading(), setup.policy) if Fast.can(setup.reading(), destination) else None
            elif Fast.can(setup.reading(), destination) and (loaded := Fast.load(state, setup.reading(), setup.policy)):
                self.fast = loaded[0]
            if self.fast is not None:
                self.engine, self.state = None, None
        return self.fast is not None

    def _destination(self) -> Any:
        names = self.setup.columns
        return dict(zip(names.key, self.key, strict=True)).get(names.destination)

    def _state(self) -> bytes | None:
        """Return the blob of whichever form the state has now; None if it is empty."""
        if self.fast is not None:
            state: bytes = self.fast.dump(self._messages())
            return state
        return dump(self.engine) if self.engine is not None else self.state

    def _messages(self) -> list[str | None]:
        if self.held is None or not len(self.held):
            return []
        name = self.setup.columns.message
        if name not in self.held.schema.names:
            return [None] * len(self.held)
        return [None if value is None else str(value) for value in self.held.column(name).to_pylist()]

    def _push(self, engine: Engine, work: _Work, start: int, out: list[Outcome]) -> Any:
        message, sender, destination, cause = [None if c is None else c.to_pylist() for c in work.used]
        read = engine.reading.read
        for row in range(start, len(work.times)):
            said = None if message is None else message[row]
            time = float(work.times[row])
            what = self.refused or read(
                said,
                None if sender is None else sender[row],
                None if destination is None else destination[row],
                None if cause is None else cause[row],
            )
            out += engine.push(what, None if said is None else str(said), None if time != time else time)
        self.held = work.pick(self.tickets)
        return _output(work.pick(np.array([outcome.ticket for outcome in out], np.int64)), out)

    def _engine(self) -> Engine:
        if self.engine is None:
            state = self._state()
            setup = self.setup
            if state is None:
                self.engine = Engine(setup.reading(), setup.policy, self.where)
            else:
                self.engine, _ = restore(state, setup.reading(), setup.policy, self.where)
            self.fast = self.state = None
        return self.engine

    def _count(self) -> int:
        """Return how many rows have come."""
        return int(self.fast.rows if self.fast is not None else self._engine().rows)

    @property
    def tickets(self) -> Any:
        """The tickets of the held rows."""
        if self.fast is not None:
            return self.fast.ticket
        return np.array(list(self._engine().meta), np.int64)

    # -- the end, and between micro-batches ------------------------------------------------------------------------

    def end(self) -> Any:
        """Return what still waits, as blocked; None if nothing does."""
        if self.held is None or not len(self.held):
            return None
        return _output(self.held, self._engine().finish())

    def flush(self, why: str) -> Any:
        """Let go what is held, for a destination that has fallen idle; None if nothing is."""
        if self.held is None or not len(self.held):
            return None
        engine = self._engine()
        tickets = np.array(list(engine.meta), np.int64)
        out = engine.flush(why)
        rows = np.searchsorted(tickets, np.array([outcome.ticket for outcome in out], np.int64))
        picked, self.held = self.held.take(pa.array(rows)), self.held.slice(0, 0)
        return _output(picked, out)

    def oldest_seconds(self) -> float | None:
        """Return how long the row held longest has waited, in event time; None if nothing is known of it."""
        if self.fast is not None:
            wait = self.fast.clock - self.fast.since[0] if len(self.fast.since) else 0.0
            return None if wait != wait else float(wait)
        engine = self._engine()
        first = next(iter(engine.meta.values()), None)
        if first is None:
            return 0.0
        return None if engine.clock is None or first.clock is None else engine.clock - first.clock

    def dump(self) -> bytes:
        """Return state and held rows as one blob."""
        extra = b""
        if self.held is not None and len(self.held):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, self.held.schema) as writer:
                writer.write_batch(self.held)
            extra = sink.getvalue().to_pybytes()
        if self.fast is not None:
            state: bytes = self.fast.dump(self._messages(), extra)
            return state
        return dump(self._engine(), extra)


def _one(batches: list[Any]) -> Any:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _seconds(column: Any) -> Any:
    """Return event times as seconds; NaN where there is none."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        micros = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
        values = pc.divide(micros.cast(pa.float64()), 1e6).to_numpy(zero_copy_only=False)
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    else:
        return np.full(len(column), np.nan)
    return np.where(np.isfinite(values), values, np.nan)


def _output(rows: Any, outcomes: list[Outcome]) -> Any:
    """Join rows with the output columns."""
    made = [[getattr(outcome, name) for outcome in outcomes] for name, _ in OUTPUT]
    arrays = [pa.array(values, kind) for values, (_, kind) in zip(made, OUTPUT, strict=True)]
    return _joined(rows, arrays)


def _fast_output(table: Any, before: int, left: Any, reasons: dict[int, str]) -> Any:
    n = len(left.rows)
    identity = before == 0 and n == len(table) and bool((left.rows == np.arange(n)).all())
    picked = table if identity else table.take(pa.array(left.rows))
    placed = left.status == 1
    status = pa.array(left.status)
    why = _REASONS.take(status)
    if reasons:
        texts = why.to_pylist()
        for place in np.flatnonzero(left.status == 4).tolist():
            texts[place] = reasons[int(left.rows[place]) - before]
        why = pa.array(texts, pa.string())
    empty = pa.ListArray.from_arrays(pa.array(np.zeros(n + 1, np.int32)), pa.array([], pa.string()))
    seconds = pa.array(left.held_seconds, mask=~placed | np.isnan(left.held_seconds))
    return _joined(
        picked,
        [
            _OUTCOMES.take(status),
            pa.array(left.position, mask=~placed),
            left.waited,
            pa.array(left.held_for),
            seconds,
            why,
            empty,
            pa.nulls(n, pa.string()),
        ],
    )


def _joined(rows: Any, arrays: list[Any]) -> Any:
    names = [*rows.schema.names, *(name for name, _ in OUTPUT)]
    return pa.RecordBatch.from_arrays([*rows.columns, *arrays], names=names)
