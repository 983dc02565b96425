"""Which pages a trace gives: one, if it fits; else excerpts of it and an index of them.

*Invariant.* No page takes more than `PAGE_EVENTS` events, and every page says what it does not show. An excerpt holds
the rows that `tables.explain.excerpt` says, and those findings whose rows it holds. Pages are made one at a time, as
they are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from thence.core.model.events import Event
from thence.errors import MisuseError
from thence.show.results_page import Links, Paragraph, Section
from thence.show.results_page import results_page as plain_page
from thence.show.spacetime.assemble import spacetime_page
from thence.show.spacetime.encode import PAGE_EVENTS, legible
from thence.show.spacetime.findings import Numbered, findings_by_run
from thence.tables.explain.excerpt import Excerpt, consecutive_excerpts, excerpt_rows, places_of, ranges_around
from thence.tables.explain.scene import Finding, Origin, RowId, scenes_of

EXCERPTS = 20
"""Excerpts by violation, and excerpts by ranges of `order`, that an index links to."""

ADDRESSED = 2_000_000
"""Destinations of all sends that one page takes."""

DrawnOrigins = Mapping[str, Mapping[RowId, Origin]]


@dataclass(frozen=True, slots=True)
class Recorded:
    """Rows to show, with the audit's findings about them and the places they were read from."""

    events: Sequence[Event]
    findings: Numbered
    verdicts: Mapping[str, str]
    origins: DrawnOrigins
    title: str
    violations: int | None = None
    """Violations that the audit counted; `findings` may have fewer of them."""
    rest: int = 0
    """Events of the trace that were not read because no page of it needs them."""

    @property
    def total(self) -> int:
        """The number of events of the trace."""
        return len(self.events) + self.rest

    def violation(self, number: int) -> tuple[str, Finding]:
        """Return a violation by its number, from 1, and its run."""
        found = [(run, each) for run, each in self.findings if each.what == "violation" and run is not None]
        chosen = [each for place, each in enumerate(found, 1) if (each[1].number or place) == number]
        if not chosen:
            count = self.violations if self.violations is not None else len(found)
            there = "is 1" if count == 1 else f"are {count:,}, counted from 1"
            raise MisuseError(f"there is no violation {number}; there {there}")
        return chosen[0]


@dataclass(frozen=True, slots=True)
class Made:
    """A page: the suffix of its file name, and its text."""

    suffix: str
    html: str


def one_page(
    recorded: Recorded,
    cut: Excerpt | None = None,
    *,
    lead: str = "",
    first: Finding | None = None,
    most: int = PAGE_EVENTS,
) -> str:
    """Return one page of a trace or of a cut of it: of at most `most` events; `first` is the finding shown first."""
    rows = recorded.events if cut is None else excerpt_rows(recorded.events, cut)
    if not rows:
        raise MisuseError(
            "the trace has no event to draw" if cut is None else "no row of the trace meets these conditions"
        )
    notes = []
    if (fits := _fitting(rows, most)) < len(rows):
        notes.append(f"{len(rows) - fits} of {len(rows)} events are not on this page; a narrower excerpt shows them")
        rows = rows[:fits]
    if cut is not None:
        notes.insert(0, f"an excerpt: {len(rows)} of {recorded.total} events; clocks and logs begin with it")
    found, nowhere = findings_by_run(recorded.findings)
    kept = found if cut is None else _inside(found, rows, first)
    scenes = sorted(scenes_of(rows, kept, recorded.verdicts, recorded.origins), key=lambda scene: scene.run)
    notes += [f"set aside: {each.sentence}" for each in islice(nowhere, 20)]
    if len(nowhere) > 20:
        notes.append(f"{len(nowhere) - 20} more rows were set aside")
    return spacetime_page(
        scenes,
        title=recorded.title,
        lead=lead,
        notes=notes,
        start="finding=1" if first else "",
        violations=recorded.violations,
    )


def _fitting(rows: Sequence[Event], most: int) -> int:
    """Return how many of the first rows a page takes: at most `most`, with at most `ADDRESSED` destinations."""
    addressed = 0
    for place, event in enumerate(rows[:most]):
        addressed += len(event.destinations or ())
        if addressed > ADDRESSED:
            return place
    return min(len(rows), most)


def _inside(
    found: Mapping[str, Sequence[Finding]], rows: Sequence[Event], first: Finding | None
) -> dict[str, Sequence[Finding]]:
    """Return the findings whose rows are all in an excerpt; `first` is in it and comes first."""
    places = {(e.run, e.process, e.index) for e in rows}
    sends = {(e.run, e.message) for e in rows if e.kind == "send"}
    delivered = {(e.run, e.process, e.message) for e in rows if e.kind == "deliver"}

    def holds(run: str, each: Finding) -> bool:
        named = [(step.process, step.index) for step in each.path or ()] + list(each.rows)
        ends = [(run, each.destination or "", m) for m in ((each.early,) if each.violation else ()) if m]
        return (
            all((run, *place) in places for place in named)
            and all((run, message) in sends for message in each.messages())
            and all(end in delivered for end in ends)
        )

    kept = {run: [each for each in all_of if each is first or holds(run, each)] for run, all_of in found.items()}
    return {run: sorted(each, key=lambda one: one is not first) for run, each in kept.items()}


def violation_page(recorded: Recorded, number: int) -> str:
    """Return the page of the excerpt around one violation."""
    run, finding = recorded.violation(number)
    rows = [event for event in recorded.events if event.run == run]
    cut = Excerpt(run, index_ranges=ranges_around(places_of(rows, finding)))
    return one_page(recorded, cut, lead=f"Violation {number}: {finding.sentence}", first=finding)


def all_pages(recorded: Recorded, name: str, *, most: int = PAGE_EVENTS) -> Iterator[Made]:
    """Yield the page of a trace; for a large trace, pages of excerpts and then their index."""
    if recorded.total <= most:
        yield Made("", one_page(recorded))
        return
    by_violation: list[tuple[str, str]] = []
    by_order: list[tuple[str, str]] = []
    violations = [each for _, each in recorded.findings if each.what == "violation"]
    for number, each in enumerate(violations[:EXCERPTS], 1):
        yield (made := Made(f"-violation-{number}", violation_page(recorded, number)))
        by_violation.append((f"{number}. {legible(each.sentence, 400)}", f"{name}{made.suffix}.html"))
    size = max(1, most * 9 // 10)  # the sends that an excerpt needs come on top
    cuts = consecutive_excerpts(recorded.events, size) if not recorded.rest else []
    for number, cut in enumerate(cuts[:EXCERPTS], 1):
        yield (
            made := Made(f"-part-{number}", one_page(recorded, cut, lead=f"Part {number} of {len(cuts)}", most=most))
        )
        assert cut.orders is not None
        by_order.append((f"run {cut.run}, order {cut.orders[0]} to {cut.orders[1]}", f"{name}{made.suffix}.html"))
    rest = [("violations", len(violations), "--violation K"), ("parts", len(cuts), "--order FROM:TO")]
    more = [f"{count - EXCERPTS} more {what}: thence show ... {how}" for what, count, how in rest if count > EXCERPTS]
    why = f"{recorded.total} events are too many for one page, which takes {most}; these are excerpts."
    yield Made("", index_page(recorded, why, by_violation, by_order, more))


def index_page(
    recorded: Recorded,
    lead: str,
    by_violation: Sequence[tuple[str, str]],
    by_order: Sequence[tuple[str, str]],
    more: Sequence[str],
) -> str:
    """Return the page that links to the excerpts."""
    other = (
        "Other excerpts: thence show ... --violation K, --message M, --time FROM:TO, --order FROM:TO, --processes a,b."
    )
    sections = [
        Section("Excerpts around violations", [Links(by_violation)] if by_violation else [Paragraph("No violation.")]),
        *([Section("Excerpts by order", [Links(by_order)])] if by_order else []),
        Section("More", [Paragraph(text) for text in (*more, other)]),
    ]
    return plain_page(legible(recorded.title), sections, lead=lead)
