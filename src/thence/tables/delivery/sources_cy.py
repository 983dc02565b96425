# mypy: ignore-errors
# C types are in sources_cy.pxd and outcome_cy.pxd, where mypy does not see them.
"""What one key knows of its sources, and the rows that are held for them.

A row has a source and a number, and needs pairs (source, number). It is free when `level >= number` for each of its
needs; its delivery raises the level of its source to its number. One reading serves all kinds of arrivals:

- a stamp: sources are positions in the roster, numbers are the protocol's own;
- a clock: sources are senders by name, numbers count their messages to this destination (*dense*: all of them come);
- explicit causes: every message is a source of its own, with the one number 1 (*cyclic*: they may form cycles).

To *give up* the numbers of a source up to t is to count them as delivered though they have not come. What was given up
and has not come since is kept as *holes*: ranges of numbers. A row in a hole that comes after all is late, not a
duplicate; a row that needs a number in a hole goes without it, and says so. Numbers of one source follow each other
causally, so what is held of a source below t goes before t is given up.

*Invariant.* A held row watches one unmet need, so a delivery touches only the rows that watch its source.
Explicit causes are many, so an id that was delivered is no object of its own: it stands for `DONE` in the table of
sources. Beyond the last `remember` ids only a fingerprint of each is kept. C types are in `sources_cy.pxd`.
"""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from heapq import heapify, heappop, heappush
from math import nan
from typing import TYPE_CHECKING, Any

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

if TYPE_CHECKING:
    from collections.abc import Hashable

    from thence.tables.delivery.reading import Reading

LISTED = 100
"""How many missing numbers of one source are listed one by one; a clock may claim any number."""
FOREVER = 1 << 62
STALE = 64
"""How many entries of rows that have left a heap may have, beyond as many as there are rows, before it is made anew."""


def fingerprint(message: str) -> int:
    """Return 64 bits of an id: among 18 million million ids, less than one in a million is taken for another."""
    return int.from_bytes(blake2b(message.encode(), digest_size=8).digest(), "little", signed=True)


@cython.final
@cython.cclass
class Source:
    """What is known of a source, which rows of it are held, and which rows wait for it."""

    def __init__(self, name: object) -> None:
        """Know nothing of it yet."""
        self.name: Any = name
        self.level, self.seen, self.quarantined = 0, 0, False
        self.holes: Any = None  # [(first, last)]
        self.row = self.held = None  # cyclic: its held row; otherwise: its held rows by number
        self.numbers = None  # a heap of the numbers in `held`, made when it is asked for; some may have left
        self.watchers = self.wanting = None  # a heap of (number, ticket, row); cyclic: the rows held for it, by ticket
        self.prefix, self.noted = None, False  # what stands before a number in its name; whether it is in `changed`


DONE = Source(None)
DONE.level = 1


@cython.final
@cython.cclass
class Row:
    """A held row. `waited`: the needs it is held for; `needs`: also those that are met only by giving up."""

    def __init__(self, ticket: cython.longlong, label: object, source: Source | None, number: cython.longlong) -> None:
        """Describe a row; `since` is event time, `came` processing time in milliseconds where a stream gives it."""
        self.ticket, self.number = ticket, number
        self.label: Any = label
        self.source: Any = source
        self.needs: Any = ()
        self.waited: Any = ()
        self.since = self.ahead = nan
        self.came = self.causes = self.effects = 0
        self.here = True


@cython.cfunc
def held_row(ticket: cython.longlong, label: object, source: Source | None, number: cython.longlong) -> Row:
    """Return `Row(...)`, made without the detour through Python's arguments."""
    row: Row = Row.__new__(Row)
    row.ticket, row.label, row.source, row.number = ticket, label, source, number
    row.needs = row.waited = ()
    row.since = row.ahead = nan
    row.came = row.causes = row.effects = 0
    row.here = True
    return row


@cython.cfunc
def in_hole(source: Source, number: cython.longlong) -> cython.bint:
    """Tell whether a number was given up earlier and has not come since."""
    if source.holes is not None:
        for first, last in source.holes:
            if first <= number <= last:
                return True
    return False


@cython.cclass
class Sources:
    """The sources of one key, by causal order and name, and its held rows by ticket."""

    def __init__(self, reading: Reading, remember: int | None = None) -> None:
        """Know no source yet."""
        self.reading = reading
        self.cyclic = reading.by == "depends_on"
        self.dense = reading.dense and not self.cyclic
        self.orders: dict[str | None, dict[Hashable, Source]] = {}
        self.kept: dict[int, Row] = {}
        self.holes = 0
        self.remember = FOREVER if remember is None else remember
        self.recent: deque[str] | None = None if remember is None else deque()
        self.forgotten: set[int] = set()
        self.fresh: Any = None  # where changes are recorded: the ids delivered since the last write,
        self.gone: list[int] = []  # the fingerprints of ids forgotten since then,
        self.changed: list[Source] = []  # and the sources of which something else changed

    # -- names -----------------------------------------------------------------------------------------------------

    @cython.cfunc
    def order(self, label: object) -> dict:
        """Return the sources of a causal order by name."""
        sources: dict = self.orders.get(label)
        if sources is None:
            sources = {}
            self.orders[label] = sources
            self.dense = self.reading.dense and not self.cyclic  # the first stamp of a key settles it
        return sources

    @cython.cfunc
    def known(self, sources: dict, name: object) -> Source:
        """Return a source if anything is known of it, else None."""
        source: Source = sources.get(name)
        if source is None and self.forgotten and fingerprint(name) in self.forgotten:
            return DONE
        return source

    @cython.cfunc
    def source(self, sources: dict, name: object) -> Source:
        """Return a source, a new one if nothing is known of it."""
        source: Source = self.known(sources, name)
        if source is None:
            source = Source(name)
            sources[name] = source
        return source

    def named(self, label: object, name: object) -> Source:
        """Return a source of a causal order, a new one if nothing is known of it."""
        return self.source(self.order(label), name)

    @cython.cfunc
    def name(self, source: Source, number: cython.longlong) -> object:
        """Name a cause as people know it."""
        if self.cyclic:
            return source.name
        if source.prefix is None:
            source.prefix = self.reading.name(source.name, 1)[:-1]
        return source.prefix + str(number)

    @cython.cfunc
    def names(self, needs: object) -> object:
        """Name causes; of a protocol with a rule of its own they are named already."""
        if not needs or isinstance(needs, tuple):
            return needs
        return [self.name(need[0], need[1]) for need in needs]

    # -- the rule --------------------------------------------------------------------------------------------------

    @cython.cfunc
    def held_at(self, source: Source, number: cython.longlong) -> Row:
        """Return the held row of a source with this number, or None."""
        if self.cyclic:
            return source.row
        return None if source.held is None else source.held.get(number)

    @cython.cfunc
    def repeat(self, own: Source, number: cython.longlong) -> object:
        """Say why a row is a duplicate, or None."""
        if self.held_at(own, number) is not None:
            return "it is held already"
        if own.quarantined:
            return "it was quarantined before"
        if number > own.level or (own.holes is not None and in_hole(own, number)):
            return None
        return "it was delivered before"

    @cython.cfunc
    def unmet(self, sources: dict, names: list, numbers: list | None) -> list:
        """Return the needs that are not met, or None. `numbers` is None where all are 1."""
        waited: list = None
        other: Source
        place: cython.Py_ssize_t
        wanted: cython.longlong = 1
        for place in range(len(names)):
            if numbers is not None:
                wanted = numbers[place]
            other = self.known(sources, names[place])
            if other is None or other.level < wanted:
                if waited is None:
                    waited = []
                waited.append((self.source(sources, names[place]) if other is None else other, wanted))
        return waited

    @cython.cfunc
    def needs(self, sources: dict, names: list, numbers: list | None) -> list:
        """Return all needs as pairs of source and number."""
        found: list = []
        place: cython.Py_ssize_t
        for place in range(len(names)):
            found.append((self.source(sources, names[place]), 1 if numbers is None else numbers[place]))
        return found

    @cython.ccall
    def hold(self, row: Row) -> object:
        """Keep a row until its needs are met."""
        own: Source = row.source
        other: Source
        self.kept[row.ticket] = row
        if self.cyclic:
            own.row = row
            for need in row.waited:
                other = need[0]
                if other.wanting is None:
                    other.wanting = {}
                other.wanting[row.ticket] = row
        else:
            if own.held is None:
                own.held = {}
            own.held[row.number] = row
            if own.numbers is not None:
                heappush(own.numbers, row.number)
                if len(own.numbers) > 2 * len(own.held) + STALE:
                    own.numbers = None
        self.watch(row)

    @cython.cfunc
    def watch(self, row: Row) -> cython.bint:
        """Let a row watch the unmet need that lacks most, which tends to come last; return whether there is one."""
        other: Source
        watched: Source = None
        number: cython.longlong = 0
        wanted: cython.longlong
        most: cython.longlong = 0
        for need in row.waited:
            other, wanted = need
            if wanted - other.level > most:
                watched, number, most = other, wanted, wanted - other.level
        if watched is None:
            return False
        if watched.watchers is None:
            watched.watchers = []
        heappush(watched.watchers, (number, row.ticket, row))
        return True

    @cython.cfunc
    def met(self, sources: dict, own: Source | None, name: object, number: cython.longlong) -> cython.void:
        """Raise the level of a source: what needs this number of it has it now."""
        if own is not None and own.holes is not None:
            self.fill(own, number)
        if not self.cyclic:
            if number > own.level:
                own.level = number
                self.note(own)
            return
        if own is not None:
            own.level = 1
        sources[name] = DONE
        if self.fresh is not None:
            self.fresh.append(name)
        if self.recent is not None:
            self.recent.append(name)
            while len(self.recent) > self.remember:
                oldest = self.recent.popleft()
                sources.pop(oldest, None)
                print_ = fingerprint(oldest)
                self.forgotten.add(print_)
                if self.fresh is not None:
                    self.gone.append(print_)

    @cython.cfunc
    def note(self, source: Source) -> cython.void:
        """Record that a source differs from what was last written."""
        if self.fresh is not None and not source.noted:
            source.noted = True
            self.changed.append(source)

    @cython.ccall
    def wake(self, source: Source, ready: list) -> object:
        """Put the rows that watched a source and are free now on the heap; the others watch their next need."""
        row: Row
        watchers: list = source.watchers
        while watchers and cython.cast(cython.longlong, watchers[0][0]) <= source.level:
            row = heappop(watchers)[2]
            if row.here and not self.watch(row):
                heappush(ready, (row.ticket, row))
        if not watchers:
            source.watchers = None

    @cython.ccall
    def remove(self, row: Row) -> object:
        """Take a row out of the held ones."""
        own: Source = row.source
        other: Source
        row.here = False
        del self.kept[row.ticket]
        if not self.cyclic:
            del own.held[row.number]
            if not own.held:
                own.held = own.numbers = None
            return
        own.row = None
        for need in row.waited:
            other = need[0]
            del other.wanting[row.ticket]
            if not other.wanting:
                other.wanting = None

    # -- causes that do not come -----------------------------------------------------------------------------------

    @cython.cfunc
    def first_unmet(self, row: Row) -> tuple:
        """Return the first need that a held row still waits for."""
        other: Source
        for need in row.waited:
            other = need[0]
            if other.level < cython.cast(cython.longlong, need[1]):
                return need
        raise AssertionError("a row is held as long as a need of it is unmet")

    @cython.cfunc
    def before(self, need: tuple) -> tuple:
        """Return (None, the held row that must go before a need can be given up), or (what to give up, None).

        Of a dense source, the latter is the next number, all up to the first one that is here.
        """
        source: Source = need[0]
        lowest: cython.longlong
        if self.cyclic:
            return (need, None) if source.row is None or not source.row.here else (None, source.row)
        if source.held is None:
            return need, None
        if source.numbers is None:
            source.numbers = list(source.held)
            heapify(source.numbers)
        while source.numbers and (source.numbers[0] <= source.level or source.numbers[0] not in source.held):
            heappop(source.numbers)
        if not source.numbers or source.numbers[0] > need[1]:
            return need, None
        lowest = source.numbers[0]
        if self.dense and lowest > source.level + 1:
            return (source, lowest - 1), None
        if not source.held[lowest].here:  # it has started, and is not done
            return (source, lowest), None
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
        source: Source = need[0]
        return (source, source.level + 1) if self.dense else need

    @cython.ccall
    def waive(self, source: Source, number: cython.longlong) -> object:
        """Count the numbers of a source up to this one as delivered."""
        if source.holes is None:
            source.holes = []
        source.holes.append((source.level + 1, number))
        self.holes += 1
        source.level = number
        self.note(source)

    @cython.cfunc
    def fill(self, source: Source, number: cython.longlong) -> cython.void:
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
        self.note(source)

    @cython.cfunc
    def lacks(self, source: Source, number: cython.longlong) -> cython.bint:
        """Tell whether a need has not come, wholly or in part, whether it was given up or not."""
        if source.level < number:
            return True
        if source.holes is None:
            return False
        return source.holes[0][0] <= number if self.dense else in_hole(source, number)

    @cython.cfunc
    def absent(self, needs: object) -> tuple:
        """Return what has not come of these needs, at most `LISTED` numbers of each source, and how many there are."""
        source: Source
        found: list = []
        total: object = 0
        for need in needs:
            source = need[0]
            if not self.dense:
                if self.lacks(source, need[1]):
                    found.append(need)
                    total += 1
                continue
            spans = [(first, min(last, need[1])) for first, last in source.holes or () if first <= need[1]]
            if source.level < need[1]:
                spans.append((source.level + 1, need[1]))
            left = LISTED
            for first, last in spans:
                total += last - first + 1
                for number in range(first, min(last, first + left - 1) + 1):
                    found.append((source, number))
                    left -= 1
        return found, total
