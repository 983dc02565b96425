"""`thence.show`: a trace of any kind as one HTML page; and how pages are written for every entry point.

    thence.show("run.jsonl")                        # run.html beside you
    thence.show(frame, out="why.html", violation=1)

*Invariant.* The selection is data (`Wanted`). A trace that does not fit on one page becomes an index and excerpts; the
path returned is that of the page to open first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from thence.errors import Argument, MisuseError, TraceError
from thence.tables.explain.excerpt import Excerpt, message_excerpt
from thence.tables.files.inputs import FileNames, InputTable, TraceInput, trace_input

if TYPE_CHECKING:
    from thence.core.model.events import Event
    from thence.show.spacetime.pages import Made, Recorded
    from thence.tables.explain.origins import Origins
    from thence.tables.files.read import Trace
    from thence.tables.judge.result import AuditResult


@dataclass(frozen=True, slots=True)
class Wanted:
    """The part of a trace to show: around a violation or a message, or by conditions; by default all of it."""

    excerpt: Excerpt = field(default_factory=Excerpt)
    violation: int | None = None
    message: str | None = None


class ColumnWords(NamedTuple):
    """The caller's names of our columns and of the values of `kind`."""

    columns: Mapping[str, str] | None
    kinds: Mapping[str, str] | None


def show(
    data: TraceInput,
    out: str | Path | None = None,
    *,
    violation: int | None = None,
    message: str | None = None,
    run: str | None = None,
    columns: Mapping[str, str] | None = None,
    kinds: Mapping[str, str] | None = None,
) -> Path:
    """Audit a trace, write it as an HTML page, and return the path of the page.

        thence.show("trace.parquet", out="run.html", violation=1)

    Args:
        data: what `thence.audit` takes: files, a table of any kind, or events.
        out: the page; by default named after the file, or run.html.
        violation: show only the surroundings of this violation, counted from 1 as the audit lists them.
        message: show only the surroundings of this message.
        run: show only this run.
        columns: the trace's own names for the columns of the contract, as in `{"process": "pid"}`.
        kinds: the trace's own values of `kind`, as in `{"PRODUCED": "send"}`.
    """
    if violation is not None and message is not None:
        raise MisuseError(
            Argument("violation", violation),
            " and ",
            Argument("message", message),
            " were given together; one is accepted",
        )
    given = trace_input(data, columns, kinds)
    target = Path(out) if out is not None else _default(given)
    if not target.parent.is_dir():
        raise MisuseError(Argument("out", str(target)), f": there is no folder {target.parent}; make it first")
    asked = Wanted(Excerpt(run), violation, message)
    return written_pages(_recorded(given, ColumnWords(columns, kinds), asked, target.stem), asked, target)[0][0]


def _default(given: FileNames | InputTable | list[Event]) -> Path:
    name = Path(given.names[0]).name.removesuffix(".gz").replace("*", "all") if isinstance(given, FileNames) else ""
    return Path(name or "run").with_suffix(".html")


def _recorded(given: FileNames | InputTable | list[Event], words: ColumnWords, asked: Wanted, title: str) -> Recorded:
    from thence.tables.contract.columns import EVENT_COLUMNS, renamed
    from thence.tables.engines.local.audit import audit_events, audit_input, audit_trace
    from thence.tables.files.event_input import input_events
    from thence.tables.files.read import open_trace

    read: Callable[[Recorded], tuple[list[Event], Origins]]
    if isinstance(given, FileNames):
        opened = open_trace(given.names, columns=words.columns, kinds=words.kinds)
        if (log := recorded_log(opened, title)) is not None:
            return log
        result, read = audit_trace(opened), lambda found: wanted_events(opened, found, asked)
    elif isinstance(given, InputTable):
        own = renamed(EVENT_COLUMNS, *words)
        result, read = audit_input(given, *words), lambda _: (input_events(given, own)[0], {})
    else:
        result, read = audit_events(given), lambda _: (given, {})
    with result:
        found = said_of(result, asked, title)
        events, origins = read(found)
        if not events:
            unused = next((str(row["reason"]) for row in result.rows("quarantine")), None)
            raise TraceError("the trace has no event to draw" + ("" if unused is None else f"; set aside: {unused}"))
        return replace(found, events=events, origins=origins, rest=unread(result, events, asked))


def said_of(result: AuditResult, asked: Wanted, title: str, *, paths: int = 100) -> Recorded:
    """Return the findings of an audit of a trace, without its rows, which are read later."""
    from thence.show.spacetime.findings import findings_of, record_findings
    from thence.show.spacetime.pages import Recorded

    findings = findings_of(result, paths=paths, wanted=asked.violation) + record_findings(result.records)
    counted = sum(int(run["violations"]) for run in result.run_rows)
    verdicts = {run["run"]: run["verdict"] for run in result.run_rows}
    return Recorded([], findings, verdicts, {}, title, counted)


def recorded_log(opened: Trace, title: str) -> Recorded | None:
    """Return the drawing's input for logs with vector clocks; None if the files are tables."""
    from thence.show.spacetime.pages import Recorded
    from thence.tables.explain.clock_events import drawn_log

    kinds = set(opened.files.values())
    if "shiviz" not in kinds:
        return None
    if len(kinds) > 1:
        raise MisuseError("logs with vector clocks and tables of events were given together; draw them one at a time")
    log = drawn_log(opened.clocks())
    if not log.events:
        raise TraceError("the log has no event to draw; `thence audit` lists the unusable lines")
    return Recorded(log.events, list(log.findings), log.verdicts, log.origins, title)


def wanted_events(opened: Trace, found: Recorded, wanted: Wanted) -> tuple[list[Event], Origins]:
    """Return the events to show, all or those around a violation or message, with the place each was read from."""
    from thence.tables.explain.origins import events_about, events_around, events_with_origins

    if wanted.violation is not None:
        return events_around(opened, *found.violation(wanted.violation))
    if wanted.message is not None:
        return events_about(opened, wanted.message)
    return events_with_origins(opened)


def unread(result: AuditResult, events: Sequence[Event], wanted: Wanted) -> int:
    """Return how many events `wanted_events` left out."""
    excerpt = wanted.violation is not None or wanted.message is not None
    return max(0, result.events - len(events)) if excerpt else 0


def written_pages(made: Recorded, asked: Wanted, target: Path) -> list[tuple[Path, int]]:
    """Write the pages; return each file with its size, the one to open first."""
    written = []
    for each in _pages(made, asked, target.stem):
        path = target.with_name(f"{target.stem}{each.suffix}{target.suffix or '.html'}")
        path.write_text(each.html, encoding="utf-8")
        written.append((path, path.stat().st_size))
    return written[-1:] + written[:-1]


def _pages(made: Recorded, asked: Wanted, name: str) -> Iterable[Made]:
    from thence.show.spacetime.pages import Made, all_pages, one_page, violation_page

    if asked.violation is not None:
        return [Made("", violation_page(made, asked.violation))]
    if asked.message is not None:
        around = message_excerpt(made.events, asked.message)
        return [Made("", one_page(made, replace(asked.excerpt, run=around.run, index_ranges=around.index_ranges)))]
    if asked.excerpt:
        return [Made("", one_page(made, asked.excerpt))]
    return all_pages(made, name)
