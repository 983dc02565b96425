"""`thence convert`: a trace from one format to another, whole or the part around one message."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thence.cli._common import JsonFile, finish, progress, write_json
from thence.errors import MisuseError, TraceError
from thence.model.escape import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from thence.model.events import Event
    from thence.trace.read import Trace

EXAMPLE = "thence convert trace.parquet --to shiviz --around a7 --out around-a7.log"
SHOWN = 10


class To(StrEnum):
    """What a trace can be written as."""

    jsonl = "jsonl"
    parquet = "parquet"
    shiviz = "shiviz"
    perfetto = "perfetto"


def command(
    trace: Annotated[list[str], typer.Argument(metavar="TRACE", help="Files, folders or globs.")],
    to: Annotated[To, typer.Option("--to", help="The format to write.")],
    around: Annotated[
        str | None, typer.Option("--around", metavar="MESSAGE", help="Only the rows around this message.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to write; default: standard output.")
    ] = None,
    files: Annotated[
        int, typer.Option("--files", min=1, help="Parquet: as many files, each one range of `order`.")
    ] = 1,
    format: Annotated[str, typer.Option("--format", help="auto, jsonl, parquet or shiviz.")] = "auto",
    pattern: Annotated[
        str | None,
        typer.Option("--pattern", metavar="RE", help="Of a log: with the groups host, clock, event."),
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option("--delimiter", metavar="RE", help="Between executions in a log: with the group trace."),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Write a trace in another format, whole or the part around one message.

    A log with clocks has no messages, so it can be written as a log only. Exit code 1: some rows were left out.
    """
    from thence.trace.read import open_trace

    if out is None and to is To.parquet:
        raise MisuseError("Parquet does not go to standard output; give --out FILE")
    if out is None and json_file == "-":
        raise MisuseError("trace and JSON cannot both go to standard output; give --out FILE")
    if files > 1 and to is not To.parquet:
        raise MisuseError("--files is for Parquet; the other formats are one file")
    source = open_trace(trace, format, pattern, delimiter)
    if out is not None and out.resolve() in {path.resolve() for path in source.files}:
        raise MisuseError(f"{out} is read and cannot be written at once")
    logs = sum(kind == "shiviz" for kind in source.files.values())
    left_out: list[dict[str, object]] = []
    if logs == 0:
        count = _write_table(source, to, around, out, files, left_out)
    elif logs < len(source.files):
        raise MisuseError("logs with clocks and tables of events cannot be converted together")
    elif to is not To.shiviz or around is not None:
        raise MisuseError("a log with clocks has no messages: it can be written as a whole log only")
    else:
        count = _write_log(source, out)
    left_out[:0] = [each.row() for each in source.quarantine]
    result = {"events": count, "to": to.value, "out": None if out is None else str(out), "quarantine": left_out}
    for stray in source.skipped:
        print(visible(f"skipped {stray}"), file=sys.stderr)
    _tell(count, left_out, out)
    write_json(json_file, result)
    if left_out:
        if count == 0:
            raise TraceError("nothing could be read")
        finish(1)


def _write_table(
    source: Trace, to: To, around: str | None, out: Path | None, files: int, left_out: list[dict[str, object]]
) -> int:
    from thence.model.order import Rejected
    from thence.trace.jsonl import write_jsonl
    from thence.trace.shiviz_writer import write_shiviz
    from thence.trace.slice import around as slice_around

    events = progress(source.events(), "Reading")
    if to in (To.shiviz, To.perfetto):
        rejected: list[Rejected] = []
        target = out or sys.stdout.buffer
        if to is To.shiviz:
            count = write_shiviz(events, target, around=around, rejected=rejected)
        else:
            from thence.trace.perfetto import write_perfetto

            count = write_perfetto(
                events if around is None else slice_around(events, around), target, rejected=rejected
            )
        for each in rejected:
            place = f"run {each.event.run}, process {each.event.process}, index {each.event.index}"
            left_out.append({"file": None, "line": None, "reason": f"{place}: {each.reason}", "text": None})
        return count
    rows = _ordered(events if around is None else iter(slice_around(events, around)))
    if to is To.jsonl:
        return write_jsonl(rows, out or sys.stdout.buffer)
    from thence.trace.parquet import write_parquet

    assert out is not None
    return write_parquet(rows, out, files=files)


def _ordered(events: Iterator[Event]) -> Iterable[Event]:
    """Pass rows through if they say `order`; else derive one, since what we write promises it."""
    from itertools import chain

    from thence.trace.causality import with_order

    for first in events:
        rows = chain([first], events)
        return rows if first.order is not None else with_order(rows)
    return ()


def _write_log(source: Trace, out: Path | None) -> int:
    from thence.trace.shiviz_writer import write_clock_events

    return write_clock_events(progress(source.clocks(), "Reading"), out or sys.stdout.buffer)


def _tell(count: int, left_out: list[dict[str, object]], out: Path | None) -> None:
    """Say what was done on stderr: stdout may carry the trace itself."""
    where = "standard output" if out is None else out
    print(visible(f"{count} events written to {where}, {len(left_out)} rows left out"), file=sys.stderr)
    for each in left_out[:SHOWN]:
        place = ":".join(str(part) for part in (each["file"], each["line"]) if part is not None)
        print(visible(f"  {place + ': ' if place else ''}{each['reason']}"), file=sys.stderr)
    if len(left_out) > SHOWN:
        print(f"  ... and {len(left_out) - SHOWN} more; --json FILE names them all", file=sys.stderr)
