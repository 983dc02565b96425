"""The shared delivery rule with what a consumer needs beyond a member: giving up causes that do not come.

Law. A row has a source and a number, and needs pairs (source, number). It is free by the rule of
`protocols/waiting.py`; its delivery raises delivered[source] to its number. One reading makes it serve all three kinds
of arrivals:

- a stamp: sources are positions in the roster, numbers are the protocol's own;
- a clock: sources are senders by name, numbers count their messages to this destination (*dense*: all of them come);
- explicit causes: every message is a source of its own, with the one number 1 (*cyclic*: they may form cycles).

To *give up* the numbers of a source up to t is to count them as delivered though they have not come. What was given up
and has not come since is kept as *holes*: ranges of numbers, first and last. A row in a hole that comes after all is
late, not a duplicate; a row that needs a number in a hole goes without it, and says so. Numbers of one source follow
each other causally, so what is held of a source below t goes before t is given up.

Explicit causes can be *forgotten*: beyond the last `remember` ids that were delivered, a fingerprint of each is kept.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from thence.protocols.waiting import Watches, first_unmet, wake, watch

Source = Hashable
Need = tuple[Source, int]
Hole = tuple[int, int]
"""The first and the last of the numbers that were given up"""

LISTED = 100
"""How many missing numbers of one source are listed one by one; a clock may claim any number."""


class Held(NamedTuple):
    """A row that waits; `needs` are those that had not come when it came, `waited` those it is held for."""

    source: Source
    number: int
    needs: tuple[Need, ...]
    waited: tuple[Need, ...]


class Absent(NamedTuple):
    """Causes that have not come: at most `LISTED` of each source one by one, and how many there are."""

    causes: tuple[Need, ...]
    total: int


NOTHING = Absent((), 0)


def fingerprint(message: str) -> int:
    """Return 64 bits of an id: among 18 million million ids, less than one in a million is taken for another."""
    return int.from_bytes(blake2b(message.encode(), digest_size=8).digest(), "little", signed=True)


class Levels(dict[Source, int]):
    """The number up to which each source counts as delivered: 0 if it is not known, 1 if it was forgotten."""

    def __init__(self) -> None:
        """Know no source yet."""
        super().__init__()
        self.forgotten: set[int] = set()
        """fingerprints of ids that were delivered long ago"""

    def __missing__(self, source: Source) -> int:
        return int(fingerprint(str(source)) in self.forgotten) if self.forgotten else 0


class Rule:
    """One causal order at one destination."""

    def __init__(self, *, dense: bool, cyclic: bool = False, remember: int | None = None) -> None:
        """`dense`: every number of a source comes here. `cyclic`: needs may form cycles, which are looked for."""
        self.dense, self.cyclic, self.remember = dense, cyclic, remember
        self.delivered = Levels()
        self.holes: dict[Source, list[Hole]] = {}
        self.held: dict[int, Held] = {}
        self.at: dict[Need, int] = {}
        self.seen: dict[Source, int] = {}
        self.quarantined: dict[Source, None] = {}
        self.recent: deque[Source] = deque()
        self.numbers: dict[Source, list[int]] = {}
        self.wanting: dict[Source, dict[int, None]] = {}
        self.watch: Watches[Source] = {}

    # -- the rule --------------------------------------------------------------------------------------------------

    def level(self, source: Source) -> int:
        """Return the number up to which a source counts as delivered."""
        return self.delivered[source]

    def known(self, source: Source, number: int) -> str | None:
        """Say why a row is a duplicate, or None."""
        if (source, number) in self.at:
            return "it is held already"
        if source in self.quarantined:
            return "it was quarantined before"
        if number > self.level(source) or self.late(source, number):
            return None
        return "it was delivered before"

    def late(self, source: Source, number: int) -> bool:
        """Tell whether a row was given up earlier and has not come since."""
        return any(first <= number <= last for first, last in self.holes.get(source, ()))

    def unmet(self, needs: Iterable[Need]) -> tuple[Need, ...]:
        """Return the needs that are not met."""
        return tuple([need for need in needs if self.level(need[0]) < need[1]])

    def to_come(self, needs: Iterable[Need]) -> tuple[Need, ...]:
        """Return the needs that are not met, or are met only because something was given up."""
        return tuple([need for need in needs if self.level(need[0]) < need[1] or self._gone(*need)])

    def hold(self, ticket: int, row: Held) -> None:
        """Keep a row until its needs are met."""
        self.held[ticket] = row
        self.at[row.source, row.number] = ticket
        if self.cyclic:
            for cause, _ in row.waited:
                self.wanting.setdefault(cause, {})[ticket] = None
        else:
            insort(self.numbers.setdefault(row.source, []), row.number)
        watch(self.watch, self.first_unmet(ticket), ticket)

    def deliver(self, source: Source, number: int) -> None:
        """Note a delivery."""
        if source in self.holes:
            self._fill(source, number)
            if self.cyclic:  # it comes last among the ids that were delivered
                del self.delivered[source]
        if number > self.delivered.get(source, 0):
            self.delivered[source] = number
        if self.remember is not None:
            self.recent.append(source)
            while len(self.recent) > self.remember:
                oldest = self.recent.popleft()
                self.delivered.pop(oldest, None)
                self.delivered.forgotten.add(fingerprint(str(oldest)))

    def wake(self, source: Source, ready: list[int]) -> None:
        """Put the tickets that watched a source and are free now on the heap; the others watch their next need."""
        wake(source, self.watch, self.delivered, self._waited, ready)

    def _waited(self, ticket: int) -> Sequence[Need] | None:
        row = self.held.get(ticket)
        return None if row is None else row.waited

    def take(self, ticket: int) -> Held:
        """Take a row out of the held ones."""
        row = self.held.pop(ticket)
        del self.at[row.source, row.number]
        if self.cyclic:
            for cause, _ in row.waited:
                self.wanting[cause].pop(ticket)
                if not self.wanting[cause]:
                    del self.wanting[cause]
        else:
            numbers = self.numbers[row.source]
            del numbers[bisect_left(numbers, row.number)]
            if not numbers:
                del self.numbers[row.source]
        return row

    # -- causes that do not come -----------------------------------------------------------------------------------

    def roots(self) -> dict[int, Need | None]:
        """Return, for every held row, the cause at the root of its wait; None where causes wait for each other."""
        found: dict[int, Need | None] = {}
        for ticket in self.held:
            self._root(ticket, found)
        return found

    def root(self, ticket: int) -> Need | None:
        """Return the cause at the root of one row's wait."""
        return self._root(ticket, {})

    def _root(self, ticket: int, found: dict[int, Need | None]) -> Need | None:
        """Follow what rows wait for first, from held row to held row; `found` is shared by many walks."""
        walked: dict[int, None] = {}
        here: int | None = ticket
        root: Need | None = None
        while here is not None and here not in found and here not in walked:
            walked[here] = None
            root, here = self._before(self.first_unmet(here))
        if here is not None:
            root = found.get(here)
        found |= dict.fromkeys(walked, root)
        return root

    def first_unmet(self, ticket: int) -> Need:
        """Return the first cause that a held row still waits for."""
        unmet = first_unmet(self.held[ticket].waited, self.delivered)
        assert unmet is not None, "a row is held as long as a need of it is unmet"
        return unmet

    def _before(self, need: Need) -> tuple[Need | None, int | None]:
        """Return the held row that must go before a need can be given up, or the need itself if there is none.

        Of a dense source, the need is then the next number, all up to the first one that is here.
        """
        source, number = need
        if self.cyclic:
            ticket = self.at.get(need)
            return (need, None) if ticket is None else (None, ticket)
        level, numbers = self.level(source), self.numbers.get(source, ())
        place = bisect_left(numbers, level + 1)
        lowest = numbers[place] if place < len(numbers) and numbers[place] <= number else None
        if lowest is None:
            return need, None
        if self.dense and lowest > level + 1:
            return (source, lowest - 1), None
        return None, self.at[source, lowest]

    def blocker(self, ticket: int, root: Need | None) -> Need:
        """Return the cause to name for a root: of a dense source the next one; on a circle the first one waited for."""
        source, number = self.first_unmet(ticket) if root is None else root
        return (source, self.level(source) + 1) if self.dense else (source, number)

    def give_up(self, ticket: int) -> Source:
        """Give up the root of what a held row waits for, and return its source."""
        source, number = self.root(ticket) or self.first_unmet(ticket)
        self.waive(source, number)
        return source

    def waive(self, source: Source, number: int) -> None:
        """Count the numbers of a source up to this one as delivered."""
        self.holes.setdefault(source, []).append((self.level(source) + 1, number))
        self.delivered[source] = number

    def _fill(self, source: Source, number: int) -> None:
        """Take a number out of a hole."""
        kept: list[Hole] = []
        for first, last in self.holes[source]:
            if first <= number <= last:
                kept += [(a, b) for a, b in ((first, number - 1), (number + 1, last)) if a <= b]
            else:
                kept.append((first, last))
        if kept:
            self.holes[source] = kept
        else:
            del self.holes[source]

    def _gone(self, source: Source, number: int) -> bool:
        """Tell whether a need, which counts as met, lacks something that was given up."""
        holes = self.holes.get(source)
        if holes is None:
            return False
        return holes[0][0] <= number if self.dense else self.late(source, number)

    def absent(self, needs: Sequence[Need]) -> Absent:
        """Return what has not come of these needs, given up or not; of needs that are met, what was given up."""
        found: list[Need] = []
        total = 0
        for source, number in needs:
            level = self.level(source)
            if not self.dense:
                missing = [(source, number)] if level < number or self._gone(source, number) else []
                found += missing
                total += len(missing)
                continue
            spans = [(first, min(last, number)) for first, last in self.holes.get(source, ()) if first <= number]
            spans += [(level + 1, number)] if level < number else []
            found += _numbers(source, spans)
            total += sum(last - first + 1 for first, last in spans)
        return Absent(tuple(found), total)


def _numbers(source: Source, spans: Iterable[tuple[int, int]]) -> list[Need]:
    """Return the numbers in these spans, at most `LISTED` of them."""
    found: list[Need] = []
    for first, last in spans:
        found += [(source, n) for n in range(first, min(last, first + LISTED - len(found) - 1) + 1)]
    return found
