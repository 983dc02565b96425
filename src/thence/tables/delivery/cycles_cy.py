# mypy: ignore-errors
# C types are in codes_cy.pxd and held_cy.pxd, where mypy does not see them.
"""Cycles of explicit causes among held rows.

*Invariant.* The rows on a cycle with a new row are those that it waits for and that wait for it, by way of held rows.
The causes and the effects of the row are walked in turn, so that the smaller side decides. If that takes long and
later rows are known, one pass over all of them finds those that can be on a cycle at all (`possible_cycles.py`).
"""

from __future__ import annotations

from array import array
from itertools import accumulate, chain

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

from thence.core.model.strong_components_cy import ALONE, number_components
from thence.tables.delivery.possible_cycles import Outlook

if cython.compiled:
    from cython.cimports.thence.tables.delivery.coded_rows_cy import CodedRows
    from cython.cimports.thence.tables.delivery.codes_cy import Codes
    from cython.cimports.thence.tables.delivery.held_cy import NO_LONGS
else:
    from thence.tables.delivery.coded_rows_cy import CodedRows
    from thence.tables.delivery.codes_cy import Codes
    from thence.tables.delivery.held_cy import NO_LONGS


@cython.final
@cython.cclass
class Cycles:
    """The search while rows that came together are taken; `coming` is what was read of those from ticket `first` on."""

    causes: cython.longlong[::1]
    effects: cython.longlong[::1]
    coming: CodedRows
    first: cython.longlong
    end: cython.longlong
    place: cython.longlong
    held: cython.longlong
    walked: cython.longlong
    epoch: cython.longlong
    outlook: object
    groups: dict

    def __init__(self) -> None:
        """Begin; `causes` and `effects` say of each held row in which walk it was last reached from either side."""
        self.epoch = 0
        self.causes = self.effects = NO_LONGS
        self.expect(0, 0, None, 0, 0)

    @cython.ccall
    def expect(
        self, held: cython.longlong, first: cython.longlong, coming: CodedRows | None, place: cython.longlong,
        end: cython.longlong,
    ) -> object:  # fmt: skip
        """Begin with the rows from a place of a batch on, up to another; the next ticket is `first`."""
        self.first, self.coming, self.place = first, coming, place
        self.end = first + end - place
        self.outlook = None
        self.held = held
        self.walked = 0
        self.groups = {}  # by ticket, of rows that can be on a cycle, the group that walks stay in
        return None

    @cython.ccall
    def of(self, sources: Codes, row: cython.int) -> list:
        """Return the held rows that are on a cycle with this one, in arrival order, or nothing."""
        ticket: cython.longlong = sources.at.row_ticket[row]
        if self.coming is None:
            return self._walk(sources, row, None)
        if self.outlook is None:
            self.outlook = Outlook(self.held + self.end - self.first, self.end)
        if self.walked > self.outlook.patience and ticket < self.end:
            self._look(sources, ticket, self.outlook.reach(ticket))
        group = self.groups.get(ticket)
        return [] if group is None and ticket < self.outlook.seen else self._walk(sources, row, group)

    # -- one row ---------------------------------------------------------------------------------------------------

    @cython.cfunc
    def _walk(self, sources: Codes, row: cython.int, group: object) -> list:
        """Walk from a row to both sides, within its group; None: through all that is held."""
        before: list = [row]
        behind: list = [row]
        reached: list = []
        if len(self.causes) < len(sources.at.row_ticket):
            self.causes = sources.room.more_longs(self.causes, len(sources.at.row_ticket))
            self.effects = sources.room.more_longs(self.effects, len(sources.at.row_ticket))
        self.epoch += 1
        while before and behind and self.causes[row] != self.epoch and self.effects[row] != self.epoch:
            self._to_causes(sources, before.pop(), group, before, reached)
            self._to_effects(sources, behind.pop(), group, behind)
            self.walked += 1
        if self.causes[row] != self.epoch and self.effects[row] != self.epoch:
            return []
        while before:
            self._to_causes(sources, before.pop(), group, before, reached)
        while behind:
            self._to_effects(sources, behind.pop(), group, behind)
            self.walked += 1
        self.walked += len(reached)
        both: list = []
        for each in reached:
            row = each
            if self.effects[row] == self.epoch:
                both.append((sources.at.row_ticket[row], row))
        return [each for _, each in sorted(both)]

    @cython.cfunc
    def _to_causes(self, sources: Codes, row: cython.int, group: object, stack: list, reached: list) -> cython.void:
        """Continue with the held rows that a row waits for; it does not wait for given-up causes."""
        other: cython.int
        need: cython.int = sources.at.row_needs[row]
        while need:
            if sources.at.need_before[need] >= 0:
                other = sources.row_of[sources.at.need_code[need]]
                if other and self.causes[other] != self.epoch and self._in(sources, other, group):
                    self.causes[other] = self.epoch
                    stack.append(other)
                    reached.append(other)
            need = sources.at.need_next[need]

    @cython.cfunc
    def _to_effects(self, sources: Codes, row: cython.int, group: object, stack: list) -> cython.void:
        """Continue with the held rows that wait for a row; reaching the start again means a cycle."""
        other: cython.int
        need: cython.int = sources.watch[sources.at.row_code[row]]
        while need:
            other = sources.at.need_row[need]
            if self.effects[other] != self.epoch and self._in(sources, other, group):
                self.effects[other] = self.epoch
                stack.append(other)
            need = sources.at.need_after[need]

    @cython.cfunc
    def _in(self, sources: Codes, row: cython.int, group: object) -> cython.bint:
        return group is None or self.groups.get(sources.at.row_ticket[row]) == group

    # -- all rows --------------------------------------------------------------------------------------------------

    @cython.cfunc
    def _look(self, sources: Codes, ticket: cython.longlong, end: cython.longlong) -> cython.void:
        """Group the rows that are held, and those that come after this one up to another."""
        row: cython.int = sources.head
        place: cython.Py_ssize_t
        other: cython.longlong
        code: cython.longlong
        tickets: list = []
        needed: list = []
        places: dict = {}
        while row:
            places[sources.at.row_code[row]] = len(tickets)
            tickets.append(sources.at.row_ticket[row])
            needed.append([need[0] for need in sources.pairs(row, True)])
            row = sources.at.row_after[row]
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


def _groups(causes: list[list[int]]) -> list[int]:
    """Return the group of each row, given the causes of each."""
    start = array("q", [0, *accumulate(map(len, causes))])
    number, low, under, groups = (array("q", [value]) * len(causes) for value in (0, 0, 0, ALONE))
    number_components(start, array("q", chain.from_iterable(causes)), array("q", start), number, low, under, groups)
    return list(groups)
