"""Excerpts: the rows of a trace that one picture takes, described as data.

*Invariant.* An excerpt holds the rows that meet all of its conditions, and the send of every message that one of these
rows receives or delivers. Rows are unchanged and keep their order. `thence.tables.engines.spark.excerpt` takes the same
rows out of a DataFrame.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from thence.core.model.events import Event
from thence.core.model.order import by_run
from thence.errors import MisuseError
from thence.tables.explain.scene import Finding, RowId

NEAR = 30
"""Rows of its process that are shown before and after a row of interest."""


@dataclass(frozen=True, slots=True)
class IndexRange:
    """Rows of one process whose index lies in a range, both ends included."""

    process: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Conditions on rows; None sets no condition."""

    run: str | None = None
    index_ranges: tuple[IndexRange, ...] | None = None
    times: tuple[float, float] | None = None
    orders: tuple[int, int] | None = None
    processes: frozenset[str] | None = None

    def holds(self, event: Event) -> bool:
        """Return whether a row meets all conditions."""
        return (
            (self.run is None or event.run == self.run)
            and (self.processes is None or event.process in self.processes)
            and (self.times is None or (event.time is not None and self.times[0] <= event.time <= self.times[1]))
            and (self.orders is None or (event.order is not None and self.orders[0] <= event.order <= self.orders[1]))
            and (
                self.index_ranges is None
                or any(s.process == event.process and s.first <= event.index <= s.last for s in self.index_ranges)
            )
        )

    def __bool__(self) -> bool:
        return self != Excerpt()


def excerpt_rows(events: Iterable[Event], excerpt: Excerpt) -> list[Event]:
    """Return the rows of an excerpt."""
    rows = list(events)
    near = {s.process for s in excerpt.index_ranges} if excerpt.index_ranges is not None else None
    kept = [e for e in rows if (near is None or e.process in near) and excerpt.holds(e)]
    needed = {(e.run, e.message) for e in kept if e.kind in ("receive", "deliver")}
    places = {(e.run, e.process, e.index) for e in kept}
    return [
        e for e in rows if (e.run, e.process, e.index) in places or (e.kind == "send" and (e.run, e.message) in needed)
    ]


def places_of(events: Iterable[Event], finding: Finding) -> list[RowId]:
    """Return the rows of interest of a finding: its path, its sends, and the receipts at its destination."""
    messages = set(finding.messages())
    there = finding.destination
    rows = [e for e in events if e.message in messages and (e.kind == "send" or e.process == there)]
    named = [*((step.process, step.index) for step in finding.path or ()), *finding.rows]
    return list(dict.fromkeys([*named, *((e.process, e.index) for e in rows)]))


def ranges_around(rows: Iterable[RowId], near: int = NEAR) -> tuple[IndexRange, ...]:
    """Return ranges of indexes around some rows; ranges of one process that touch are merged."""
    found: list[IndexRange] = []
    for process, index in sorted(rows):
        first, last = max(1, index - near), index + near
        if found and found[-1].process == process and first <= found[-1].last + 1:
            found[-1] = IndexRange(process, found[-1].first, max(found[-1].last, last))
        else:
            found.append(IndexRange(process, first, last))
    return tuple(found)


def message_excerpt(events: Sequence[Event], message: str) -> Excerpt:
    """Return the excerpt around everything that happened to a message, in the first run that sends it."""
    run = next((e.run for e in events if e.kind == "send" and e.message == message), None)
    if run is None:
        raise MisuseError(f"no run of the trace sends a message {message!r}")
    rows = [(e.process, e.index) for e in events if e.run == run and e.message == message]
    return Excerpt(run, index_ranges=ranges_around(rows))


def range_of(text: str, what: str) -> tuple[float, float]:
    """Read FROM:TO, either of which may be left out."""
    low, found, high = text.partition(":")
    try:
        if not found:
            raise ValueError
        return float(low or "-inf"), float(high or "inf")
    except ValueError:
        raise MisuseError(f"{what} is {text!r}; FROM:TO is accepted, as in 1.5:2 or 1000:") from None


def consecutive_excerpts(events: Sequence[Event], size: int) -> list[Excerpt]:
    """Return excerpts of at most `size` rows each, one after the other, that together hold all rows of each run."""
    found = []
    for run, rows in by_run(events).items():
        orders = sorted(event.order for event in rows if event.order is not None)
        found += [
            Excerpt(run, orders=(orders[at], orders[min(at + size, len(orders)) - 1]))
            for at in range(0, len(orders), size)
        ]
    return found
