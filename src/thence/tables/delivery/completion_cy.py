# mypy: ignore-errors
# C types are in completion_cy.pxd, where mypy does not see them.
"""Delivery by completion: a cause is met when its handler has finished, not when its row leaves.

`Rule` builds on this class. After `by_completion` a row that is free *starts*: it leaves with its outcome, and its
effects stay held until `done`. A started row can also be skipped, dead-lettered with what is behind it, or withdrawn.

*Invariant.* A started row is in `started` and is not held. Its source still names it, so that a second row of one
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
    from cython.cimports.thence.tables.delivery.codes_cy import Source
    from cython.cimports.thence.tables.delivery.held_cy import HERE, STARTED
    from cython.cimports.thence.tables.delivery.outcome_cy import Outcomes
    from cython.cimports.thence.tables.delivery.sources_cy import Sources
else:
    from thence.tables.delivery.codes_cy import Source
    from thence.tables.delivery.held_cy import HERE, STARTED
    from thence.tables.delivery.outcome_cy import Outcomes
    from thence.tables.delivery.sources_cy import Sources

if TYPE_CHECKING:
    from thence.tables.delivery.outcome_cy import Outcome
    from thence.tables.delivery.reading import Reading
    from thence.tables.delivery.room_cy import Room

QUARANTINED = cython.declare(cython.int, KINDS.index(Kind.QUARANTINED))


@cython.cclass
class Completion(Sources):
    """The started rows of one key by ticket, and what each end of a handler does to the rows behind it."""

    def __init__(self, reading: Reading, remember: int | None = None, room: Room | None = None) -> None:
        """Meet causes when their rows leave."""
        Sources.__init__(self, reading, remember, room)
        self.started = None
        self.dead = {}  # the lowest dead-lettered number by code
        self.why = ""

    def by_completion(self) -> None:
        """Meet causes when `done` is called for their rows."""
        self.started = {}

    # -- what `Rule` supplies --------------------------------------------------------------------------------------

    @cython.cfunc
    def begun(self, into: Outcomes | None) -> Outcomes:
        """Return the outcome columns of this call; each call has its own."""
        raise NotImplementedError

    @cython.cfunc
    def cascade(self, code: cython.longlong, out: Outcomes) -> cython.void:
        """Release the rows that a source set free."""
        raise NotImplementedError

    @cython.cfunc
    def unplaced(self, row: cython.int, kind: cython.int, reason: object, out: Outcomes) -> cython.Py_ssize_t:
        """Record that a held row leaves without a position."""
        raise NotImplementedError

    # -- a handler begins and ends ---------------------------------------------------------------------------------

    @cython.cfunc
    def start(
        self, label: object, code: cython.longlong, number: cython.longlong, ticket: cython.longlong
    ) -> cython.void:
        """Note that a free row leaves."""
        row: cython.int = self.new_row(ticket, label, code, number)
        source: Source
        self.at.row_state[row] = STARTED
        self.started[ticket] = row
        if self.cyclic:
            self.row_of[code] = row
            return
        source = self.source(code)
        if source.held is None:
            source.held = {}
        source.held[number] = row
        source.numbers = None

    @cython.cfunc
    def stop(self, ticket: cython.longlong) -> cython.int:
        """Take a row out of the started ones; return its place, which is to be freed."""
        row: cython.int = self.started.pop(ticket)
        source: Source
        if self.cyclic:
            self.row_of[self.at.row_code[row]] = 0
        else:
            source = self.source(self.at.row_code[row])
            del source.held[self.at.row_number[row]]
            source.numbers = None
            if not source.held:
                source.held = None
        return row

    def done(self, ticket: cython.longlong) -> list[Outcome]:
        """Record that the handler of a started row has finished; return the rows that are free now."""
        out: Outcomes = self.begun(None)
        row: cython.int = self.stop(ticket)
        code: cython.longlong = self.at.row_code[row]
        self.met(code, self.at.row_number[row])
        self.free_row(row)
        self.cascade(code, out)
        return out.listed()

    def skip(self, ticket: cython.longlong, why: str) -> list[Outcome]:
        """Give up a started row as a cause; its effects are released without it."""
        out: Outcomes = self.begun(None)
        row: cython.int = self.stop(ticket)
        code: cython.longlong = self.at.row_code[row]
        if self.at.row_number[row] > self.level[code]:
            self.waive(code, self.at.row_number[row])
        self.free_row(row)
        self.why = f", {why}"
        self.cascade(code, out)
        self.why = ""
        return out.listed()

    def met_elsewhere(self, names: list) -> list[Outcome]:
        """Count causes that have not arrived as delivered: the target has them. Explicit causes only."""
        out: Outcomes = self.begun(None)
        code: cython.longlong
        for name in names:
            code = self.known(None, name)
            if code >= 0 and self.level[code] < 1 and not self.row_of[code]:
                self.met(code, 1)
                self.cascade(code, out)
        return out.listed()

    def unarrived(self, ticket: cython.longlong) -> list[str]:
        """Return the causes of a held row of which nothing has arrived."""
        found: list = []
        code: cython.longlong
        for need in self.pairs(self.place_of(ticket), True):
            code = need[0]
            if self.level[code] < 1 and not self.row_of[code] and not self.source(code).quarantined:
                found.append(self.text(code))
        return found

    def lacks_arrival(self, name: str) -> bool:
        """Return whether a held row waits for a cause of which nothing has arrived. Explicit causes only."""
        code: cython.longlong = self.known(None, name)
        if code < 0 or self.level[code] > 0 or self.row_of[code] or not self.watch[code]:
            return False
        return not self.source(code).quarantined

    # -- a row that is taken back ----------------------------------------------------------------------------------

    def withdraw(self, ticket: cython.longlong) -> None:
        """Remove a row that is held or has started, as if it had never come."""
        row: cython.int = self.place_of(ticket)
        if row:
            self.detach(row)
        else:
            row = self.stop(ticket)
        label, waited = self.labels.get(row), self.pairs(row, True)
        code: cython.longlong = self.at.row_code[row]
        source: Source = self.source(code)
        self.free_row(row)
        source.seen -= 1
        for need in waited:
            self.forget(label, need[0])
        self.forget(label, code)

    @cython.cfunc
    def forget(self, label: object, code: cython.longlong) -> cython.void:
        """Drop an id about which nothing is known any more."""
        source: Source = self.source(code)
        used: cython.bint = source.quarantined or self.refs[code] or self.row_of[code]
        if self.cyclic and self.level[code] < 1 and not used:
            self.orders[label].pop(self.names[code], None)
            self.recycle(code)

    # -- causes that are given up ----------------------------------------------------------------------------------

    @cython.cfunc
    def give_up_root(self, row: cython.int, out: Outcomes) -> cython.void:
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
        row: cython.int
        self.why = f", {why}"
        if self.lexicon is not None:
            self.settle()
        for label in list(self.orders):
            row = self.blocked_by(cause, label)
            if row:
                self.give_up_root(row, out)
            elif self.cyclic:
                code = self.code(label, cause)
                if self.level[code] < 1 and not self.row_of[code]:
                    self.waive(code, 1)
                    self.cascade(code, out)  # rows may wait for it that wait for something else first
        self.why = ""
        return out.listed() if into is None else []

    @cython.cfunc
    def blocked_by(self, cause: str, label: object) -> cython.int:
        """Return the first held row of an order that is blocked by this cause, or 0."""
        row: cython.int = self.head
        found: dict = {}
        while row:
            if self.at.row_code[row] >= 0 and self.labels.get(row) == label:
                need: tuple = self.blocker(row, self.root(row, found))
                if self.name(need[0], need[1]) == cause:
                    return row
            row = self.at.row_after[row]
        return 0

    # -- dead letters ----------------------------------------------------------------------------------------------

    def dead_letter(self, ticket: cython.longlong, why: str) -> list[Outcome]:
        """Set aside a started row, and return the held rows behind it, which are set aside with it."""
        out: Outcomes = self.begun(None)
        row: cython.int = self.stop(ticket)
        code: cython.longlong = self.at.row_code[row]
        number: cython.longlong = self.at.row_number[row]
        self.free_row(row)
        self.bury(code, number, why, out)
        return out.listed()

    @cython.cfunc
    def bury(self, code: cython.longlong, number: cython.longlong, reason: str, out: Outcomes) -> cython.void:
        """Mark a number of a source as dead, and remove every held row that needs it, directly or not."""
        effect: cython.int
        source: Source
        stack: list = [(code, number)]
        removed: list = []
        while stack:
            code, number = stack.pop()
            source = self.source(code)
            source.quarantined = self.cyclic
            lowest = self.dead.get(code)
            self.dead[code] = number if lowest is None else min(number, lowest)
            for each in self.effects(code):
                effect = each
                if self.at.row_state[effect] == HERE:
                    self.detach(effect)
                    removed.append((self.at.row_ticket[effect], effect))
                    stack.append((self.at.row_code[effect], self.at.row_number[effect]))
        for _, each in sorted(removed):
            self.unplaced(each, QUARANTINED, reason, out)
            self.free_row(each)

    @cython.cfunc
    def effects(self, code: cython.longlong) -> list:
        """Return the held rows that need what is dead of a source."""
        found: list = []
        need: cython.int = self.watch[code]
        if not self.cyclic:
            return [row for row in self.places() if self.behind(self.pairs(row, True)) is not None]
        while need and self.level[code] < 1:  # what was skipped before is not waited for
            found.append(self.at.need_row[need])
            need = self.at.need_after[need]
        return found

    @cython.cfunc
    def behind(self, waited: list) -> object:
        """Return the name of the first of these needs that is dead, or None."""
        for need in waited:
            lowest = self.dead.get(need[0])
            if lowest is not None and need[1] >= lowest:
                return self.name(need[0], need[1])
        return None
