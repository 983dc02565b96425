"""`thence.show`: a trace of any kind as one HTML page; and how pages are written for every entry point.

    thence.show("run.jsonl")                        # run.html beside you
    thence.show(frame, out="why.html", violation=1)

*Invariant.* What is asked for is data (`Asked`). A trace that does not fit on one page becomes an index and slices; the
path returned is that of the page to open first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from thence.errors import MisuseError, TraceError
from thence.tables.explain.excerpt import Cut, message_cut
from thence.tables.files.inputs import InputTable, Names, TraceInput, trace_input

if TYPE_CHECKING:
    from thence.core.model.events import Event
    from thence.show.spacetime.pages import Made, Recorded
    from thence.tables.explain.scene import Origin, Row
    from thence.tables.judge.result import AuditResult


@dataclass(frozen=True, slots=True)
class Asked:
    """Which part of a trace is wanted: around a violation or a message, or by conditions; all of it if nothing is."""

    cut: Cut = field(default_factory=Cut)
    violation: int | None = None
    message: str | None = None


class Words(NamedTuple):
    """What the caller's trace calls our columns, and the values of `kind`."""

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

    `data` is what `thence.audit` takes: files, a table of any kind, or events. `out`: the page; default: named after
    the file, or run.html. `violation`: only what is around this violation, as the audit counts from 1. `message`: only
    what is around this message. `run`: only this run. `columns` says what the trace calls our columns, `kinds` what it
    calls the values of `kind`.
    """
    if violation is not None and message is not None:
        raise MisuseError(f"violation={violation} and message={message!r} were given together; one is accepted")
    given = trace_input(data, columns, kinds)
    target = Path(out) if out is not None else _default(given)
    if not target.parent.is_dir():
        raise MisuseError(f"out={str(target)!r}: there is no folder {target.parent}; make it first")
    asked = Asked(Cut(run), violation, message)
    return written_pages(_recorded(given, Words(columns, kinds), asked, target.stem), asked, target)[0][0]


def _default(given: Names | InputTable | list[Event]) -> Path:
    name = Path(given.names[0]).name.removesuffix(".gz").replace("*", "all") if isinstance(given, Names) else ""
    return Path(name or "run").with_suffix(".html")


def _recorded(given: Names | InputTable | list[Event], words: Words, asked: Asked, title: str) -> Recorded:
    from thence.show.spacetime.findings import findings_of
    from thence.show.spacetime.pages import Recorded

    result, events, origins = _audited(given, words)
    with result:
        if not events:
            unused = next((str(row["reason"]) for row in result.rows("quarantine")), None)
            raise TraceError("the trace has no event to draw" + ("" if unused is None else f"; set aside: {unused}"))
        findings = findings_of(result, paths=max(100, asked.violation or 0))
        return Recorded(events, findings, {each["run"]: each["verdict"] for each in result.runs}, origins, title)


def _audited(
    given: Names | InputTable | list[Event], words: Words
) -> tuple[AuditResult, list[Event], Mapping[str, Mapping[Row, Origin]]]:
    """Return what an audit says, the events, and where they were read."""
    from thence.tables.contract.columns import EVENT_COLUMNS, renamed
    from thence.tables.engines.local.audit import audit_events, audit_input, audit_trace
    from thence.tables.explain.origins import events_with_origins
    from thence.tables.files.event_input import located_input
    from thence.tables.files.read import open_trace
    from thence.tables.files.source import Quarantined

    if isinstance(given, InputTable):
        read = located_input(given, renamed(EVENT_COLUMNS, *words))
        events = [each[1] for each in read if not isinstance(each, Quarantined)]
        return audit_input(given, *words), events, {}
    if isinstance(given, Names):
        opened = open_trace(given.names, columns=words.columns, kinds=words.kinds)
        if "shiviz" in opened.files.values():
            raise MisuseError("a log with clocks has no messages to draw; a trace in JSONL or Parquet is accepted")
        return audit_trace(opened), *events_with_origins(opened)
    return audit_events(given), given, {}


def written_pages(made: Recorded, asked: Asked, target: Path) -> list[tuple[Path, int]]:
    """Write the pages; return each file with its size, the one to open first."""
    written = []
    for each in _pages(made, asked, target.stem):
        path = target.with_name(f"{target.stem}{each.suffix}{target.suffix or '.html'}")
        path.write_text(each.html, encoding="utf-8")
        written.append((path, path.stat().st_size))
    return written[-1:] + written[:-1]


def _pages(made: Recorded, asked: Asked, name: str) -> Iterable[Made]:
    from thence.show.spacetime.pages import Made, all_pages, one_page, violation_page

    if asked.violation is not None:
        return [Made("", violation_page(made, asked.violation))]
    if asked.message is not None:
        around = message_cut(made.events, asked.message)
        return [Made("", one_page(made, replace(asked.cut, run=around.run, stretches=around.stretches)))]
    if asked.cut:
        return [Made("", one_page(made, asked.cut))]
    return all_pages(made, name)
