"""Cycles of explicit causes among held rows, in plain Python: what `kernels/cycles.py` does by index.

Law. The rows on a cycle with a new row are those that it waits for and that wait for it, by way of held rows. What it
waits for and what waits for it are looked through in turn, so that the smaller side decides. Where that takes long and
rows to come are known, a look at all of them at once says which can be on a cycle at all (`kernels/outlook.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain

from thence.delivery.reading import Read
from thence.delivery.rule import Need, Rule, Source
from thence.kernels.outlook import ALONE, Outlook, components


class Cycles:
    """The search while the rows of a step come: `coming` is what was read of those from ticket `first` on."""

    def __init__(self, held: int = 0, first: int = 0, coming: Sequence[Read | str] = ()) -> None:
        """Begin a step, with so many rows held."""
        self.first, self.coming = first, coming
        self.outlook = Outlook(held + len(coming), first + len(coming))
        self.walked = 0
        self.groups: dict[int, int] = {}
        """by ticket, of rows that can be on a cycle, the group that walks stay in; up to where the last look ends"""

    def of(self, rule: Rule, ticket: int) -> list[int]:
        """Return the held rows that are on a cycle with this one, in the order of arrival, or nothing."""
        outlook = self.outlook
        if self.walked > outlook.patience and ticket < outlook.end:
            self._look(rule, ticket, outlook.reach(ticket))
        group = self.groups.get(ticket)
        return [] if group is None and ticket < outlook.seen else self._walk(rule, ticket, group)

    # -- one row ---------------------------------------------------------------------------------------------------

    def _walk(self, rule: Rule, ticket: int, group: int | None) -> list[int]:
        """Walk from a row to both sides, within its group; None: through all that is held."""
        causes, effects = set[int](), set[int]()
        before, behind = [ticket], [ticket]
        while before and behind and ticket not in causes and ticket not in effects:
            self._step(_causes(rule, before.pop()), group, causes, before)
            self._step(_effects(rule, behind.pop()), group, effects, behind)
            self.walked += 1
        if ticket not in causes and ticket not in effects:
            return []
        while before:
            self._step(_causes(rule, before.pop()), group, causes, before)
        while behind:
            self._step(_effects(rule, behind.pop()), group, effects, behind)
        self.walked += max(len(causes), len(effects))
        return sorted(causes & effects)

    def _step(self, found: Iterable[int], group: int | None, reached: set[int], stack: list[int]) -> None:
        """Go on from a row to those found next to it; the start is reached only if an edge leads back to it."""
        for there in found:
            if there not in reached and (group is None or self.groups.get(there) == group):
                reached.add(there)
                stack.append(there)

    # -- all rows --------------------------------------------------------------------------------------------------

    def _look(self, rule: Rule, ticket: int, end: int) -> None:
        """Group the rows that are held, and those that come after this one up to another."""
        tickets = list(rule.held)
        needs: list[Sequence[Need]] = [row.waited for row in rule.held.values()]
        places: dict[Source, int] = {row.source: place for place, row in enumerate(rule.held.values())}
        for other in range(ticket + 1, end):
            read = self.coming[other - self.first]
            if not isinstance(read, str):
                places.setdefault(read.source, len(tickets))
                tickets.append(other)
                needs.append(read.needs)
        places = {name: place for name, place in places.items() if rule.level(name) < 1}
        groups = _groups([[places[name] for name, _ in each if name in places] for each in needs])
        self.walked = 0
        self.groups = {tickets[place]: group for place, group in enumerate(groups) if group != ALONE}
        self.outlook.looked(end, bool(self.groups))


def _groups(causes: list[list[int]]) -> list[int]:
    """Return the group of each row, given the causes of each."""
    start = [0, *accumulate(map(len, causes))]
    number, low, under, groups = ([value] * len(causes) for value in (0, 0, 0, ALONE))
    components(start, list(chain.from_iterable(causes)), start.copy(), number, low, under, groups)
    return groups


def _causes(rule: Rule, ticket: int) -> Iterable[int]:
    """Return the held rows that a row waits for; what was given up it does not wait for."""
    at, holes = rule.at, rule.holes
    return [at[need] for need in rule.held[ticket].waited if need in at and need[0] not in holes]


def _effects(rule: Rule, ticket: int) -> Iterable[int]:
    """Return the held rows that wait for a row."""
    source = rule.held[ticket].source
    return () if source in rule.holes else rule.wanting.get(source, ())
