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
    from cython.cimports.thence.tables.delivery.outcome_cy import Outcome
    from cython.cimports.thence.tables.delivery.sources_cy import Row, Source, Sources, held_row
else:
    from thence.tables.delivery.outcome_cy import Outcome
    from thence.tables.delivery.sources_cy import Row, Source, Sources, held_row

if TYPE_CHECKING:
    from thence.tables.delivery.reading import Reading

QUARANTINED: cython.int = KINDS.index(Kind.QUARANTINED)


@cython.cclass
class Completion(Sources):
    """The started rows of one key by ticket, and what each end of a handler does to the rows behind it."""

    def __init__(self, reading: Reading, remember: int | None = None) -> None:
        """Meet causes when their rows leave."""
        Sources.__init__(self, reading, remember)
        self.started = None
        self.dead = {}  # the lowest dead-lettered number by source
        self.why = ""

    def by_completion(self) -> None:
        """Meet causes when `done` is called for their rows."""
        self.started = {}

    # -- what `Rule` supplies --------------------------------------------------------------------------------------

    @cython.cfunc
    def cascade(self, source: Source, out: list) -> cython.void:
        """Let go the rows that a source set free."""
        raise NotImplementedError

    @cython.cfunc
    def meet(self, sources: dict, own: Source | None, name: object, number: cython.longlong) -> cython.void:
        """Count a row as delivered."""
        raise NotImplementedError

    @cython.cfunc
    def unplaced(self, row: Row, kind: cython.int, reason: object) -> Outcome:
        """Return the outcome of a held row that leaves without a position."""
        raise NotImplementedError

    # -- a handler begins and ends ---------------------------------------------------------------------------------

    @cython.cfunc
    def start(self, sources: dict, own: Source | None, identity: tuple, ticket: cython.longlong) -> cython.void:
        """Note that a free row leaves; `identity`: its causal order, source and number."""
        source: Source = self.source(sources, identity[1]) if own is None else own
        row: Row = held_row(ticket, identity[0], source, identity[2])
        row.here = False
        self.started[ticket] = row
        if self.cyclic:
            source.row = row
            return
        if source.held is None:
            source.held = {}
        source.held[row.number] = row
        source.numbers = None

    @cython.cfunc
    def stop(self, ticket: cython.longlong) -> Row:
        row: Row = self.started.pop(ticket)
        source: Source = row.source
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
        out: list = []
        row: Row = self.stop(ticket)
        source: Source = row.source
        self.meet(self.orders[row.label], source, source.name, row.number)
        if source.watchers is not None:
            self.cascade(source, out)
        return out

    def skip(self, ticket: cython.longlong, why: str) -> list[Outcome]:
        """Give up a started row as a cause; its effects are released without it."""
        out: list = []
        row: Row = self.stop(ticket)
        source: Source = row.source
        if row.number > source.level:
            self.waive(source, row.number)
        if source.watchers is not None:
            self.why = f", {why}"
            self.cascade(source, out)
            self.why = ""
        return out

    def met_elsewhere(self, names: list) -> list[Outcome]:
        """Count causes that have not arrived as delivered: the target has them. Explicit causes only."""
        out: list = []
        source: Source
        sources: dict = self.order(None)
        for name in names:
            source = self.known(sources, name)
            if source is None or source.level > 0 or source.row is not None:
                continue
            self.meet(sources, source, name, 1)
            if source.watchers is not None:
                self.cascade(source, out)
        return out

    def unarrived(self, ticket: cython.longlong) -> list[str]:
        """Return the causes of a held row of which nothing has arrived."""
        row: Row = self.kept[ticket]
        found: list = []
        source: Source
        for need in row.waited:
            source = need[0]
            if source.level < 1 and source.row is None and not source.quarantined:
                found.append(source.name)
        return found

    def lacks_arrival(self, name: str) -> bool:
        """Tell whether a held row waits for a cause of which nothing has arrived. Explicit causes only."""
        source: Source = self.order(None).get(name)
        if source is None or source.level > 0 or source.quarantined:
            return False
        return source.row is None and source.wanting is not None

    # -- a row that is taken back ----------------------------------------------------------------------------------

    def withdraw(self, ticket: cython.longlong) -> None:
        """Take back a row that is held or has started: as if it had never come."""
        row: Row = self.kept.get(ticket)
        need: tuple
        if row is None:
            row = self.stop(ticket)
        else:
            self.remove(row)
        row.source.seen -= 1
        for need in row.waited:
            self.forget(row.label, need[0])
        self.forget(row.label, row.source)

    @cython.cfunc
    def forget(self, label: object, source: Source) -> cython.void:
        """Drop an id of which nothing is known any more."""
        used: cython.bint = source.row is not None or source.wanting is not None or source.quarantined
        if self.cyclic and source.level < 1 and not used:
            self.orders[label].pop(source.name, None)

    # -- causes that are given up ----------------------------------------------------------------------------------

    @cython.cfunc
    def give_up_root(self, row: Row, out: list) -> cython.void:
        """Give up the cause at the root of a held row's wait."""
        need: tuple = self.root(row, {})
        if need is None:
            need = self.first_unmet(row)
        self.waive(need[0], need[1])
        self.cascade(need[0], out)

    def give_up(self, cause: str, why: str) -> list[Outcome]:
        """Give up a cause by name: rows that are blocked by it go on, and so do those that name it later."""
        out: list = []
        self.why = f", {why}"
        for label, sources in list(self.orders.items()):
            row = self.blocked_by(cause, label)
            if row is not None:
                self.give_up_root(row, out)
            elif self.cyclic:
                source: Source = self.source(sources, cause)
                if source.row is None and source.level < 1:
                    self.waive(source, 1)
        self.why = ""
        return out

    @cython.cfunc
    def blocked_by(self, cause: str, label: object) -> Row:
        """Return the first held row of an order that is blocked by this cause, or None."""
        row: Row
        found: dict = {}
        for each in self.kept.values():
            row = each
            if row.source is not None and row.label == label:
                need: tuple = self.blocker(row, self.root(row, found))
                if self.name(need[0], need[1]) == cause:
                    return row
        return None

    # -- dead letters ----------------------------------------------------------------------------------------------

    def dead_letter(self, ticket: cython.longlong, why: str) -> list[Outcome]:
        """Set aside a started row, and return the held rows behind it, which are set aside with it."""
        out: list = []
        row: Row = self.stop(ticket)
        self.bury(row.source, row.number, why, out)
        return out

    @cython.cfunc
    def bury(self, source: Source, number: cython.longlong, reason: str, out: list) -> cython.void:
        """Mark a number of a source as dead, and remove every held row that needs it, directly or not."""
        effect: Row
        buried: Source
        stack: list = [(source, number)]
        while stack:
            buried, number = stack.pop()
            buried.quarantined = self.cyclic
            lowest = self.dead.get(buried)
            self.dead[buried] = number if lowest is None else min(number, lowest)
            for each in self.effects(buried):
                effect = each
                if effect.here:
                    self.remove(effect)
                    out.append(self.unplaced(effect, QUARANTINED, reason))
                    stack.append((effect.source, effect.number))
        out.sort(key=_ticket)

    @cython.cfunc
    def effects(self, source: Source) -> list:
        """Return the held rows that need what is dead of a source."""
        row: Row
        found: list = []
        if self.cyclic:  # what was skipped before is not waited for
            return [] if source.wanting is None or source.level > 0 else list(source.wanting.values())
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


def _ticket(made: Outcome) -> int:
    return made.ticket
