"""Delivery state of one key over Arrow batches: what a batch job and a stream both run.

Law. `take` returns the rows that leave, each once, with the output columns; the rows that stay are kept as an Arrow
table of their own, so that memory follows held rows, not rows. One state, two steppers: the plain one for a few rows,
the one by arrays where a batch is large enough to be worth it; their outcomes are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from thence.delivery.arrow_rows import Ints, Leaving, Rows, joined, leaving
from thence.delivery.columns import Columns, Key
from thence.delivery.outcome import Outcome
from thence.delivery.plain_stepper import PlainStepper
from thence.delivery.policy import Policy
from thence.delivery.reading import By, Reading
from thence.delivery.state import State
from thence.model.plain import Field
from thence.model.roster import Roster

if TYPE_CHECKING:
    from thence.delivery.array_stepper import ArrayStepper

ARRAYS_FROM = 256
"""Rows from which a batch goes through arrays."""


@dataclass(frozen=True)
class Setup:
    """What every key is told."""

    by: By
    rosters: tuple[Roster, ...]
    columns: Columns
    policy: Policy
    fast_from: int = ARRAYS_FROM

    def reading(self) -> Reading:
        """Return a fresh reading."""
        return Reading(self.by, self.rosters)


class KeyState:
    """One key: its stepper, and its held rows."""

    def __init__(self, setup: Setup, key: Key, state: State | None = None, held: pa.RecordBatch | None = None) -> None:
        """Start empty, or from a state and the rows it holds."""
        self.setup, self.key = setup, key
        self.where = setup.columns.where(key)
        self.refused = setup.columns.refuse(key)
        self.held = held
        self._from = state
        self._stepper: PlainStepper | ArrayStepper | None = None

    # -- rows ------------------------------------------------------------------------------------------------------

    def take(self, new: pa.RecordBatch, moment: int = 0) -> pa.RecordBatch:
        """Take a batch of new rows in the order of arrival; return those that leave, in order.

        `moment` is processing time in milliseconds, where a stream tells it.
        """
        rows = Rows.of(new, self.setup.columns, moment)
        stepper = self._for(rows)
        before, came = stepper.tickets, stepper.rows
        out = stepper.step(rows)
        if out is None:
            stepper = self._plain()
            out = stepper.step(rows)
        return self._parted(new, out, before, came)

    def _parted(self, new: pa.RecordBatch, out: Leaving, before: Ints, came: int) -> pa.RecordBatch:
        """Pick the rows that leave and those that stay."""
        waited = 0 if self.held is None else len(self.held)
        if not waited and len(out) == len(new) and bool((out.tickets == came + 1 + np.arange(len(new))).all()):
            self.held = new.slice(0, 0)
            return joined(new, out.columns)
        table = new if self.held is None or not waited else pa.concat_batches([self.held, new])

        def pick(tickets: Ints) -> pa.RecordBatch:
            places = waited + tickets - came - 1
            if waited:
                places = np.where(tickets <= came, np.searchsorted(before, tickets), places)
            return table.take(pa.array(places, pa.int64()))

        self.held = pick(self.stepper.tickets)
        return joined(pick(out.tickets), out.columns)

    # -- steppers ----------------------------------------------------------------------------------------------------

    @property
    def stepper(self) -> PlainStepper | ArrayStepper:
        """The stepper that has the state now."""
        return self._stepper if self._stepper is not None else self._plain()

    def _for(self, rows: Rows) -> PlainStepper | ArrayStepper:
        """Choose the stepper for a batch."""
        setup = self.setup
        by_arrays = self._stepper is not None and not isinstance(self._stepper, PlainStepper)
        if rows.count < setup.fast_from or self.refused or by_arrays:
            return self.stepper
        from thence.delivery.array_reading import ArrayReading  # with numba, which takes a second to load
        from thence.delivery.array_stepper import ArrayStepper

        if not ArrayReading.can(setup.reading(), rows, self._destination()):
            return self.stepper
        state = self.state()
        if state is None:
            self._stepper = ArrayStepper(setup.reading(), setup.policy, self.where)
        else:
            self._stepper = ArrayStepper.resume(state, setup.reading(), setup.policy, self.where) or self._stepper
        return self.stepper

    def _plain(self) -> PlainStepper:
        if not isinstance(self._stepper, PlainStepper):
            setup, state = self.setup, self.state()
            self._stepper = PlainStepper.resume(state, setup.reading(), setup.policy, self.where, self.refused)
        return self._stepper

    def _destination(self) -> Field:
        names = self.setup.columns
        return dict(zip(names.key, self.key, strict=True)).get(names.destination)

    def state(self) -> State | None:
        """Return the state; None if no row has come."""
        return self._from if self._stepper is None else self._stepper.state(self.messages())

    def messages(self) -> list[str | None]:
        """Return the ids of the held rows."""
        if self.held is None or not len(self.held):
            return []
        name = self.setup.columns.message
        if name not in self.held.schema.names:
            return [None] * len(self.held)
        return [None if value is None else str(value) for value in self.held.column(name).to_pylist()]

    # -- the end, and what is let go otherwise -----------------------------------------------------------------------

    def __len__(self) -> int:
        """Return how many rows are held."""
        return 0 if self.held is None else len(self.held)

    def end(self) -> pa.RecordBatch | None:
        """Return what still waits, as blocked; None if nothing does."""
        if self.held is None or not len(self):
            return None
        return joined(self.held, leaving(self._plain().delivery.finish()).columns)

    def flush(self, why: str, came_by: int | None = None) -> pa.RecordBatch | None:
        """Let go what is held, or what came by a moment of processing time; None if nothing goes."""
        return self._let_go(lambda plain: plain.delivery.flush(why, came_by))

    def give_up(self, cause: str, why: str) -> pa.RecordBatch | None:
        """Give up a cause by name; None if nothing goes."""
        return self._let_go(lambda plain: plain.delivery.give_up(cause, why))

    def _let_go(self, act: Callable[[PlainStepper], list[Outcome]]) -> pa.RecordBatch | None:
        plain = self._plain()
        before = plain.tickets
        out = leaving(act(plain))
        if self.held is None or not len(out):
            return None
        picked = self.held.take(pa.array(np.searchsorted(before, out.tickets)))
        self.held = self.held.take(pa.array(np.searchsorted(before, plain.tickets)))
        return joined(picked, out.columns)

    def came_first(self) -> int:
        """Return when the row held longest came, in milliseconds of processing time."""
        state = self.stepper
        if isinstance(state, PlainStepper):
            return next(iter(state.delivery.kept.values())).came
        return int(state.came[0])

    def oldest_seconds(self) -> float | None:
        """Return how long the row held longest has waited, in event time; None if nothing is known of it."""
        if not len(self):
            return 0.0
        state = self.stepper
        if isinstance(state, PlainStepper):
            return state.delivery.time.since(next(iter(state.delivery.kept.values())).since)
        since = state.began if np.isnan(state.since[0]) else float(state.since[0])
        return None if np.isnan(state.now - since) else state.now - since
