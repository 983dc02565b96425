# mypy: disable-error-code="valid-type,misc,no-redef,type-arg,index,assignment"
"""What became of one row, and of many rows as columns. C types are in `outcome_cy.pxd`."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import nan
from typing import NamedTuple

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

from thence.core.model.plain import Row as Fields
from thence.tables.delivery.outcome import KINDS

NOTHING: Sequence[str] = ()


@cython.final
@cython.no_gc  # texts and lists of texts make no cycles
@cython.cclass
class Outcome:
    """What became of the `ticket`-th row of a key; the other fields are the output columns.

    `kind` is a place in `KINDS`; position 0 and seconds NaN stand for none.
    """

    def __init__(self) -> None:
        """Say nothing yet."""
        self.ticket = self.kind = self.position = self.held_for = 0
        self.waited_for: Sequence[str] = NOTHING
        self.missing: Sequence[str] = NOTHING
        self.held_seconds = nan
        self.reason: str | None = None
        self.blocker: str | None = None

    def columns(self) -> Fields:
        """Return the output columns, in order."""
        return {
            "outcome": KINDS[self.kind],
            "position": self.position or None,
            "waited_for": list(self.waited_for),
            "held_for": self.held_for,
            "held_seconds": None if self.held_seconds != self.held_seconds else self.held_seconds,
            "reason": self.reason,
            "missing": list(self.missing),
            "blocker": self.blocker,
        }


@cython.cfunc
def outcome(ticket: cython.longlong, kind: cython.int, reason: object) -> Outcome:
    """Return an outcome of which no more is said."""
    made: Outcome = Outcome.__new__(Outcome)
    made.ticket, made.kind, made.reason = ticket, kind, reason
    made.position = made.held_for = 0
    made.waited_for = made.missing = NOTHING
    made.held_seconds = nan
    made.blocker = None
    return made


class OutcomeColumns(NamedTuple):
    """Outcomes as columns: texts of lists are flat, with the place where each list begins and the last one ends."""

    ticket: array[int]
    kind: array[int]
    position: array[int]
    held_for: array[int]
    held_seconds: array[float]
    waited_starts: array[int]
    waited_for: list[str]
    missing_starts: array[int]
    missing: list[str]
    reason: list[str | None]
    blocker: list[str | None]


def outcome_columns(outcomes: list) -> OutcomeColumns:
    """Return outcomes as columns; `reason` and `blocker` are empty where no row has one."""
    count: cython.Py_ssize_t = len(outcomes)
    place: cython.Py_ssize_t
    each: Outcome
    whole = array("q", bytes(8 * count))
    tickets, positions, held_for = whole, whole[:], whole[:]
    kinds, seconds = array("b", bytes(count)), array("d", bytes(8 * count))
    waited_starts, missing_starts = array("i", bytes(4 * count + 4)), array("i", bytes(4 * count + 4))
    ticket: cython.longlong[::1] = tickets
    position: cython.longlong[::1] = positions
    held: cython.longlong[::1] = held_for
    kind: cython.schar[::1] = kinds
    second: cython.double[::1] = seconds
    waited_start: cython.int[::1] = waited_starts
    missing_start: cython.int[::1] = missing_starts
    waited: list = []
    missing: list = []
    reasons: list = []
    blockers: list = []
    for place in range(count):
        each = outcomes[place]
        ticket[place], position[place], held[place] = each.ticket, each.position, each.held_for
        kind[place], second[place] = each.kind, each.held_seconds
        if each.waited_for:
            waited.extend(each.waited_for)
        if each.missing:
            missing.extend(each.missing)
        waited_start[place + 1], missing_start[place + 1] = len(waited), len(missing)
        if each.reason is not None and not reasons:
            reasons = [None] * count
        if each.blocker is not None and not blockers:
            blockers = [None] * count
        if each.reason is not None:
            reasons[place] = each.reason
        if each.blocker is not None:
            blockers[place] = each.blocker
    return OutcomeColumns(
        tickets, kinds, positions, held_for, seconds, waited_starts, waited, missing_starts, missing, reasons, blockers
    )
