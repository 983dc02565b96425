"""Space-time pages for commands: reads the rows that an audit's findings need, and writes the pages.

*Invariant.* The selection is data (`Wanted`). The engine that audited the trace also reads the rows that
the pages show. Every written file is reported, with its size.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from thence.cli._common import working
from thence.show.page import Wanted, said_of, unread, wanted_events, written_pages
from thence.tables.engines.choice import Engine, EngineChoice

if TYPE_CHECKING:
    from thence.cli._console import Console
    from thence.show.spacetime.pages import Recorded
    from thence.tables.explain.scene import Finding
    from thence.tables.files.read import Trace
    from thence.tables.judge.result import AuditResult


def recorded(
    opened: Trace,
    result: AuditResult,
    choice: EngineChoice | None,
    asked: Wanted,
    title: str,
    *,
    cores: int,
    paths: int = 100,
) -> Recorded:
    """Return the rows to be shown and the audit's findings about them."""
    everything = said_of(result, asked, title, paths=paths)
    if choice is None or choice.engine is Engine.LOCAL:
        with working("Reading"):
            events, origins = wanted_events(opened, everything, asked)
        return replace(everything, events=events, origins=origins, rest=unread(result, events, asked))
    from thence.show.spacetime import PAGE_EVENTS
    from thence.tables.engines.spark.excerpt import (
        excerpt_frame,
        first_events,
        read_frame,
        rows_about,
        rows_around,
        with_origins,
    )

    with working("Cutting on Spark"):
        frame = read_frame(opened, cores=cores)
        if asked.message is not None:
            rows = rows_about(frame, asked.message)
        elif (violations := _around(everything, asked)) is not None and (
            asked.violation or result.events > PAGE_EVENTS
        ):
            rows = rows_around(frame, violations)
        else:
            rows = first_events(excerpt_frame(frame, asked.excerpt), PAGE_EVENTS + 1)
    events, origins = with_origins(rows)
    return replace(everything, events=events, origins=origins, rest=max(0, result.events - len(events)))


def write_pages(made: Recorded, asked: Wanted, target: Path, out: Console) -> list[tuple[Path, int]]:
    """Write the pages, name them, and return each with its size, the one to open first."""
    with working("Drawing"):
        written = written_pages(made, asked, target)
    for path, size in written:
        out.print(f"{path} ({size / 1e6:.1f} MB)")
    return written


def _around(made: Recorded, asked: Wanted) -> list[tuple[str, Finding]] | None:
    """Return the violations to make excerpts around; None if the excerpt is selected otherwise."""
    from thence.show.spacetime.pages import EXCERPTS

    if asked.violation is not None:
        return [made.violation(asked.violation)]
    if asked.message is not None or asked.excerpt:
        return None
    violations = [(run, each) for run, each in made.findings if each.what == "violation" and run is not None]
    return violations[:EXCERPTS]
