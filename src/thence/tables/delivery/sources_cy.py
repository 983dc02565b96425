# cython: boundscheck=False, wraparound=False, initializedcheck=False
# boundscheck: codes are those of `codes_cy.py`, which makes room for them first.
# wraparound: no index is negative.
# initializedcheck: every array is set when its object is made.
# mypy: ignore-errors
# C types are in sources_cy.pxd, where mypy does not see them.
"""The sources of one key: how far each has been delivered, and the rows held for them.

A row has a source and a number, and needs pairs (source, number). It is free when `level >= number` for each of its
needs; its delivery raises the level of its source to its number. One reading serves all kinds of arrivals:

- a stamp: sources are positions in the roster, numbers are the protocol's own;
- a clock: sources are senders by name, numbers count their messages to this destination (*dense*: all of them come);
- explicit causes: every message is a source of its own, with the one number 1 (*cyclic*: they may form cycles).

Inside, a source is a *code* (`codes_cy.py`).

To *give up* the numbers of a source up to t is to count them as delivered though they have not come. What was given up
and has not come since is kept as *holes*: ranges of numbers. A row in a hole that comes after all is late, not a
duplicate; a row that needs a number in a hole goes without it, and says so. Numbers of one source follow each other
causally, so what is held of a source below t goes before t is given up.

*Invariant.* Of explicit causes a held row counts its unmet needs, and `watch` of each leads to a list of these needs;
otherwise the row watches one unmet need, and `watch` is a heap of such rows by the number they need. So a delivery
touches only the rows that need its source. C types are in `sources_cy.pxd`.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

if cython.compiled:
    from cython.cimports.thence.tables.delivery.codes_cy import Codes, Source, in_hole
    from cython.cimports.thence.tables.delivery.held_cy import GONE, HERE
else:
    from thence.tables.delivery.codes_cy import Codes, Source, in_hole
    from thence.tables.delivery.held_cy import GONE, HERE

if TYPE_CHECKING:
    from thence.tables.delivery.held_cy import HeldRow

LISTED = 100
"""How many missing numbers of one source are listed one by one; a clock may claim any number."""
STALE = 64
"""How many entries of rows that have left a heap may have, beyond as many as there are rows, before it is rebuilt."""


@cython.cclass
class Sources(Codes):
    """The sources of one key and its held rows."""

    # -- the rule --------------------------------------------------------------------------------------------------

    @cython.cfunc
    def held_at(self, source: Source | None, code: cython.longlong, number: cython.longlong) -> cython.int:
        """Return the held or started row of a source with this number, or 0."""
        if self.cyclic:
            return self.row_of[code]
        return 0 if source is None or source.held is None else source.held.get(number, 0)

    @cython.cfunc
    def repeat(self, source: Source | None, code: cython.longlong, number: cython.longlong) -> object:
        """Return why a row is a duplicate, or None."""
        if self.held_at(source, code, number):
            return "it is held already"
        if source is not None:
            if source.quarantined:
                return "it was quarantined before"
            if source.holes is not None and in_hole(source, number):
                return None
        return None if number > self.level[code] else "it was delivered before"

    @cython.cfunc
    def hold(self, row: cython.int) -> cython.void:
        """Keep a row until its needs are met."""
        code: cython.int = self.at.row_code[row]
        need: cython.int = self.at.row_needs[row]
        own: Source
        self.list_row(row)
        if not self.cyclic:
            own = self.source(code)
            if own.held is None:
                own.held = {}
            own.held[self.at.row_number[row]] = row
            if own.numbers is not None:
                heappush(own.numbers, self.at.row_number[row])
                if len(own.numbers) > 2 * len(own.held) + STALE:
                    own.numbers = None
            self.watch_next(row)
            return
        self.row_of[code] = row
        while need:
            code = self.at.need_code[need]
            self.refs[code] += 1
            if self.at.need_waited[need] and self.level[code] < 1:
                self.at.row_unmet[row] += 1
                self.at.need_before[need], self.at.need_after[need] = 0, self.watch[code]
                if self.watch[code]:
                    self.at.need_before[self.watch[code]] = need
                self.watch[code] = need
            need = self.at.need_next[need]

    def keep(self, held: HeldRow) -> None:
        """Hold a row as it was written. A receiver with a rule of its own holds rows itself: these are only listed."""
        row: cython.int = self.new_row(held.ticket, held.label, held.code, held.number)
        need: cython.int = 0
        for each, waited in zip(held.needs, held.waited, strict=True):
            need = self.new_need(row, need, each[0], each[1], waited)
        self.at.row_since[row], self.at.row_ahead[row], self.at.row_came[row] = held.since, held.ahead, held.came
        if held.code < 0:
            self.waited_names[row] = held.names
            self.list_row(row)
        else:
            self.hold(row)

    @cython.cfunc
    def watch_next(self, row: cython.int) -> cython.bint:
        """Let a row watch the unmet need that lacks most, which tends to come last; return whether there is one."""
        need: cython.int = self.at.row_needs[row]
        watched: cython.int = 0
        lacks: cython.longlong
        most: cython.longlong = 0
        while need:
            lacks = self.at.need_number[need] - self.level[self.at.need_code[need]]
            if lacks > most and self.at.need_waited[need]:
                watched, most = need, lacks
            need = self.at.need_next[need]
        if not watched:
            return False
        code: cython.int = self.at.need_code[watched]
        self.watch[code] = self.queued(self.watch[code], row, self.at.need_number[watched])
        return True

    @cython.cfunc
    def met(self, code: cython.longlong, number: cython.longlong) -> cython.void:
        """Raise the level of a source: what needs this number of it has it now."""
        source: Source = self.extra[code]
        if source is not None and source.holes is not None:
            self.fill(code, source, number)
        if self.cyclic:
            self.level[code] = 1
            if self.lexicon is None or self.fresh is not None or self.recent is not None:
                self.delivered.append(code)
        elif number > self.level[code]:
            self.level[code] = number
            self.note(code)

    @cython.cfunc
    def wake(self, code: cython.longlong, ready: cython.int) -> cython.int:
        """Add the rows that waited for a source and are free now to a heap by ticket; return its root."""
        row: cython.int
        need: cython.int = self.watch[code]
        if self.cyclic:
            if self.level[code] < 1:
                return ready
            self.watch[code] = 0
            while need:
                self.at.need_before[need], row = -1, self.at.need_row[need]
                self.at.row_unmet[row] -= 1
                if self.at.row_unmet[row] == 0:
                    ready = self.queued(ready, row, self.at.row_ticket[row])
                need = self.at.need_after[need]
            return ready
        while self.watch[code] and self.at.row_key[self.watch[code]] <= self.level[code]:
            row = self.watch[code]
            self.watch[code] = self.unqueued(row)
            if self.at.row_state[row] == GONE:
                self.free_row(row)
            elif not self.watch_next(row):  # else it watches its next need
                ready = self.queued(ready, row, self.at.row_ticket[row])
        return ready

    def woken(self, code: cython.longlong) -> None:
        """Let the rows that waited for a source wait for what they still lack: its level was taken over."""
        ready: cython.int = self.wake(code, 0)
        while ready:
            ready = self.unqueued(ready)

    @cython.cfunc
    def detach(self, row: cython.int) -> cython.void:
        """Take a row out of the held ones; what is said of it stays until `free_row`."""
        own: Source
        code: cython.int = self.at.row_code[row]
        need: cython.int = self.at.row_needs[row]
        before: cython.int
        after: cython.int
        self.unlist_row(row)
        if not self.cyclic:
            own = self.extra[code]
            del own.held[self.at.row_number[row]]
            if not own.held:
                own.held = own.numbers = None
            return
        self.row_of[code] = 0
        while need:
            code, before, after = self.at.need_code[need], self.at.need_before[need], self.at.need_after[need]
            self.refs[code] -= 1
            if self.refs[code] == 0:
                own = self.extra[code]
                if own is not None and own.retired:
                    self.loose.append(code)
            if before >= 0:  # it waits for this need still
                if before:
                    self.at.need_after[before] = after
                else:
                    self.watch[code] = after
                if after:
                    self.at.need_before[after] = before
                self.at.need_before[need] = -1
            need = self.at.need_next[need]

    def drop(self, ticket: cython.longlong) -> None:
        """Remove a held row that left elsewhere."""
        row: cython.int = self.place_of(ticket)
        if self.at.row_code[row] < 0:
            self.unlist_row(row)
        else:
            self.detach(row)
        self.free_row(row)

    # -- causes that do not come -----------------------------------------------------------------------------------

    @cython.cfunc
    def first_unmet(self, row: cython.int) -> tuple:
        """Return the first need that a held row still waits for."""
        need: cython.int = self.at.row_needs[row]
        while need:
            if self.at.need_waited[need] and self.level[self.at.need_code[need]] < self.at.need_number[need]:
                return self.at.need_code[need], self.at.need_number[need]
            need = self.at.need_next[need]
        raise AssertionError("a row is held as long as a need of it is unmet")

    @cython.cfunc
    def before(self, need: tuple) -> tuple:
        """Return (None, the held row that must go before a need can be given up), or (what to give up, 0).

        Of a dense source, the latter is the next number, all up to the first one that is here.
        """
        code: cython.longlong = need[0]
        level: cython.longlong = self.level[code]
        source: Source = self.extra[code]
        lowest: cython.longlong
        row: cython.int
        if self.cyclic:
            row = self.row_of[code]
            return (None, row) if row and self.at.row_state[row] == HERE else (need, 0)
        if source is None or source.held is None:
            return need, 0
        if source.numbers is None:
            source.numbers = list(source.held)
            heapify(source.numbers)
        while source.numbers and (source.numbers[0] <= level or source.numbers[0] not in source.held):
            heappop(source.numbers)
        if not source.numbers or source.numbers[0] > need[1]:
            return need, 0
        lowest = source.numbers[0]
        if self.dense and lowest > level + 1:
            return (code, lowest - 1), 0
        row = source.held[lowest]
        return (None, row) if self.at.row_state[row] == HERE else ((code, lowest), 0)  # else it has started

    @cython.cfunc
    def root(self, row: cython.int, found: dict) -> object:
        """Return the cause at the root of a row's wait; None where causes wait for each other.

        Follows what rows wait for first, from held row to held row; `found` is shared by many walks.
        """
        walked: dict = {}
        here: cython.int = row
        need: object = None
        while here and here not in found and here not in walked:
            walked[here] = None
            need, here = self.before(self.first_unmet(here))
        if here:
            need = found.get(here)
        for each in walked:
            found[each] = need
        return need

    @cython.cfunc
    def blocker(self, row: cython.int, root: object) -> tuple:
        """Return the cause to name for a root: of a dense source the next one; on a circle the first one waited for."""
        need: tuple = self.first_unmet(row) if root is None else root
        code: cython.longlong = need[0]
        return (code, self.level[code] + 1) if self.dense else need

    @cython.ccall
    def waive(self, code: cython.longlong, number: cython.longlong) -> object:
        """Count the numbers of a source up to this one as delivered."""
        source: Source = self.source(code)
        if source.holes is None:
            source.holes = []
        source.holes.append((self.level[code] + 1, number))
        self.holes += 1
        self.level[code] = number
        self.note(code)

    @cython.cfunc
    def fill(self, code: cython.longlong, source: Source, number: cython.longlong) -> cython.void:
        """Take a number out of a hole."""
        kept: list = []
        for first, last in source.holes:
            if not first <= number <= last:
                kept.append((first, last))
                continue
            if first < number:
                kept.append((first, number - 1))
            if number < last:
                kept.append((number + 1, last))
        self.holes += len(kept) - len(source.holes)
        source.holes = kept or None
        self.note(code)

    @cython.cfunc
    def lacks(self, code: cython.longlong, number: cython.longlong) -> cython.bint:
        """Return whether a need has not come, wholly or in part, whether it was given up or not."""
        source: Source = self.extra[code]
        if self.level[code] < number:
            return True
        if source is None or source.holes is None:
            return False
        return source.holes[0][0] <= number if self.dense else in_hole(source, number)

    @cython.cfunc
    def absent(self, needs: object) -> tuple:
        """Return what has not come of these needs, at most `LISTED` numbers of each source, and how many there are."""
        source: Source
        code: cython.longlong
        found: list = []
        total: object = 0
        for need in needs:
            code = need[0]
            if not self.dense:
                if self.lacks(code, need[1]):
                    found.append(need)
                    total += 1
                continue
            source = self.source(code)
            spans = [(first, min(last, need[1])) for first, last in source.holes or () if first <= need[1]]
            if self.level[code] < need[1]:
                spans.append((self.level[code] + 1, need[1]))
            left = LISTED
            for first, last in spans:
                total += last - first + 1
                for number in range(first, min(last, first + left - 1) + 1):
                    found.append((code, number))
                    left -= 1
        return found, total
