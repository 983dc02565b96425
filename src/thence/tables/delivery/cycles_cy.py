# mypy: ignore-errors
# C types are in sources_cy.pxd and outcome_cy.pxd, where mypy does not see them.
"""Cycles of explicit causes among held rows.

*Invariant.* The rows on a cycle with a new row are those that it waits for and that wait for it, by way of held rows.
What it waits for and what waits for it are walked in turn, so that the smaller side decides. Where that takes long and
rows to come are known, a look at all of them at once says which can be on a cycle at all (`outlook_cy.py`).
"""

from __future__ import annotations

from array import array
from itertools import accumulate, chain

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

from thence.tables.delivery.possible_cycles_cy import ALONE, Outlook, components

if cython.compiled:
    from cython.cimports.thence.tables.delivery.sources_cy import Row, Source
else:
    from thence.tables.delivery.sources_cy import Row, Source


@cython.final
@cython.cclass
class Cycles:
    """The search while rows that came together are taken; `coming` is what was read of those from ticket `first` on."""

    kept: dict
    coming: list
    first: cython.longlong
    end: cython.longlong
    walked: cython.longlong
    epoch: cython.longlong
    outlook: object
    groups: dict

    def __init__(self, kept: dict) -> None:
        """Search among these held rows, by ticket."""
        self.kept = kept
        self.epoch = 0
        self.expect(0, [])

    @cython.ccall
    def expect(self, first: cython.longlong, coming: list) -> object:
        """Begin with rows of which this was read; the next ticket is `first`."""
        self.first, self.coming = first, coming
        self.end = first + len(coming)
        self.outlook = Outlook(len(self.kept) + len(coming), self.end) if coming else None
        self.walked = 0
        self.groups = {}  # by ticket, of rows that can be on a cycle, the group that walks stay in
        return None

    @cython.ccall
    def of(self, sources: dict, row: Row) -> list:
        """Return the held rows that are on a cycle with this one, in arrival order, or nothing."""
        if self.outlook is None:
            return self._walk(row, None)
        if self.walked > self.outlook.patience and row.ticket < self.end:
            self._look(sources, row.ticket, self.outlook.reach(row.ticket))
        group = self.groups.get(row.ticket)
        return [] if group is None and row.ticket < self.outlook.seen else self._walk(row, group)

    # -- one row ---------------------------------------------------------------------------------------------------

    @cython.cfunc
    def _walk(self, row: Row, group: object) -> list:
        """Walk from a row to both sides, within its group; None: through all that is held."""
        before: list = [row]
        behind: list = [row]
        reached: list = []
        self.epoch += 1
        while before and behind and row.causes != self.epoch and row.effects != self.epoch:
            self._to_causes(before.pop(), group, before, reached)
            self._to_effects(behind.pop(), group, behind)
            self.walked += 1
        if row.causes != self.epoch and row.effects != self.epoch:
            return []
        while before:
            self._to_causes(before.pop(), group, before, reached)
        while behind:
            self._to_effects(behind.pop(), group, behind)
            self.walked += 1
        self.walked += len(reached)
        return sorted([each for each in reached if self._both(each)], key=_ticket)

    @cython.cfunc
    def _both(self, row: Row) -> cython.bint:
        return row.effects == self.epoch

    @cython.cfunc
    def _to_causes(self, row: Row, group: object, stack: list, reached: list) -> cython.void:
        """Go on to the held rows that a row waits for; what was given up it does not wait for."""
        source: Source
        other: Row
        for need in row.waited:
            source = need[0]
            other = source.row
            if other is None or source.level > 0 or other.causes == self.epoch:
                continue
            if group is None or self.groups.get(other.ticket) == group:
                other.causes = self.epoch
                stack.append(other)
                reached.append(other)

    @cython.cfunc
    def _to_effects(self, row: Row, group: object, stack: list) -> cython.void:
        """Go on to the held rows that wait for a row; the start is reached only if an edge leads back to it."""
        other: Row
        source: Source = row.source
        if source.wanting is None or source.level > 0:
            return
        for effect in source.wanting.values():
            other = effect
            if other.effects != self.epoch and (group is None or self.groups.get(other.ticket) == group):
                other.effects = self.epoch
                stack.append(other)

    # -- all rows --------------------------------------------------------------------------------------------------

    @cython.cfunc
    def _look(self, sources: dict, ticket: cython.longlong, end: cython.longlong) -> cython.void:
        """Group the rows that are held, and those that come after this one up to another."""
        row: Row
        tickets: list = []
        named: list = []
        places: dict = {}
        for each in self.kept.values():
            row = each
            places[row.source.name] = len(tickets)
            tickets.append(row.ticket)
            named.append([_name(need[0]) for need in row.waited])
        for other in range(ticket + 1, end):
            read = self.coming[other - self.first]
            if not isinstance(read, str):
                places.setdefault(read[1], len(tickets))
                tickets.append(other)
                named.append(read[3])
        for name in [name for name in places if _level(sources.get(name)) > 0]:
            del places[name]
        groups = _groups([[places[name] for name in each if name in places] for each in named])
        self.walked = 0
        self.groups = {tickets[place]: group for place, group in enumerate(groups) if group != ALONE}
        self.outlook.looked(end, bool(self.groups))


@cython.cfunc
def _name(source: Source) -> object:
    return source.name


@cython.cfunc
def _level(source: Source | None) -> cython.longlong:
    return 0 if source is None else source.level


def _ticket(row: Row) -> int:
    return row.ticket


def _groups(causes: list[list[int]]) -> list[int]:
    """Return the group of each row, given the causes of each."""
    start = array("q", [0, *accumulate(map(len, causes))])
    number, low, under, groups = (array("q", [value]) * len(causes) for value in (0, 0, 0, ALONE))
    components(start, array("q", chain.from_iterable(causes)), array("q", start), number, low, under, groups)
    return list(groups)
