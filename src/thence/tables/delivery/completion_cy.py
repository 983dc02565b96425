# mypy: ignore-errors
# C types are in completion_cy.pxd, where mypy does not see them.
"""Delivery by completion: a cause is met when its handler has finished, not when its row leaves.

`Rule` builds on this class. After `by_completion` a row that is free *starts*: it leaves with its outcome, and its
effects stay held until `done`. A started row can also be skipped, dead-lettered with what is behind it, or withdrawn.

*Invariant.* A started row is in `started` and not in `kept`. Its source still names it, so that a second row of one
id is a duplicate and the root of a wait ends at it. All its causes are met, so it is on no cycle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

from thence.tables.delivery.outcome import KINDS, Kind

if cython.compiled:
    from cython.cimports.thence.tables.delivery.codes_cy import Row, Source, held_row
    from cython.cimports.thence.tables.delivery.outcome_cy import Outcomes
    from cython.cimports.thence.tables.delivery.sources_cy import Sources
else:
    from thence.tables.delivery.codes_cy import Row, Source, held_row
    from thence.tables.delivery.outcome_cy import Outcomes
    from thence.tables.delivery.sources_cy import Sources

if TYPE_CHECKING:
    from thence.tables.delivery.outcome_cy import Outcome
    from thence.tables.delivery.reading import Reading

QUARANTINED: cython.int = KINDS.index(Kind.QUARANTINED)


@cython.cclass
class Completion(Sources):
    """The started rows of one key by ticket, and what each end of a handler does to the rows behind it."""

    def __init__(self, reading: Reading, remember: int | None = None) -> None:
        """Meet causes when their rows leave."""
        Sources.__init__(self, reading, remember)
        self.started = None
        self.dead = {}  # the lowest dead-lettered number by code
        self.why = ""

    def by_completion(self) -> None:
        """Meet causes when `done` is called for their rows."""
        self.started = {}

    # -- what `Rule` supplies --------------------------------------------------------------------------------------

    @cython.cfunc
    def begun(self, into: Outcomes | None) -> Outcomes:
        """Return where outcomes go: those of one call have columns of their own."""
        raise NotImplementedError

    @cython.cfunc
    def cascade(self, code: cython.longlong, out: Outcomes) -> cython.void:
        """Let go the rows that a source set free."""
        raise NotImplementedError

    @cython.cfunc
    def unplaced(self, row: Row, kind: cython.int, reason: object, out: Outcomes) -> cython.Py_ssize_t:
        """Say that a held row leaves without a position."""
        raise NotImplementedError

    # -- a handler begins and ends ---------------------------------------------------------------------------------

    @cython.cfunc
    def start(
        self, label: object, code: cython.longlong, number: cython.longlong, ticket: cython.longlong
    ) -> cython.void:
        """Note that a free row leaves."""
        source: Source = self.source(code)
        row: Row = held_row(ticket, label, code, number)
        row.here = False
        self.started[ticket] = row
        if self.cyclic:
            source.row = row
            return
        if source.held is None:
            source.held = {}
        source.held[number] = row
        source.numbers = None

    @cython.cfunc
    def stop(self, ticket: cython.longlong) -> Row:
        """Take a running row out, and return it."""
        row: Row = self.started.pop(ticket)
        source: Source = self.source(row.code)
        if self.cyclic:
            source.row = None
        else:
            del source.held[row.number]
            source.numbers = None
            if not source.held:
                source.held = None
        return row

    def done(self, ticket: cython.longlong) -> list[Outcome]:
        """Say that the handler of a started row has finished; return the rows that are free now."""
        out: Outcomes = self.begun(None)
        row: Row = self.stop(ticket)
        self.met(row.code, row.number)
        self.cascade(row.code, out)
        return out.listed()

    def skip(self, ticket: cython.longlong, why: str) -> list[Outcome]:
        """Give up a started row as a cause; its effects are released without it."""
        out: Outcomes = self.begun(None)
        row: Row = self.stop(ticket)
        if row.number > self.level[row.code]:
            self.waive(row.code, row.number)
        self.why = f", {why}"
        self.cascade(row.code, out)
        self.why = ""
        return out.listed()

    def met_elsewhere(self, names: list) -> list[Outcome]:
        """Count causes that have not arrived as delivered: the target has them. Explicit causes only."""
        out: Outcomes = self.begun(None)
        source: Source
        code: cython.longlong
        for name in names:
            code = self.known(None, name)
            if code < 0 or self.level[code] > 0:
                continue
            source = self.extra[code]
            if source is None or source.row is None:
                self.met(code, 1)
                self.cascade(code, out)
        return out.listed()

    def unarrived(self, ticket: cython.longlong) -> list[str]:
        """Return the causes of a held row of which nothing has arrived."""
        row: Row = self.kept[ticket]
        found: list = []
        source: Source
        for need in row.waited:
            source = self.source(need[0])
            if self.level[cython.cast(cython.longlong, need[0])] < 1 and source.row is None and not source.quarantined:
                found.append(self.text(need[0]))
        return found

    def lacks_arrival(self, name: str) -> bool:
        """Tell whether a held row waits for a cause of which nothing has arrived. Explicit causes only."""
        code: cython.longlong = self.known(None, name)
        source: Source
        if code < 0 or self.level[code] > 0:
            return False
        source = self.source(code)
        return source.row is None and source.watchers is not None and not source.quarantined

    # -- a row that is taken back ----------------------------------------------------------------------------------

    def withdraw(self, ticket: cython.longlong) -> None:
        """Take back a row that is held or has started: as if it had never come."""
        row: Row = self.kept.get(ticket)
        source: Source
        if row is None:
            row = self.stop(ticket)
        else:
            self.remove(row)
        source = self.source(row.code)
        source.seen -= 1
        for need in row.waited:
            self.forget(row.label, need[0])
        self.forget(row.label, row.code)

    @cython.cfunc
    def forget(self, label: object, code: cython.longlong) -> cython.void:
        """Drop an id of which nothing is known any more."""
        source: Source = self.source(code)
        used: cython.bint = source.row is not None or source.watchers is not None or source.quarantined
        if self.cyclic and self.level[code] < 1 and not used and source.refs == 0:
            self.orders[label].pop(self.names[code], None)
            self.recycle(code)

    # -- causes that are given up ----------------------------------------------------------------------------------

    @cython.cfunc
    def give_up_root(self, row: Row, out: Outcomes) -> cython.void:
        """Give up the cause at the root of a held row's wait."""
        need: tuple = self.root(row, {})
        if need is None:
            need = self.first_unmet(row)
        self.waive(need[0], need[1])
        self.cascade(need[0], out)

    def give_up(self, cause: str, why: str, into: Outcomes | None = None) -> list[Outcome]:
        """Give up a cause by name: rows that are blocked by it go on, and so do those that name it later."""
        out: Outcomes = self.begun(into)
        code: cython.longlong
        source: Source
        self.why = f", {why}"
        if self.lexicon is not None:
            self.settle()
        for label in list(self.orders):
            row = self.blocked_by(cause, label)
            if row is not None:
                self.give_up_root(row, out)
            elif self.cyclic:
                code = self.code(label, cause)
                source = self.extra[code]
                if self.level[code] < 1 and (source is None or source.row is None):
                    self.waive(code, 1)
        self.why = ""
        return out.listed() if into is None else []

    @cython.cfunc
    def blocked_by(self, cause: str, label: object) -> Row:
        """Return the first held row of an order that is blocked by this cause, or None."""
        row: Row
        found: dict = {}
        for each in self.kept.values():
            row = each
            if row.code >= 0 and row.label == label:
                need: tuple = self.blocker(row, self.root(row, found))
                if self.name(need[0], need[1]) == cause:
                    return row
        return None

    # -- dead letters ----------------------------------------------------------------------------------------------

    def dead_letter(self, ticket: cython.longlong, why: str) -> list[Outcome]:
        """Set aside a started row, and return the held rows behind it, which are set aside with it."""
        out: Outcomes = self.begun(None)
        row: Row = self.stop(ticket)
        self.bury(row.code, row.number, why, out)
        return out.listed()

    @cython.cfunc
    def bury(self, code: cython.longlong, number: cython.longlong, reason: str, out: Outcomes) -> cython.void:
        """Mark a number of a source as dead, and remove every held row that needs it, directly or not."""
        effect: Row
        source: Source
        stack: list = [(code, number)]
        removed: list = []
        while stack:
            code, number = stack.pop()
            source = self.source(code)
            source.quarantined = self.cyclic
            lowest = self.dead.get(code)
            self.dead[code] = number if lowest is None else min(number, lowest)
            for each in self.effects(code, source):
                effect = each
                if effect.here:
                    self.remove(effect)
                    removed.append(effect)
                    stack.append((effect.code, effect.number))
        for each in sorted(removed, key=_ticket):
            self.unplaced(each, QUARANTINED, reason, out)

    @cython.cfunc
    def effects(self, code: cython.longlong, source: Source) -> list:
        """Return the held rows that need what is dead of a source."""
        row: Row
        found: list = []
        if self.cyclic:  # what was skipped before is not waited for
            return [] if source.watchers is None or self.level[code] > 0 else list(source.watchers)
        for each in self.kept.values():
            row = each
            if self.behind(row.waited) is not None:
                found.append(row)
        return found

    @cython.cfunc
    def behind(self, waited: list) -> object:
        """Return the name of the first of these needs that is dead, or None."""
        for need in waited:
            lowest = self.dead.get(need[0])
            if lowest is not None and need[1] >= lowest:
                return self.name(need[0], need[1])
        return None


def _ticket(row: Row) -> int:
    return row.ticket
