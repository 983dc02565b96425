"""The shared delivery rule with what a consumer needs beyond a member: letting go of causes that do not come.

Law. A row has a source and a number, and needs pairs (source, number). It is free when delivered[s] >= t for each of
its needs (s, t). A delivery raises delivered[source] to the row's number; then, as long as a held row is free, the
free one that arrived first is delivered next. This is the rule of `protocols/receiver.py`, row for row (a test holds
them equal); one reading makes it serve all three kinds of arrivals:

- a stamp: sources are positions in the roster, numbers are the protocol's own;
- a clock: sources are senders by name, numbers count their messages to this destination;
- explicit causes: every message is a source of its own, with the one number 1.

To *waive* (s, t) is to count it as delivered though it has not come. From then on the source's numbers above what was
delivered before are kept one by one in `beyond`, so that a waived row that comes after all is late, not a duplicate.
Numbers of one source follow each other causally, so what is held of a source below t goes before t is waived.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

Source = Hashable
Need = tuple[Source, int]

LISTED = 100
"""How many missing numbers of one source are listed one by one; a clock may claim any number."""


class Held(NamedTuple):
    """A row that waits; `needs` are those that were unmet when it came."""

    source: Source
    number: int
    needs: tuple[Need, ...]


class Lane:
    """One causal order at one destination."""

    def __init__(self, *, dense: bool, remember: int | None = None, cyclic: bool = False) -> None:
        """`dense`: every number of a source comes here. `cyclic`: needs may form cycles, which are looked for."""
        self.dense, self.remember, self.cyclic = dense, remember, cyclic
        self.delivered: dict[Source, int] = {}
        self.held: dict[int, Held] = {}
        self.at: dict[Need, int] = {}
        self.numbers: dict[Source, list[int]] = {}
        self.wanted: dict[Source, int] = {}
        self.watch: dict[Source, list[tuple[int, int]]] = {}
        self.solid: dict[Source, int] = {}
        self.beyond: dict[Source, dict[int, None]] = {}
        self.forgot: dict[Source, int] = {}
        self.seen: dict[Source, int] = {}
        self._kept: dict[Need, None] = {}

    # -- the rule --------------------------------------------------------------------------------------------------

    def known(self, source: Source, number: int) -> str | None:
        """Say why a row is a duplicate, or None."""
        if (source, number) in self.at:
            return "it is held already"
        if number > self.delivered.get(source, 0):
            return None
        solid = self.solid.get(source)
        if solid is not None and number > solid and number not in self.beyond[source]:
            return None
        if number <= self.forgot.get(source, 0):
            return f"older than the {self.remember} ids remembered: counts as delivered"
        return "it was delivered before"

    def late(self, source: Source, number: int) -> bool:
        """Tell whether a row that is not a duplicate was waived earlier."""
        return source in self.solid and number <= self.delivered.get(source, 0)

    def unmet(self, needs: Iterable[Need]) -> tuple[Need, ...]:
        """Return the needs that are not met."""
        delivered = self.delivered
        return tuple([need for need in needs if delivered.get(need[0], 0) < need[1]])

    def hold(self, ticket: int, source: Source, number: int, unmet: tuple[Need, ...]) -> None:
        """Keep a row until its needs are met."""
        self.held[ticket] = Held(source, number, unmet)
        self.at[source, number] = ticket
        if self.cyclic:
            for cause, _ in unmet:
                self.wanted[cause] = self.wanted.get(cause, 0) + 1
        else:
            insort(self.numbers.setdefault(source, []), number)
        need = next((need for need in unmet if self.delivered.get(need[0], 0) < need[1]), unmet[0])
        heappush(self.watch.setdefault(need[0], []), (need[1], ticket))

    def deliver(self, source: Source, number: int) -> None:
        """Note a delivery."""
        if number > self.delivered.get(source, 0):
            self.delivered[source] = number
        if source in self.solid:
            self._note(source, number)
        if self.cyclic and self.remember is not None:
            while len(self.delivered) > self.remember:
                oldest = next(iter(self.delivered))
                del self.delivered[oldest]
                self.solid.pop(oldest, None)
                self.beyond.pop(oldest, None)

    def freed(self, source: Source) -> list[int]:
        """Return the tickets that watched a source and are free now; the others watch their next need."""
        watch = self.watch.get(source)
        if watch is None:
            return []
        now = self.delivered.get(source, 0)
        free: list[int] = []
        while watch and watch[0][0] <= now:
            _, ticket = heappop(watch)
            row = self.held.get(ticket)
            if row is None:
                continue
            unmet = next((need for need in row.needs if self.delivered.get(need[0], 0) < need[1]), None)
            if unmet is None:
                free.append(ticket)
            else:
                heappush(self.watch.setdefault(unmet[0], []), (unmet[1], ticket))
        if not watch:
            del self.watch[source]
        return free

    def take(self, ticket: int) -> Held:
        """Take a row out of the held ones."""
        row = self.held.pop(ticket)
        del self.at[row.source, row.number]
        if self.cyclic:
            for cause, _ in row.needs:
                self.wanted[cause] -= 1
                if not self.wanted[cause]:
                    del self.wanted[cause]
        else:
            numbers = self.numbers[row.source]
            del numbers[bisect_left(numbers, row.number)]
            if not numbers:
                del self.numbers[row.source]
        return row

    # -- causes that do not come -----------------------------------------------------------------------------------

    def root(self, ticket: int) -> Need:
        """Follow what a held row waits for to a cause that is not here."""
        seen = {ticket}
        while True:
            source, number = self.unmet(self.held[ticket].needs)[0]
            blocker = self._held_before(source, number)
            if blocker is None or blocker in seen:
                return source, self.delivered.get(source, 0) + 1 if self.dense else number
            seen.add(blocker)
            ticket = blocker

    def give_up(self, ticket: int) -> Source:
        """Waive the root of what a held row waits for, and return its source."""
        source, number = self.root(ticket)
        if self.dense:  # up to the next one that is here, or to what is needed of it
            wanted = max(t for row in self.held.values() for s, t in row.needs if s == source)
            number = max(number, min([n - 1 for n in self.numbers.get(source, ()) if n > number] + [wanted]))
        self.waive(source, number)
        return source

    def _held_before(self, source: Source, number: int) -> int | None:
        """Return the held row that must go before (source, number) can be given up: itself, or a lower one."""
        ticket = self.at.get((source, number))
        if self.cyclic or source not in self.numbers:
            return ticket
        low = self.delivered.get(source, 0)
        if self.dense:
            return self.at.get((source, low + 1))
        numbers = self.numbers[source]
        place = bisect_left(numbers, low + 1)
        return self.at[source, numbers[place]] if place < len(numbers) and numbers[place] < number else ticket

    def waive(self, source: Source, number: int) -> None:
        """Count a cause as delivered; what was truly delivered of its source is told apart from now on."""
        self.solid.setdefault(source, self.delivered.get(source, 0))
        self.beyond.setdefault(source, {})
        self.delivered[source] = max(self.delivered.get(source, 0), number)

    def gap(self, needs: Sequence[Need]) -> tuple[Need, ...]:
        """Return the causes among these needs that were waived and have not come since."""
        if not self.solid:
            return ()
        found: dict[Need, None] = {}
        for source, number in needs:
            solid = self.solid.get(source)
            if solid is None:
                continue
            beyond = self.beyond[source]
            listed = 0
            for n in range(solid + 1, number + 1) if self.dense else (number,):
                if n > solid and n not in beyond:
                    found[source, n] = None
                    listed += 1
                    if listed == LISTED:
                        break
        return tuple(found)

    def absent(self, needs: Sequence[Need]) -> tuple[Need, ...]:
        """Return what these unmet needs miss, one by one."""
        if not self.dense:
            return tuple(needs)
        lows = [(s, self.delivered.get(s, 0), t) for s, t in needs]
        return tuple((s, n) for s, low, t in lows for n in range(low + 1, min(t, low + LISTED) + 1))

    def _note(self, source: Source, number: int) -> None:
        beyond = self.beyond[source]
        beyond[number] = None
        self._kept[source, number] = None
        if self.dense:
            while self.solid[source] + 1 in beyond:
                self._settle(source, self.solid[source] + 1)
        while self.remember is not None and len(self._kept) > self.remember:
            oldest, low = next(iter(self._kept))
            self.forgot[oldest] = max(low, self.forgot.get(oldest, 0))
            for n in [n for n in self.beyond.get(oldest, ()) if n <= low]:
                self._settle(oldest, n)
            self._kept.pop((oldest, low), None)
        if self.solid.get(source) == self.delivered[source]:
            del self.solid[source], self.beyond[source]

    def _settle(self, source: Source, number: int) -> None:
        self.solid[source] = max(self.solid[source], number)
        self.beyond[source].pop(number, None)
        self._kept.pop((source, number), None)

    def cycle(self, ticket: int) -> list[int]:
        """Return the held rows of a cycle through this one, in order, or nothing."""
        start = self.held[ticket]
        if not self.cyclic or start.source not in self.wanted or not any(n in self.at for n in start.needs):
            return []
        came_from: dict[int, int] = {}
        stack = [ticket]
        while stack:
            here = stack.pop()
            for need in self.unmet(self.held[here].needs):
                there = self.at.get(need)
                if there == ticket:
                    path = [here]
                    while path[-1] != ticket:
                        path.append(came_from[path[-1]])
                    return path[::-1]
                if there is not None and there not in came_from:
                    came_from[there] = here
                    stack.append(there)
        return []
