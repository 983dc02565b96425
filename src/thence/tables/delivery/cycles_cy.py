# mypy: ignore-errors
# C types are in sources_cy.pxd and outcome_cy.pxd, where mypy does not see them.
"""Cycles of explicit causes among held rows.

*Invariant.* The rows on a cycle with a new row are those that it waits for and that wait for it, by way of held rows.
What it waits for and what waits for it are walked in turn, so that the smaller side decides. Where that takes long and
rows to come are known, a look at all of them at once says which can be on a cycle at all (`possible_cycles_cy.py`).
"""

from __future__ import annotations

from array import array
from itertools import accumulate, chain

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

from thence.tables.delivery.possible_cycles_cy import ALONE, Outlook, number_components

if cython.compiled:
    from cython.cimports.thence.tables.delivery.coded_rows_cy import CodedRows
    from cython.cimports.thence.tables.delivery.codes_cy import Codes, Row, Source
else:
    from thence.tables.delivery.coded_rows_cy import CodedRows
    from thence.tables.delivery.codes_cy import Codes, Row, Source


@cython.final
@cython.cclass
class Cycles:
    """The search while rows that came together are taken; `coming` is what was read of those from ticket `first` on."""

    kept: dict
    coming: CodedRows
    first: cython.longlong
    end: cython.longlong
    place: cython.longlong
    walked: cython.longlong
    epoch: cython.longlong
    outlook: object
    groups: dict

    def __init__(self, kept: dict) -> None:
        """Search among these held rows, by ticket."""
        self.kept = kept
        self.epoch = 0
        self.expect(0, None, 0, 0)

    @cython.ccall
    def expect(
        self, first: cython.longlong, coming: CodedRows | None, place: cython.longlong, end: cython.longlong
    ) -> object:
        """Begin with the rows from a place of a batch on, up to another; the next ticket is `first`."""
        self.first, self.coming, self.place = first, coming, place
        self.end = first + end - place
        self.outlook = None if coming is None else Outlook(len(self.kept) + end - place, self.end)
        self.walked = 0
        self.groups = {}  # by ticket, of rows that can be on a cycle, the group that walks stay in
        return None

    @cython.ccall
    def of(self, sources: Codes, row: Row) -> list:
        """Return the held rows that are on a cycle with this one, in arrival order, or nothing."""
        if self.outlook is None:
            return self._walk(sources, row, None)
        if self.walked > self.outlook.patience and row.ticket < self.end:
            self._look(sources, row.ticket, self.outlook.reach(row.ticket))
        group = self.groups.get(row.ticket)
        return [] if group is None and row.ticket < self.outlook.seen else self._walk(sources, row, group)

    # -- one row ---------------------------------------------------------------------------------------------------

    @cython.cfunc
    def _walk(self, sources: Codes, row: Row, group: object) -> list:
        """Walk from a row to both sides, within its group; None: through all that is held."""
        before: list = [row]
        behind: list = [row]
        reached: list = []
        self.epoch += 1
        while before and behind and row.causes != self.epoch and row.effects != self.epoch:
            self._to_causes(sources, before.pop(), group, before, reached)
            self._to_effects(sources, behind.pop(), group, behind)
            self.walked += 1
        if row.causes != self.epoch and row.effects != self.epoch:
            return []
        while before:
            self._to_causes(sources, before.pop(), group, before, reached)
        while behind:
            self._to_effects(sources, behind.pop(), group, behind)
            self.walked += 1
        self.walked += len(reached)
        return sorted([each for each in reached if self._both(each)], key=_ticket)

    @cython.cfunc
    def _both(self, row: Row) -> cython.bint:
        return row.effects == self.epoch

    @cython.cfunc
    def _to_causes(self, sources: Codes, row: Row, group: object, stack: list, reached: list) -> cython.void:
        """Go on to the held rows that a row waits for; what was given up it does not wait for."""
        source: Source
        other: Row
        code: cython.longlong
        for need in row.waited:
            code = need[0]
            source = sources.extra[code]
            other = source.row
            if other is None or sources.level[code] > 0 or other.causes == self.epoch:
                continue
            if group is None or self.groups.get(other.ticket) == group:
                other.causes = self.epoch
                stack.append(other)
                reached.append(other)

    @cython.cfunc
    def _to_effects(self, sources: Codes, row: Row, group: object, stack: list) -> cython.void:
        """Go on to the held rows that wait for a row; the start is reached only if an edge leads back to it."""
        other: Row
        source: Source = sources.extra[row.code]
        if source.watchers is None or sources.level[row.code] > 0:
            return
        for effect in source.watchers:
            other = effect
            if other.here and other.effects != self.epoch and (group is None or self.groups.get(other.ticket) == group):
                other.effects = self.epoch
                stack.append(other)

    # -- all rows --------------------------------------------------------------------------------------------------

    @cython.cfunc
    def _look(self, sources: Codes, ticket: cython.longlong, end: cython.longlong) -> cython.void:
        """Group the rows that are held, and those that come after this one up to another."""
        row: Row
        place: cython.Py_ssize_t
        other: cython.longlong
        code: cython.longlong
        tickets: list = []
        needed: list = []
        places: dict = {}
        for each in self.kept.values():
            row = each
            places[row.code] = len(tickets)
            tickets.append(row.ticket)
            needed.append([need[0] for need in row.waited])
        for other in range(ticket + 1, end):
            place = other - self.first + self.place
            if self.coming.own[place] >= 0:
                places.setdefault(self.coming.own[place], len(tickets))
                tickets.append(other)
                needed.append(
                    [self.coming.need[at] for at in range(self.coming.start[place], self.coming.start[place + 1])]
                )
        for each in list(places):
            code = each
            if sources.level[code] > 0:
                del places[each]
        groups = _groups([[places[each] for each in codes if each in places] for codes in needed])
        self.walked = 0
        self.groups = {tickets[place]: group for place, group in enumerate(groups) if group != ALONE}
        self.outlook.looked(end, bool(self.groups))


def _ticket(row: Row) -> int:
    return row.ticket


def _groups(causes: list[list[int]]) -> list[int]:
    """Return the group of each row, given the causes of each."""
    start = array("q", [0, *accumulate(map(len, causes))])
    number, low, under, groups = (array("q", [value]) * len(causes) for value in (0, 0, 0, ALONE))
    number_components(start, array("q", chain.from_iterable(causes)), array("q", start), number, low, under, groups)
    return list(groups)
