# cython: boundscheck=False, wraparound=False, initializedcheck=False
# boundscheck: places come from `new_row` and `new_need`, which make room for them first.
# wraparound: no index is negative.
# initializedcheck: every array is set when its object is made.
# mypy: ignore-errors
# C types are in held_cy.pxd, where mypy does not see them.
"""The held rows of one key as entries of arrays: held rows are not objects.

A row has a place in the arrays `row_...`, each of its needs one in `need_...`; place 0 stands for none, and places are
used again. The needs of a row are a chain (`row_needs`, `need_next`), in the order in which the row names them.
Held rows are a list in arrival order (`head`, `row_after`). Rows that wait for something in an order, say by ticket,
are a pairing heap over `row_child` and `row_sibling`: a row is in one heap at most.

*Invariant.* A row that is removed while it is in a heap is `GONE`; its place is used again once it leaves the heap.
"""

from __future__ import annotations

from array import array
from math import nan
from typing import NamedTuple

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

if cython.compiled:
    from cython.cimports.thence.tables.delivery.room_cy import Room
else:
    from thence.tables.delivery.room_cy import Room

HERE, STARTED, GONE = 1, 2, 3  # the states of a row; started: its handler runs (`completion_cy.py`)

# Shared by all keys without held rows, which therefore need no arrays; place 0 is never written.
NO_CHARS, NO_INTS, NO_LONGS, NO_DOUBLES = array("b", [0]), array("i", [0]), array("q", [0]), array("d", [0])


class HeldRow(NamedTuple):
    """A held row as it is written and read back. Needs are pairs of a code and a number.

    `since` is event time, `ahead` how far a time was ahead that was not believed, both NaN for none; `came` is
    processing time in milliseconds. `waited`: of each need whether the row is held for it; the others are met only by
    giving up. `code` is -1 where a protocol has a rule of its own: `names` are the causes it waits for.
    """

    ticket: int
    label: str | None
    code: int
    number: int
    since: float
    ahead: float
    came: int
    needs: list[tuple[int, int]]
    waited: list[bool]
    names: tuple[str, ...] = ()


class HeldArrays(NamedTuple):
    """All held rows as they are written, in arrival order: the fields of `HeldRow`, needs one after the other.

    `own`: of the rows whose code is not -1, code, number and how many needs.
    """

    ticket: array
    since: array
    ahead: array
    came: array
    labels: list[str | None]
    names: list[tuple[str, ...]]
    own_code: array
    own_number: array
    own_needs: array
    need_code: array
    need_number: array
    need_waited: array


@cython.auto_pickle(False)
@cython.final
@cython.no_gc  # it refers to arrays of numbers alone
@cython.cclass
class Places:
    """The arrays of the held rows of one key; keys that hold nothing share one without room."""

    def __init__(self) -> None:
        """Have no room yet."""
        self.row_ticket = self.row_number = self.row_came = self.row_key = self.need_number = NO_LONGS
        self.row_since = self.row_ahead = NO_DOUBLES
        self.row_code = self.row_needs = self.row_unmet = self.row_before = self.row_after = NO_INTS
        self.row_child = self.row_sibling = NO_INTS
        self.need_code = self.need_row = self.need_next = self.need_before = self.need_after = NO_INTS
        self.row_state = self.row_queued = self.need_waited = NO_CHARS


NO_PLACES = Places()


@cython.cclass
class Held:
    """The held rows of one key."""

    def __init__(self, room: Room | None = None) -> None:
        """Start empty; `room` is shared by keys of similar lifetime."""
        self.room = Room() if room is None else room
        self.at = NO_PLACES
        self.hold_nothing()

    @cython.cfunc
    def hold_nothing(self) -> cython.void:
        """Forget all held rows; their memory is used again."""
        self.held = 0
        self.labels, self.waited_names, self.by_ticket = {}, {}, None
        self.head = self.tail = self.rows_used = self.rows_free = self.needs_used = self.needs_free = 0

    # -- places ----------------------------------------------------------------------------------------------------

    @cython.cfunc
    def own_places(self) -> Places:
        """Return arrays that are not shared with other keys."""
        if self.at is NO_PLACES:
            self.at = Places()
        return self.at

    @cython.cfunc
    def more_rows(self) -> cython.void:
        """Make room for as many rows again."""
        room: Room = self.room
        at: Places = self.own_places()
        top: cython.Py_ssize_t = max(4, 2 * len(at.row_ticket))
        at.row_ticket, at.row_number = room.more_longs(at.row_ticket, top), room.more_longs(at.row_number, top)
        at.row_came, at.row_key = room.more_longs(at.row_came, top), room.more_longs(at.row_key, top)
        at.row_since, at.row_ahead = room.more_doubles(at.row_since, top), room.more_doubles(at.row_ahead, top)
        at.row_code, at.row_needs = room.more_ints(at.row_code, top), room.more_ints(at.row_needs, top)
        at.row_before, at.row_after = room.more_ints(at.row_before, top), room.more_ints(at.row_after, top)
        at.row_child, at.row_sibling = room.more_ints(at.row_child, top), room.more_ints(at.row_sibling, top)
        at.row_unmet = room.more_ints(at.row_unmet, top)
        at.row_state, at.row_queued = room.more_chars(at.row_state, top), room.more_chars(at.row_queued, top)

    @cython.cfunc
    def more_needs(self) -> cython.void:
        """Make room for as many needs again."""
        room: Room = self.room
        at: Places = self.own_places()
        top: cython.Py_ssize_t = max(4, 2 * len(at.need_code))
        at.need_code, at.need_number = room.more_ints(at.need_code, top), room.more_longs(at.need_number, top)
        at.need_row, at.need_next = room.more_ints(at.need_row, top), room.more_ints(at.need_next, top)
        at.need_before, at.need_after = room.more_ints(at.need_before, top), room.more_ints(at.need_after, top)
        at.need_waited = room.more_chars(at.need_waited, top)

    @cython.cfunc
    def new_row(self, ticket: cython.longlong, label: object, code: cython.int, number: cython.longlong) -> cython.int:
        """Return the place of a row that has no needs yet, and is not in the list."""
        row: cython.int = self.rows_free
        if row:
            self.rows_free = self.at.row_after[row]
        else:
            self.rows_used += 1
            row = self.rows_used
            if row >= len(self.at.row_ticket):
                self.more_rows()
        self.at.row_ticket[row], self.at.row_code[row], self.at.row_number[row] = ticket, code, number
        self.at.row_since[row] = self.at.row_ahead[row] = nan
        self.at.row_came[row] = self.at.row_needs[row] = self.at.row_unmet[row] = 0
        self.at.row_state[row], self.at.row_queued[row] = HERE, False
        if label is not None:
            self.labels[row] = label
        return row

    @cython.cfunc
    def new_need(
        self, row: cython.int, last: cython.int, code: cython.int, number: cython.longlong, waited: cython.bint
    ) -> cython.int:
        """Add a need to a row, behind its last one (0: it has none); return its place."""
        need: cython.int = self.needs_free
        if need:
            self.needs_free = self.at.need_next[need]
        else:
            self.needs_used += 1
            need = self.needs_used
            if need >= len(self.at.need_code):
                self.more_needs()
        self.at.need_code[need], self.at.need_number[need], self.at.need_row[need] = code, number, row
        self.at.need_waited[need], self.at.need_next[need] = waited, 0
        self.at.need_before[need] = -1
        if last:
            self.at.need_next[last] = need
        else:
            self.at.row_needs[row] = need
        return need

    @cython.cfunc
    def free_row(self, row: cython.int) -> cython.void:
        """Use the place of a row again, once it is in no heap."""
        last: cython.int = self.at.row_needs[row]
        if last:
            while self.at.need_next[last]:
                last = self.at.need_next[last]
            self.at.need_next[last], self.needs_free = self.needs_free, self.at.row_needs[row]
            self.at.row_needs[row] = 0
        if self.labels or self.waited_names:
            self.labels.pop(row, None)
            self.waited_names.pop(row, None)
        if self.at.row_queued[row]:
            self.at.row_state[row] = GONE
            return
        self.at.row_state[row] = 0
        self.at.row_after[row], self.rows_free = self.rows_free, row

    # -- in arrival order ------------------------------------------------------------------------------------------

    @cython.cfunc
    def list_row(self, row: cython.int) -> cython.void:
        """Append a row to the list of held rows."""
        self.at.row_before[row], self.at.row_after[row] = self.tail, 0
        if self.tail:
            self.at.row_after[self.tail] = row
        else:
            self.head = row
        self.tail = row
        self.held += 1
        if self.by_ticket is not None:
            self.by_ticket[self.at.row_ticket[row]] = row

    @cython.cfunc
    def unlist_row(self, row: cython.int) -> cython.void:
        """Remove a row from the list of held rows."""
        before: cython.int = self.at.row_before[row]
        after: cython.int = self.at.row_after[row]
        if before:
            self.at.row_after[before] = after
        else:
            self.head = after
        if after:
            self.at.row_before[after] = before
        else:
            self.tail = before
        self.held -= 1
        self.at.row_state[row] = GONE
        if self.by_ticket is not None:
            del self.by_ticket[self.at.row_ticket[row]]

    @cython.cfunc
    def place_of(self, ticket: cython.longlong) -> cython.int:
        """Return the place of a held row, or 0."""
        if self.by_ticket is None:
            self.by_ticket = {self.at.row_ticket[row]: row for row in self.places()}
        return self.by_ticket.get(ticket, 0)

    @cython.cfunc
    def places(self) -> list:
        """Return the places of held rows, in arrival order."""
        found: list = []
        row: cython.int = self.head
        while row:
            found.append(row)
            row = self.at.row_after[row]
        return found

    @cython.cfunc
    def pairs(self, row: cython.int, waited: cython.bint) -> list:
        """Return the needs of a row as pairs of code and number, or only those it is held for."""
        found: list = []
        need: cython.int = self.at.row_needs[row]
        while need:
            if self.at.need_waited[need] or not waited:
                found.append((self.at.need_code[need], self.at.need_number[need]))
            need = self.at.need_next[need]
        return found

    # -- as they are written ---------------------------------------------------------------------------------------

    def tickets(self) -> list[int]:
        """Return the tickets of held rows, in arrival order."""
        return [self.at.row_ticket[row] for row in self.places()]

    def first_row(self) -> HeldRow | None:
        """Return the row held longest."""
        return self.described(self.head) if self.head else None

    def row_at(self, ticket: cython.longlong) -> HeldRow:
        """Return a held row by its ticket."""
        return self.described(self.place_of(ticket))

    def rows_held(self) -> list[HeldRow]:
        """Return all held rows, in arrival order."""
        return [self.described(row) for row in self.places()]

    def arrays_held(self) -> HeldArrays:
        """Return all held rows as columns."""
        row: cython.int = self.head
        need: cython.int
        rows: cython.Py_ssize_t = 0
        own: cython.Py_ssize_t = 0
        needs: cython.Py_ssize_t = 0
        while row:
            rows += 1
            if self.at.row_code[row] >= 0:
                own += 1
                need = self.at.row_needs[row]
                while need:
                    needs += 1
                    need = self.at.need_next[need]
            row = self.at.row_after[row]
        places: list = self.places()
        found = HeldArrays(
            array("q", bytes(8 * rows)), array("d", bytes(8 * rows)), array("d", bytes(8 * rows)),
            array("q", bytes(8 * rows)), [self.labels.get(place) for place in places],
            [self.waited_names.get(place, ()) for place in places] if self.waited_names else [],
            array("q", bytes(8 * own)), array("q", bytes(8 * own)), array("q", bytes(8 * own)),
            array("q", bytes(8 * needs)), array("q", bytes(8 * needs)), array("q", bytes(8 * needs)),
        )  # fmt: skip
        if rows:
            self.fill_arrays(found)
        return found

    @cython.cfunc
    def fill_arrays(self, found: object) -> cython.void:
        """Write held rows into arrays that have room for them."""
        ticket: cython.longlong[::1] = memoryview(found.ticket)
        since: cython.double[::1] = memoryview(found.since)
        ahead: cython.double[::1] = memoryview(found.ahead)
        came: cython.longlong[::1] = memoryview(found.came)
        code: cython.longlong[::1] = memoryview(found.own_code)
        number: cython.longlong[::1] = memoryview(found.own_number)
        count: cython.longlong[::1] = memoryview(found.own_needs)
        need_code: cython.longlong[::1] = memoryview(found.need_code)
        need_number: cython.longlong[::1] = memoryview(found.need_number)
        need_waited: cython.longlong[::1] = memoryview(found.need_waited)
        row: cython.int = self.head
        need: cython.int
        at: cython.Py_ssize_t = 0
        own: cython.Py_ssize_t = 0
        needs: cython.Py_ssize_t = 0
        first: cython.Py_ssize_t
        while row:
            ticket[at], came[at] = self.at.row_ticket[row], self.at.row_came[row]
            since[at], ahead[at] = self.at.row_since[row], self.at.row_ahead[row]
            if self.at.row_code[row] >= 0:
                code[own], number[own], first = self.at.row_code[row], self.at.row_number[row], needs
                need = self.at.row_needs[row]
                while need:
                    need_code[needs], need_number[needs] = self.at.need_code[need], self.at.need_number[need]
                    need_waited[needs] = self.at.need_waited[need]
                    needs += 1
                    need = self.at.need_next[need]
                count[own] = needs - first
                own += 1
            at += 1
            row = self.at.row_after[row]

    @cython.cfunc
    def described(self, row: cython.int) -> object:
        """Return a row as it is written."""
        at: Places = self.at
        waited: list = []
        need: cython.int = at.row_needs[row]
        while need:
            waited.append(bool(at.need_waited[need]))
            need = at.need_next[need]
        return HeldRow(
            at.row_ticket[row], self.labels.get(row), at.row_code[row], at.row_number[row], at.row_since[row],
            at.row_ahead[row], at.row_came[row], self.pairs(row, False), waited, self.waited_names.get(row, ()),
        )  # fmt: skip

    # -- heaps -----------------------------------------------------------------------------------------------------

    @cython.cfunc
    def queued(self, root: cython.int, row: cython.int, key: cython.longlong) -> cython.int:
        """Put a row into a heap; return the new root."""
        self.at.row_key[row], self.at.row_queued[row] = key, True
        self.at.row_child[row] = self.at.row_sibling[row] = 0
        return self.melded(root, row)

    @cython.cfunc
    def melded(self, one: cython.int, other: cython.int) -> cython.int:
        """Return the root of two heaps as one; a root has no siblings."""
        if not one or not other:
            return one or other
        if self.at.row_key[other] < self.at.row_key[one]:
            one, other = other, one
        self.at.row_sibling[other] = self.at.row_child[one]
        self.at.row_child[one] = other
        return one

    @cython.cfunc
    def unqueued(self, root: cython.int) -> cython.int:
        """Take the root out of a heap; return the new root."""
        one: cython.int = self.at.row_child[root]
        other: cython.int
        after: cython.int
        pairs: cython.int = 0
        self.at.row_queued[root] = False
        while one:  # pairs from the left, then all of them from the right
            other = self.at.row_sibling[one]
            after = self.at.row_sibling[other] if other else 0
            self.at.row_sibling[one] = 0
            if other:
                self.at.row_sibling[other] = 0
            one = self.melded(one, other)
            self.at.row_sibling[one] = pairs
            pairs, one = one, after
        one = 0
        while pairs:
            after = self.at.row_sibling[pairs]
            self.at.row_sibling[pairs] = 0
            one = self.melded(one, pairs)
            pairs = after
        return one
