# cython: boundscheck=False, wraparound=False, initializedcheck=False
# boundscheck: places are below `count` and `waits`, and `_grow` keeps the arrays longer than both.
# wraparound: no index is negative.
# initializedcheck: every array is set when its object is made.
# mypy: disable-error-code="valid-type,misc,no-redef,type-arg,index,assignment,attr-defined,var-annotated,arg-type"
"""The outcome of one row, and of many rows as columns. C types are in `outcome_cy.pxd`."""

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
from thence.tables.delivery.room_cy import zeros

NOTHING: Sequence[str] = ()


@cython.final
@cython.no_gc  # texts and lists of texts make no cycles
@cython.cclass
class Outcome:
    """The outcome of the `ticket`-th row of a key; the other fields are the output columns.

    `kind` is a place in `KINDS`; position 0 and seconds NaN stand for none.
    """

    def __init__(self) -> None:
        """Start with every field empty."""
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


class OutcomeColumns(NamedTuple):
    """Outcomes as columns; the three mappings say what a few rows have, by place.

    The causes that row r waited for are `waited[waited_starts[r]:waited_starts[r + 1]]`: a number of the batch's
    lexicon, or, below zero, a text: -1 is the first one.
    """

    ticket: array[int]
    kind: array[int]
    position: array[int]
    held_for: array[int]
    held_seconds: array[float]
    waited_starts: array[int]
    waited: array[int]
    texts: list[str]
    missing: dict[int, Sequence[str]]
    reason: dict[int, str]
    blocker: dict[int, str]


@cython.auto_pickle(False)
@cython.final
@cython.cclass
class Outcomes:
    """Outcomes in the order in which rows leave, as growing columns: rows that are simply delivered need no object."""

    def __init__(self, room: int = 4, lexicon: object = None) -> None:
        """Start without rows; `lexicon` names the causes of a batch by number."""
        self.lexicon = lexicon
        self.ticket, self.position, self.held_for = zeros("q", room), zeros("q", room), zeros("q", room)
        self.held_seconds, self.kind = zeros("d", room), zeros("b", room)
        self.waited_start, self.waited = zeros("i", room + 1), zeros("i", 4)
        self.clear()

    def __len__(self) -> int:
        """Return how many rows left."""
        return self.count

    def clear(self) -> None:
        """Forget all outcomes, keep the memory."""
        self.count = self.waits = 0
        self.texts, self.reason, self.missing, self.blocker = [], {}, {}, {}

    @cython.cfunc
    def _grow(self, room: cython.Py_ssize_t) -> cython.void:
        self.ticket = longer(self.ticket, "q", room)
        self.position = longer(self.position, "q", room)
        self.held_for = longer(self.held_for, "q", room)
        self.held_seconds = longer(self.held_seconds, "d", room)
        self.kind = longer(self.kind, "b", room)
        self.waited_start = longer(self.waited_start, "i", room + 1)

    @cython.cfunc
    def add(self, ticket: cython.longlong, kind: cython.int, reason: object) -> cython.Py_ssize_t:
        """Add a row that leaves; return its place here, to which details can be added."""
        place: cython.Py_ssize_t = self.count
        if place == len(self.ticket):
            self._grow(2 * place)
        self.ticket[place], self.kind[place] = ticket, kind
        self.position[place] = self.held_for[place] = 0
        self.held_seconds[place] = nan
        self.count = place + 1
        self.waited_start[place + 1] = self.waits
        if reason is not None:
            self.reason[place] = reason
        return place

    @cython.cfunc
    def waits_for(self, number: cython.int) -> cython.void:
        """Record a cause that the last row waited for, by its number in the lexicon."""
        if self.waits == len(self.waited):
            self.waited = longer(self.waited, "i", 2 * self.waits)
        self.waited[self.waits] = number
        self.waits += 1
        self.waited_start[self.count] = self.waits

    @cython.cfunc
    def waits_for_text(self, text: object) -> cython.void:
        """Record a cause that the last row waited for, by name."""
        self.texts.append(text)
        self.waits_for(-len(self.texts))

    def outcome(self, place: cython.Py_ssize_t) -> Outcome:
        """Return the outcome at one place as an object."""
        made: Outcome = Outcome.__new__(Outcome)
        made.ticket, made.kind, made.position = self.ticket[place], self.kind[place], self.position[place]
        made.held_for, made.held_seconds = self.held_for[place], self.held_seconds[place]
        made.waited_for = made.missing = NOTHING
        made.reason = made.blocker = None
        if self.reason:
            made.reason = self.reason.get(place)
        if self.waited_start[place] < self.waited_start[place + 1]:
            made.waited_for = [
                self.texts[-1 - self.waited[at]] if self.waited[at] < 0 else self.lexicon.name(self.waited[at])
                for at in range(self.waited_start[place], self.waited_start[place + 1])
            ]
        if self.missing:
            made.missing = self.missing.get(place, NOTHING)
        if self.blocker:
            made.blocker = self.blocker.get(place)
        return made

    def places(self, came: object, starts: object, left: object, rows: cython.Py_ssize_t) -> tuple:
        """Return where the rows that left stand in a batch, which of them were held before, and whether places ascend.

        Of each key in turn: how many rows had come before the batch, where its rows begin there, and how many left.
        Rows that were held before have places behind the `rows` of the batch.
        """
        key: cython.Py_ssize_t
        at: cython.Py_ssize_t
        first: cython.Py_ssize_t = 0
        old: cython.Py_ssize_t = 0
        ahead: cython.longlong
        before_batch: cython.longlong[::1] = memoryview(came)
        start: cython.longlong[::1] = memoryview(starts)
        leaving: cython.longlong[::1] = memoryview(left)
        last: cython.longlong = -1
        ascending: cython.bint = True
        places = zeros("q", self.count)
        held = array("q")
        place: cython.longlong[::1] = memoryview(places)
        for key in range(len(leaving)):
            ahead = start[key] - before_batch[key] - 1
            for at in range(first, first + leaving[key]):
                if self.ticket[at] > before_batch[key]:
                    place[at] = self.ticket[at] + ahead
                else:
                    place[at] = rows + old
                    held.append(at)
                    old += 1
                ascending = ascending and place[at] > last
                last = place[at]
            first += leaving[key]
        return places, held, ascending

    def listed(self) -> list:
        """Return the outcomes one by one."""
        return [self.outcome(place) for place in range(self.count)]

    def columns(self) -> OutcomeColumns:
        """Return the outcomes as columns."""
        count: cython.Py_ssize_t = self.count
        return OutcomeColumns(
            self.ticket[:count], self.kind[:count], self.position[:count], self.held_for[:count],
            self.held_seconds[:count], self.waited_start[: count + 1], self.waited[: self.waits],
            self.texts, self.missing, self.reason, self.blocker,
        )  # fmt: skip


def longer(old: object, code: str, room: int) -> array:
    """Return numbers with room for more after them, which are 0."""
    found = zeros(code, room)
    memoryview(found)[: len(old)] = memoryview(old)
    return found


def starts_of(places: list, lengths: list, count: cython.Py_ssize_t) -> array:
    """Return where each of `count` values begins, and the end; those at `places`, which ascend, have lengths."""
    at: cython.Py_ssize_t = 0
    end: cython.int = 0
    place: cython.Py_ssize_t
    number: cython.Py_ssize_t
    found = zeros("i", count + 1)
    start: cython.int[::1] = memoryview(found)
    for number in range(len(places)):
        place = places[number]
        while at <= place:
            start[at] = end
            at += 1
        end += lengths[number]
    while at <= count:
        start[at] = end
        at += 1
    return found
