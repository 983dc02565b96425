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

# Shared by all that hold nothing, so that a key costs no arrays; place 0 is never written.
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


@cython.cclass
class Held:
    """The held rows of one key."""

    def __init__(self, room: Room | None = None) -> None:
        """Hold nothing; `room` is shared by keys that live about as long."""
        self.room = Room() if room is None else room
        self.hold_nothing()

    def hold_nothing(self) -> None:
        """Forget all held rows, and their memory."""
        self.held = 0
        self.labels, self.waited_names, self.by_ticket = {}, {}, None
        self.head = self.tail = self.rows_used = self.rows_free = self.needs_used = self.needs_free = 0
        self.row_ticket = self.row_number = self.row_came = self.row_key = self.need_number = NO_LONGS
        self.row_since = self.row_ahead = NO_DOUBLES
        self.row_code = self.row_needs = self.row_unmet = self.row_before = self.row_after = NO_INTS
        self.row_child = self.row_sibling = NO_INTS
        self.need_code = self.need_row = self.need_next = self.need_before = self.need_after = NO_INTS
        self.row_state = self.row_queued = self.need_waited = NO_CHARS

    # -- places ----------------------------------------------------------------------------------------------------

    @cython.cfunc
    def more_rows(self) -> cython.void:
        """Make room for as many rows again."""
        room: Room = self.room
        top: cython.Py_ssize_t = max(4, 2 * len(self.row_ticket))
        self.row_ticket, self.row_number = room.more_longs(self.row_ticket, top), room.more_longs(self.row_number, top)
        self.row_came, self.row_key = room.more_longs(self.row_came, top), room.more_longs(self.row_key, top)
        self.row_since, self.row_ahead = room.more_doubles(self.row_since, top), room.more_doubles(self.row_ahead, top)
        self.row_code, self.row_needs = room.more_ints(self.row_code, top), room.more_ints(self.row_needs, top)
        self.row_before, self.row_after = room.more_ints(self.row_before, top), room.more_ints(self.row_after, top)
        self.row_child, self.row_sibling = room.more_ints(self.row_child, top), room.more_ints(self.row_sibling, top)
        self.row_unmet = room.more_ints(self.row_unmet, top)
        self.row_state, self.row_queued = room.more_chars(self.row_state, top), room.more_chars(self.row_queued, top)

    @cython.cfunc
    def more_needs(self) -> cython.void:
        """Make room for as many needs again."""
        room: Room = self.room
        top: cython.Py_ssize_t = max(4, 2 * len(self.need_code))
        self.need_code, self.need_number = room.more_ints(self.need_code, top), room.more_longs(self.need_number, top)
        self.need_row, self.need_next = room.more_ints(self.need_row, top), room.more_ints(self.need_next, top)
        self.need_before, self.need_after = room.more_ints(self.need_before, top), room.more_ints(self.need_after, top)
        self.need_waited = room.more_chars(self.need_waited, top)

    @cython.cfunc
    def new_row(self, ticket: cython.longlong, label: object, code: cython.int, number: cython.longlong) -> cython.int:
        """Return the place of a row that has no needs yet, and is not in the list."""
        row: cython.int = self.rows_free
        if row:
            self.rows_free = self.row_after[row]
        else:
            self.rows_used += 1
            row = self.rows_used
            if row >= len(self.row_ticket):
                self.more_rows()
        self.row_ticket[row], self.row_code[row], self.row_number[row] = ticket, code, number
        self.row_since[row] = self.row_ahead[row] = nan
        self.row_came[row] = self.row_needs[row] = self.row_unmet[row] = 0
        self.row_state[row], self.row_queued[row] = HERE, False
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
            self.needs_free = self.need_next[need]
        else:
            self.needs_used += 1
            need = self.needs_used
            if need >= len(self.need_code):
                self.more_needs()
        self.need_code[need], self.need_number[need], self.need_row[need] = code, number, row
        self.need_waited[need], self.need_next[need] = waited, 0
        self.need_before[need] = -1
        if last:
            self.need_next[last] = need
        else:
            self.row_needs[row] = need
        return need

    @cython.cfunc
    def free_row(self, row: cython.int) -> cython.void:
        """Use the place of a row again, once it is in no heap."""
        last: cython.int = self.row_needs[row]
        if last:
            while self.need_next[last]:
                last = self.need_next[last]
            self.need_next[last], self.needs_free = self.needs_free, self.row_needs[row]
            self.row_needs[row] = 0
        if self.labels or self.waited_names:
            self.labels.pop(row, None)
            self.waited_names.pop(row, None)
        if self.row_queued[row]:
            self.row_state[row] = GONE
            return
        self.row_state[row] = 0
        self.row_after[row], self.rows_free = self.rows_free, row

    # -- in arrival order ------------------------------------------------------------------------------------------

    @cython.cfunc
    def list_row(self, row: cython.int) -> cython.void:
        """Hold a row: it came after all that are held."""
        self.row_before[row], self.row_after[row] = self.tail, 0
        if self.tail:
            self.row_after[self.tail] = row
        else:
            self.head = row
        self.tail = row
        self.held += 1
        if self.by_ticket is not None:
            self.by_ticket[self.row_ticket[row]] = row

    @cython.cfunc
    def unlist_row(self, row: cython.int) -> cython.void:
        """Hold a row no more."""
        before: cython.int = self.row_before[row]
        after: cython.int = self.row_after[row]
        if before:
            self.row_after[before] = after
        else:
            self.head = after
        if after:
            self.row_before[after] = before
        else:
            self.tail = before
        self.held -= 1
        self.row_state[row] = GONE
        if self.by_ticket is not None:
            del self.by_ticket[self.row_ticket[row]]

    @cython.cfunc
    def place_of(self, ticket: cython.longlong) -> cython.int:
        """Return the place of a held row, or 0."""
        if self.by_ticket is None:
            self.by_ticket = {self.row_ticket[row]: row for row in self.places()}
        return self.by_ticket.get(ticket, 0)

    @cython.cfunc
    def places(self) -> list:
        """Return the places of held rows, in arrival order."""
        found: list = []
        row: cython.int = self.head
        while row:
            found.append(row)
            row = self.row_after[row]
        return found

    @cython.cfunc
    def pairs(self, row: cython.int, waited: cython.bint) -> list:
        """Return the needs of a row as pairs of code and number, or only those it is held for."""
        found: list = []
        need: cython.int = self.row_needs[row]
        while need:
            if self.need_waited[need] or not waited:
                found.append((self.need_code[need], self.need_number[need]))
            need = self.need_next[need]
        return found

    # -- as they are written ---------------------------------------------------------------------------------------

    def tickets(self) -> list[int]:
        """Return the tickets of held rows, in arrival order."""
        return [self.row_ticket[row] for row in self.places()]

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
            if self.row_code[row] >= 0:
                own += 1
                need = self.row_needs[row]
                while need:
                    needs += 1
                    need = self.need_next[need]
            row = self.row_after[row]
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
            ticket[at], came[at] = self.row_ticket[row], self.row_came[row]
            since[at], ahead[at] = self.row_since[row], self.row_ahead[row]
            if self.row_code[row] >= 0:
                code[own], number[own], first = self.row_code[row], self.row_number[row], needs
                need = self.row_needs[row]
                while need:
                    need_code[needs], need_number[needs] = self.need_code[need], self.need_number[need]
                    need_waited[needs] = self.need_waited[need]
                    needs += 1
                    need = self.need_next[need]
                count[own] = needs - first
                own += 1
            at += 1
            row = self.row_after[row]

    @cython.cfunc
    def described(self, row: cython.int) -> object:
        """Return a row as it is written."""
        waited: list = []
        need: cython.int = self.row_needs[row]
        while need:
            waited.append(bool(self.need_waited[need]))
            need = self.need_next[need]
        return HeldRow(
            self.row_ticket[row], self.labels.get(row), self.row_code[row], self.row_number[row], self.row_since[row],
            self.row_ahead[row], self.row_came[row], self.pairs(row, False), waited, self.waited_names.get(row, ()),
        )  # fmt: skip

    # -- heaps -----------------------------------------------------------------------------------------------------

    @cython.cfunc
    def queued(self, root: cython.int, row: cython.int, key: cython.longlong) -> cython.int:
        """Put a row into a heap; return the new root."""
        self.row_key[row], self.row_queued[row] = key, True
        self.row_child[row] = self.row_sibling[row] = 0
        return self.melded(root, row)

    @cython.cfunc
    def melded(self, one: cython.int, other: cython.int) -> cython.int:
        """Return the root of two heaps as one; a root has no siblings."""
        if not one or not other:
            return one or other
        if self.row_key[other] < self.row_key[one]:
            one, other = other, one
        self.row_sibling[other] = self.row_child[one]
        self.row_child[one] = other
        return one

    @cython.cfunc
    def unqueued(self, root: cython.int) -> cython.int:
        """Take the root out of a heap; return the new root."""
        one: cython.int = self.row_child[root]
        other: cython.int
        after: cython.int
        pairs: cython.int = 0
        self.row_queued[root] = False
        while one:  # pairs from the left, then all of them from the right
            other = self.row_sibling[one]
            after = self.row_sibling[other] if other else 0
            self.row_sibling[one] = 0
            if other:
                self.row_sibling[other] = 0
            one = self.melded(one, other)
            self.row_sibling[one] = pairs
            pairs, one = one, after
        one = 0
        while pairs:
            after = self.row_sibling[pairs]
            self.row_sibling[pairs] = 0
            one = self.melded(one, pairs)
            pairs = after
        return one
