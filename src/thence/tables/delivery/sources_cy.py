# cython: boundscheck=False, wraparound=False, initializedcheck=False
# boundscheck: codes are those of `codes_cy.py`, which makes room for them first.
# wraparound: no index is negative.
# initializedcheck: every array is set when its object is made.
# mypy: ignore-errors
# C types are in sources_cy.pxd, where mypy does not see them.
"""What one key knows of its sources, and the rows that are held for them.

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

*Invariant.* Of explicit causes a held row counts its unmet needs, and each of these lists the row; otherwise it watches
one unmet need. So a delivery touches only the rows that need its source. C types are in `sources_cy.pxd`.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

if cython.compiled:
    from cython.cimports.thence.tables.delivery.codes_cy import Codes, Row, Source, in_hole
else:
    from thence.tables.delivery.codes_cy import Codes, Row, Source, in_hole

LISTED = 100
"""How many missing numbers of one source are listed one by one; a clock may claim any number."""
STALE = 64
"""How many entries of rows that have left a heap may have, beyond as many as there are rows, before it is made anew."""


@cython.cclass
class Sources(Codes):
    """What one key knows of its sources, and its held rows."""

    # -- the rule --------------------------------------------------------------------------------------------------

    @cython.cfunc
    def held_at(self, source: Source | None, number: cython.longlong) -> Row:
        """Return the held row of a source with this number, or None."""
        if source is None:
            return None
        if self.cyclic:
            return source.row
        return None if source.held is None else source.held.get(number)

    @cython.cfunc
    def repeat(self, source: Source | None, code: cython.longlong, number: cython.longlong) -> object:
        """Say why a row is a duplicate, or None."""
        if source is not None:
            if self.held_at(source, number) is not None:
                return "it is held already"
            if source.quarantined:
                return "it was quarantined before"
            if source.holes is not None and in_hole(source, number):
                return None
        return None if number > self.level[code] else "it was delivered before"

    @cython.ccall
    def hold(self, row: Row) -> object:
        """Keep a row until its needs are met."""
        own: Source = self.source(row.code)
        other: Source
        code: cython.longlong
        self.kept[row.ticket] = row
        if not self.cyclic:
            if own.held is None:
                own.held = {}
            own.held[row.number] = row
            if own.numbers is not None:
                heappush(own.numbers, row.number)
                if len(own.numbers) > 2 * len(own.held) + STALE:
                    own.numbers = None
            self.watch(row)
            return
        own.row = row
        for need in row.needs:
            other = self.source(need[0])
            other.refs += 1
        for need in row.waited:
            code = need[0]
            if self.level[code] < 1:
                other = self.source(code)
                if other.watchers is None:
                    other.watchers, other.stale = [], 0
                other.watchers.append(row)
                row.unmet += 1

    @cython.cfunc
    def watch(self, row: Row) -> cython.bint:
        """Let a row watch the unmet need that lacks most, which tends to come last; return whether there is one."""
        other: Source
        watched: cython.longlong = -1
        number: cython.longlong = 0
        code: cython.longlong
        wanted: cython.longlong
        most: cython.longlong = 0
        for need in row.waited:
            code, wanted = need
            if wanted - self.level[code] > most:
                watched, number, most = code, wanted, wanted - self.level[code]
        if watched < 0:
            return False
        other = self.source(watched)
        if other.watchers is None:
            other.watchers = []
        row.rank = number
        heappush(other.watchers, row)
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

    @cython.ccall
    def wake(self, code: cython.longlong, ready: list) -> object:
        """Put the rows that waited for a source and are free now on the heap."""
        row: Row
        source: Source = self.extra[code]
        if source is None or source.watchers is None or self.level[code] < 1:
            return
        watchers: list = source.watchers
        if self.cyclic:
            source.watchers = None
            for each in watchers:
                row = each
                if row.here:
                    row.unmet -= 1
                    if row.unmet == 0:
                        row.rank = row.ticket
                        heappush(ready, row)
            return
        while watchers and cython.cast(Row, watchers[0]).rank <= self.level[code]:
            row = heappop(watchers)
            if row.here and not self.watch(row):  # else it watches its next need
                row.rank = row.ticket
                heappush(ready, row)
        if not watchers:
            source.watchers = None

    @cython.ccall
    def remove(self, row: Row) -> object:
        """Take a row out of the held ones."""
        own: Source = self.extra[row.code]
        other: Source
        code: cython.longlong
        row.here = False
        del self.kept[row.ticket]
        if not self.cyclic:
            del own.held[row.number]
            if not own.held:
                own.held = own.numbers = None
            return
        own.row = None
        for need in row.needs:
            code = need[0]
            other = self.extra[code]
            other.refs -= 1
            if other.refs == 0 and other.retired:
                self.loose.append(code)
        if row.unmet == 0:
            return
        for need in row.waited:
            other = self.extra[need[0]]
            if other.watchers is not None:
                other.stale += 1
                if 2 * other.stale > len(other.watchers):
                    other.watchers = [each for each in other.watchers if _here(each)] or None
                    other.stale = 0

    # -- causes that do not come -----------------------------------------------------------------------------------

    @cython.cfunc
    def first_unmet(self, row: Row) -> tuple:
        """Return the first need that a held row still waits for."""
        for need in row.waited:
            if self.level[cython.cast(cython.longlong, need[0])] < cython.cast(cython.longlong, need[1]):
                return need
        raise AssertionError("a row is held as long as a need of it is unmet")

    @cython.cfunc
    def before(self, need: tuple) -> tuple:
        """Return (None, the held row that must go before a need can be given up), or (what to give up, None).

        Of a dense source, the latter is the next number, all up to the first one that is here.
        """
        code: cython.longlong = need[0]
        level: cython.longlong = self.level[code]
        source: Source = self.extra[code]
        lowest: cython.longlong
        if source is None:
            return need, None
        if self.cyclic:
            return (need, None) if source.row is None or not source.row.here else (None, source.row)
        if source.held is None:
            return need, None
        if source.numbers is None:
            source.numbers = list(source.held)
            heapify(source.numbers)
        while source.numbers and (source.numbers[0] <= level or source.numbers[0] not in source.held):
            heappop(source.numbers)
        if not source.numbers or source.numbers[0] > need[1]:
            return need, None
        lowest = source.numbers[0]
        if self.dense and lowest > level + 1:
            return (code, lowest - 1), None
        if not _here(source.held[lowest]):  # it has started, and is not done
            return (code, lowest), None
        return None, source.held[lowest]

    @cython.cfunc
    def root(self, row: Row, found: dict) -> object:
        """Return the cause at the root of a row's wait; None where causes wait for each other.

        Follows what rows wait for first, from held row to held row; `found` is shared by many walks.
        """
        walked: dict = {}
        here: Row = row
        need: object = None
        while here is not None and here.ticket not in found and here.ticket not in walked:
            walked[here.ticket] = None
            need, here = self.before(self.first_unmet(here))
        if here is not None:
            need = found.get(here.ticket)
        for ticket in walked:
            found[ticket] = need
        return need

    @cython.cfunc
    def blocker(self, row: Row, root: object) -> tuple:
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
        """Tell whether a need has not come, wholly or in part, whether it was given up or not."""
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


@cython.cfunc
def _here(row: Row) -> cython.bint:
    return row.here
