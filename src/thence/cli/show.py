"""`thence show`: a run as a page: lanes, copies, holds, what came too early and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thence.cli._common import JsonFile, console, working, write_json
from thence.errors import MisuseError

if TYPE_CHECKING:
    from thence.report.spacetime.pages import Made, Recorded
    from thence.trace.cutting import Cut
    from thence.trace.read import Trace

EXAMPLE = "thence show run.jsonl --violation 1 --out why.html"


def show(
    trace: Annotated[list[str], typer.Argument(metavar="TRACE...", help="Files, folders or globs.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The page; default: named after the trace, here.")
    ] = None,
    violation: Annotated[
        int | None, typer.Option(metavar="K", min=1, help="Only what is around this violation, as `audit` counts.")
    ] = None,
    message: Annotated[str | None, typer.Option(metavar="M", help="Only what is around this message.")] = None,
    time: Annotated[str | None, typer.Option(metavar="FROM:TO", help="Only these recorded seconds.")] = None,
    order: Annotated[str | None, typer.Option(metavar="FROM:TO", help="Only this range of `order`.")] = None,
    processes: Annotated[str | None, typer.Option(metavar="a,b", help="Only these processes.")] = None,
    run: Annotated[str | None, typer.Option(metavar="NAME", help="Only this run.")] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    format: Annotated[str, typer.Option(help="auto, jsonl or parquet.")] = "auto",
    json_file: JsonFile = None,
) -> None:
    """Write a run as one HTML page to look at: no server, no network; light and dark, keyboard and screen reader.

    A trace of more than 100,000 events is cut into slices, and the page is an index of them.
    """
    from thence.trace.read import open_trace

    if violation is not None and message is not None:
        raise MisuseError("--violation and --message were both given; one of them is accepted")
    opened = open_trace(trace, format)
    if "shiviz" in opened.files.values():
        raise MisuseError("a log with clocks has no messages to draw; a trace in JSONL or Parquet is accepted")
    target = out or Path(_name(trace, opened)).with_suffix(".html")
    cut = _cut(run, time, order, processes)
    recorded = _local(opened, target.stem)
    written: list[tuple[str, int]] = []
    with working("Drawing"):
        for made in _pages(recorded, cut, violation, message, target.stem):
            path = target.with_name(f"{target.stem}{made.suffix}{target.suffix or '.html'}")
            path.write_text(made.html, encoding="utf-8")
            written.append((str(path), path.stat().st_size))
    said = console(json_file)
    for file, size in written[-1:] + written[:-1]:
        said.print(f"{file} ({size / 1e6:.1f} MB)")
    pages = [{"file": file, "bytes": size} for file, size in written]
    write_json(json_file, {"events": len(recorded.events), "pages": pages})
    if open_page:
        import webbrowser

        webbrowser.open(Path(written[-1][0]).resolve().as_uri())


def _name(given: list[str], opened: Trace) -> str:
    """Return what the page is called: the file if there is one, else what was asked for first."""
    name = next(iter(opened.files)).name if len(opened.files) == 1 else Path(given[0]).name
    return name.removesuffix(".gz").replace("*", "all") or "run"


def _cut(run: str | None, time: str | None, order: str | None, processes: str | None) -> Cut:
    from thence.trace.cutting import Cut, range_of

    orders = None if order is None else range_of(order, "--order")
    return Cut(
        run,
        times=None if time is None else range_of(time, "--time"),
        orders=None if orders is None else (_whole(orders[0]), _whole(orders[1])),
        processes=None if processes is None else frozenset(name for name in processes.split(",") if name),
    )


def _whole(number: float) -> int:
    return int(max(-(2.0**63), min(number, 2.0**62)))


def _local(opened: Trace, title: str) -> Recorded:
    from thence.report.spacetime.findings import ByDefinition, findings_of
    from thence.report.spacetime.pages import Recorded
    from thence.trace.origins import events_with_origins
    from thence.trace.scene import set_aside

    with working("Reading"):
        events, origins = events_with_origins(opened)
    with working("Judging"):
        audit = ByDefinition(events)
        findings = findings_of(audit)
    findings += [
        (None, set_aside(each.reason, place=str(each).removesuffix(f": {each.reason}"))) for each in opened.quarantine
    ]
    return Recorded(events, findings, audit.verdicts, origins, title)


def _pages(recorded: Recorded, cut: Cut, violation: int | None, message: str | None, name: str) -> list[Made]:
    from dataclasses import replace

    from thence.report.spacetime.pages import Made, all_pages, one_page, violation_page
    from thence.trace.cutting import message_cut

    if violation is not None:
        return [Made("", violation_page(recorded, violation))]
    if message is not None:
        around = message_cut(recorded.events, message)
        return [Made("", one_page(recorded, replace(cut, run=around.run, stretches=around.stretches)))]
    if cut:
        return [Made("", one_page(recorded, cut))]
    return list(all_pages(recorded, name))
