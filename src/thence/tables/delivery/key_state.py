"""One key: its rule, and its held rows as an Arrow batch.

*Invariant.* `held` has the rows of `rule.kept`, in arrival order.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thence.core.model.roster import Roster
from thence.tables.delivery.arrow_rows import Ints, Leaving, joined, leaving, read_batch, times_in
from thence.tables.delivery.columns import Columns, Key
from thence.tables.delivery.delivery_rule_cy import Rule
from thence.tables.delivery.outcome_cy import Outcome
from thence.tables.delivery.policy import Policy
from thence.tables.delivery.reading import By, Reading
from thence.tables.delivery.rule_state import resumed, state_of
from thence.tables.delivery.state import HeldRows, State


@dataclass(frozen=True)
class Setup:
    """What all keys have in common."""

    by: By
    rosters: tuple[Roster, ...]
    columns: Columns
    policy: Policy
    separator: str | None = None
    """Between the ids of a text that names several causes."""

    def reading(self) -> Reading:
        """Return a fresh reading."""
        return Reading(self.by, self.rosters, separator=self.separator)


@contextmanager
def without_collection() -> Iterator[None]:
    """Keep the garbage collector from running: a batch makes many small objects and no cycles of them.

    Measured on 50,000 rows of explicit causes: 3.0 us a row with it, 1.1 us without.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class KeyState:
    """One key: its rule, and its held rows."""

    def __init__(
        self,
        setup: Setup,
        key: Key,
        state: State | None = None,
        held: pa.RecordBatch | None = None,
        elsewhere: Iterable[tuple[HeldRows, set[int]]] = (),
    ) -> None:
        """Start empty, or from a state and the rows it holds; `elsewhere`: as `resumed` takes it."""
        self.setup, self.held = setup, held
        self.refused = setup.columns.refuse(key)
        where = setup.columns.where(key)
        if state is None:
            self.rule = Rule(setup.reading(), setup.policy, where)
        else:
            self.rule = resumed(state, setup.reading(), setup.policy, where, elsewhere)

    def __len__(self) -> int:
        """Return how many rows are held."""
        return len(self.rule.kept)

    def state(self) -> State:
        """Return the whole state."""
        return state_of(self.rule)

    # -- rows ------------------------------------------------------------------------------------------------------

    def take(self, new: pa.RecordBatch, moment: int = 0) -> pa.RecordBatch:
        """Take a batch of new rows in arrival order; return those that leave, in order.

        `moment` is processing time in milliseconds, where a stream gives it.
        """
        rule, columns = self.rule, self.setup.columns
        before, came = self._tickets(), rule.rows
        with without_collection():
            reads, messages = read_batch(rule.reading, new, columns)
            if self.refused is not None:
                reads = [self.refused] * len(new)
            out = leaving(rule.take(reads, messages, times_in(new, columns), moment))
            del reads, messages
        return self._split(new, out, before, came)

    def _tickets(self) -> Ints:
        return np.fromiter(self.rule.kept, np.int64, len(self.rule.kept))

    def _split(self, new: pa.RecordBatch, out: Leaving, before: Ints, came: int) -> pa.RecordBatch:
        """Pick the rows that leave and those that stay."""
        if not len(before) and len(out) == len(new) and bool((out.tickets == came + 1 + np.arange(len(new))).all()):
            self.held = new.slice(0, 0)
            return joined(new, out.columns)
        table = pa.concat_batches([self.held, new]) if len(before) else new
        places = np.concatenate([before, came + 1 + np.arange(len(new))])
        self.held = table.take(pa.array(np.searchsorted(places, self._tickets())))
        return joined(table.take(pa.array(np.searchsorted(places, out.tickets))), out.columns)

    # -- the end, and what is let go otherwise ---------------------------------------------------------------------

    def end(self) -> pa.RecordBatch | None:
        """Return what still waits, as blocked; None if nothing does."""
        return joined(self.held, leaving(self.rule.finish()).columns) if len(self) else None

    def flush(self, why: str, came_by: int | None = None) -> pa.RecordBatch | None:
        """Let go what is held, or what came by a moment of processing time; None if nothing goes."""
        before = self._tickets()
        return self._let_go(before, self.rule.flush(why, came_by))

    def give_up(self, cause: str, why: str) -> pa.RecordBatch | None:
        """Give up a cause by name; None if nothing goes."""
        before = self._tickets()
        return self._let_go(before, self.rule.give_up(cause, why))

    def _let_go(self, before: Ints, outcomes: list[Outcome]) -> pa.RecordBatch | None:
        if not outcomes:
            return None
        assert self.held is not None
        out = leaving(outcomes)
        picked = self.held.take(pa.array(np.searchsorted(before, out.tickets)))
        self.held = self.held.take(pa.array(np.searchsorted(before, self._tickets())))
        return joined(picked, out.columns)

    def came_first(self) -> int:
        """Return when the row held longest came, in milliseconds of processing time."""
        return int(next(iter(self.rule.kept.values())).came)

    def oldest_seconds(self) -> float | None:
        """Return how long the row held longest has waited, in event time; None if that is not known."""
        if not len(self):
            return 0.0
        since = next(iter(self.rule.kept.values())).since
        waited = self.rule.now - (self.rule.began if since != since else since)
        return None if waited != waited else float(waited)
