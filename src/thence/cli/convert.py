"""`thence convert`: writes a trace in another format, whole or the part around one message."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from thence.cli._common import (
    CORES,
    ColumnsOption,
    EngineOption,
    JsonFile,
    KindsOption,
    SparkCores,
    detail,
    finish,
    progress,
    skipped_files,
    start_spark,
    tell,
    write_json,
)
from thence.cli._packages import require_packages
from thence.cli._targets import check_target
from thence.cli.audit import DelimiterOption, FormatOption, PatternOption, TraceArgument
from thence.errors import MisuseError, TraceError

if TYPE_CHECKING:
    from thence.core.model.events import Event
    from thence.tables.engines.choice import EngineChoice
    from thence.tables.files.read import Trace

EXAMPLE = "thence convert trace.parquet --to shiviz --around a7 --out around-a7.log"
SHOWN_LEFT_OUT = 10


class To(StrEnum):
    """The formats in which a trace can be written."""

    jsonl = "jsonl"
    parquet = "parquet"
    shiviz = "shiviz"
    perfetto = "perfetto"


def command(
    trace: TraceArgument,
    to: Annotated[
        To, typer.Option("--to", metavar="FORMAT", help="Format to write: jsonl, parquet, shiviz or perfetto.")
    ],
    around: Annotated[
        str | None, typer.Option("--around", metavar="MESSAGE", help="Only the rows around this message.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE|DIR", help="Where to write it; default: standard output.")
    ] = None,
    files: Annotated[
        int, typer.Option("--files", min=1, help="Parquet: number of files, each with one range of `order`.")
    ] = 1,
    format: FormatOption = "auto",
    pattern: PatternOption = None,
    delimiter: DelimiterOption = None,
    columns: ColumnsOption = None,
    kinds: KindsOption = None,
    engine: EngineOption = "auto",
    cores: SparkCores = CORES,
    json_file: JsonFile = None,
) -> None:
    """Write a trace in another format, whole or the part around one message.

    A log with clocks has no messages, so it can be written as a log only. Exit code 1: some rows were left out.
    """
    from thence.tables.files.read import open_trace

    if out is None and to is To.parquet:
        raise MisuseError("Parquet does not go to standard output; give --out FILE")
    if out is None and json_file == "-":
        raise MisuseError("trace and JSON cannot both go to standard output; give --out FILE")
    if files > 1 and to is not To.parquet:
        raise MisuseError("--files is for Parquet; the other formats are one file")
    if out is not None:
        check_target("--out", out, folder=files > 1)
    if to is To.perfetto:
        require_packages("perfetto")
    source = open_trace(trace, format, pattern, delimiter, columns=columns, kinds=kinds)
    if out is not None and out.resolve() in {path.resolve() for path in source.files}:
        raise MisuseError(f"{out} is read and cannot be written at once")
    asked = Conversion(to, around, out, files)
    choice = _choose(engine, source, asked)
    logs = sum(kind == "shiviz" for kind in source.files.values())
    left_out: list[dict[str, object]] = []
    if logs == 0:
        with _events(source, choice, asked, cores) as (known, events):
            count = _write_table(events, asked, known, left_out)
    elif logs < len(source.files):
        raise MisuseError("logs with clocks and tables of events cannot be converted together")
    elif to is not To.shiviz or around is not None:
        raise MisuseError("a log with clocks has no messages: it can be written as a whole log only")
    else:
        count = _write_log(source, out)
    left_out[:0] = [each.row() for each in source.quarantine]
    about = {"to": to.value, "out": None if out is None else str(out), "engine": choice.engine}
    for stray in skipped_files(source.skipped):
        tell(stray)
    _tell(count, left_out, out, choice)
    write_json(json_file, {"events": count, **about, "quarantine": left_out})
    if left_out:
        if count == 0:
            raise TraceError("nothing could be read")
        finish(1)


class Conversion(NamedTuple):
    """One conversion: input, format, excerpt and output."""

    to: To
    around: str | None
    out: Path | None
    files: int


def _choose(engine: str, source: Trace, asked: Conversion) -> EngineChoice:
    """Choose the engine; streaming output needs no memory, so any size works in-process."""
    from thence.tables.engines import choice as engines

    kinds = set(source.files.values())
    flows = asked.to in (To.jsonl, To.parquet) and asked.around is None and asked.files == 1
    if engine == engines.Engine.AUTO and ("shiviz" in kinds or (flows and _ordered_files(source))):
        return engines.EngineChoice(engines.Engine.LOCAL, "rows are written as they are read")
    return engines.choose_engine(engine, source.files)


def _ordered_files(source: Trace) -> bool:
    """Return whether the rows have an `order`: JSONL always does; for Parquet the first file decides."""
    if "parquet" not in source.files.values():
        return True
    from thence.tables.files.parquet_reader import has_order

    return has_order(next(path for path, kind in source.files.items() if kind == "parquet"))


@contextmanager
def _events(
    source: Trace, choice: EngineChoice, asked: Conversion, cores: int
) -> Iterator[tuple[int | None, Iterator[Event]]]:
    """Yield the events as this process or Spark reads them; Spark counts and sorts them."""
    from thence.tables.engines.choice import Engine

    if choice.engine is Engine.LOCAL:
        yield None, progress(source.events(), "Reading")
        return
    from thence.tables.engines.spark.convert import events_to_write

    spark = start_spark(cores)
    with events_to_write(spark, source, by_order=asked.files > 1, around=asked.around) as (count, events):
        yield count, progress(events, "Writing", count)


def _write_table(
    events: Iterator[Event], asked: Conversion, known: int | None, left_out: list[dict[str, object]]
) -> int:
    from thence.tables.export.around import around as slice_around
    from thence.tables.files.jsonl import write_jsonl

    to, around, out, files = asked
    if to in (To.shiviz, To.perfetto):
        return _write_picture(events, asked, left_out)
    rows = events if around is None else iter(slice_around(events, around))
    if known is None or around is not None:
        rows = _ordered(rows)
    if to is To.jsonl:
        return write_jsonl(rows, out or sys.stdout.buffer)
    from thence.tables.files.parquet import write_parquet

    assert out is not None
    return write_parquet(rows, out, files=files, count=known if around is None else None)


def _write_picture(events: Iterator[Event], asked: Conversion, left_out: list[dict[str, object]]) -> int:
    from thence.core.model.order import RejectedRow
    from thence.tables.export.around import around as slice_around
    from thence.tables.export.shiviz import write_shiviz

    rejected: list[RejectedRow] = []
    target = asked.out or sys.stdout.buffer
    if asked.to is To.shiviz:
        count = write_shiviz(events, target, around=asked.around, rejected=rejected)
    else:
        from thence.tables.export.perfetto import write_perfetto

        rows = events if asked.around is None else slice_around(events, asked.around)
        count = write_perfetto(rows, target, rejected=rejected)
    for each in rejected:
        place = f"run {each.event.run}, process {each.event.process}, index {each.event.index}"
        left_out.append({"file": None, "line": None, "reason": f"{place}: {each.reason}", "text": None})
    return count


def _ordered(events: Iterator[Event]) -> Iterator[Event]:
    """Yield rows that have `order` unchanged; derive it for the others, since written traces always have it."""
    from itertools import chain

    from thence.tables.explain.causality import with_order

    for first in events:
        rows = chain([first], events)
        return rows if first.order is not None else iter(with_order(rows))
    return iter(())


def _write_log(source: Trace, out: Path | None) -> int:
    from thence.tables.export.shiviz import write_clock_events

    return write_clock_events(progress(source.clocks(), "Reading"), out or sys.stdout.buffer)


def _tell(count: int, left_out: list[dict[str, object]], out: Path | None, choice: EngineChoice) -> None:
    """Print a summary on stderr: stdout may carry the trace itself."""
    where = "standard output" if out is None else out
    left = f"{len(left_out)} row{'s' * (len(left_out) != 1)} left out"
    tell(f"{count} event{'s' * (count != 1)} written to {where}, {left}")
    for each in left_out[:SHOWN_LEFT_OUT]:
        place = ":".join(str(part) for part in (each["file"], each["line"]) if part is not None)
        tell(f"  {place + ': ' if place else ''}{each['reason']}")
    if len(left_out) > SHOWN_LEFT_OUT:
        tell(f"  ... and {len(left_out) - SHOWN_LEFT_OUT} more; --json FILE names them all")
    detail(f"converted {choice}")
