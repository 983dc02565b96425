"""`thence audit`: whether an execution is causal, and if not, which deliveries came too early, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thence.cli._common import (
    CORES,
    SHOWN,
    ColumnsOption,
    EngineOption,
    JsonFile,
    KindsOption,
    by_reason,
    console,
    counted,
    detail,
    finish,
    lines_by_reason,
    skipped_files,
    start_spark,
    working,
    write_pieces,
)
from thence.cli._console import Console, ConsoleTable, table
from thence.errors import MisuseError
from thence.tables.contract.columns import JUDGED_COLUMNS, without
from thence.tables.files.formats import ELSEWHERE

if TYPE_CHECKING:
    from thence.tables.engines.choice import EngineChoice
    from thence.tables.engines.local.audit import AuditProgress
    from thence.tables.files.read import Trace
    from thence.tables.judge.result import AuditResult, RunRow

EXAMPLE = "thence audit trace.jsonl --json verdict.json"


TraceArgument = Annotated[list[str], typer.Argument(metavar="TRACE...", help="Files, folders or globs.")]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        "--from",
        metavar="FORMAT",
        help="jsonl, parquet, csv, otlp, ...; default: recognised.",
        show_default=False,
    ),
]
PatternOption = Annotated[
    str | None,
    typer.Option(metavar="RE", help="Regular expression for an event of a log, with groups host, clock, event."),
]
DelimiterOption = Annotated[
    str | None, typer.Option(metavar="RE", help="Regular expression that separates executions in a log.")
]
CoresOption = Annotated[int, typer.Option(help="Number of cores to use.", min=1, show_default="all")]


def command(
    trace: TraceArgument,
    format: FormatOption = "auto",
    pattern: PatternOption = None,
    delimiter: DelimiterOption = None,
    columns: ColumnsOption = None,
    kinds: KindsOption = None,
    engine: EngineOption = "auto",
    paths: Annotated[int, typer.Option(help="Prove this many violations by a causal path.", min=0)] = 100,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write the findings as Parquet files, to a new folder.")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write an HTML page with the findings and the runs."),
    ] = None,
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="Accept an empty trace.")] = False,
    cores: CoresOption = CORES,
    json_file: JsonFile = None,
) -> None:
    """Judge a recorded execution: verdict, every violation with its causal path, missing and duplicate deliveries.

    Exit code 0 if it is causal; 1 if it is violated or unknown, or has duplicates or misdeliveries; 2 if it cannot be
    read.
    """
    from thence.tables.files.read import open_trace

    if out is not None:
        from thence.tables.judge.output import refuse_full, write_findings  # missing columns are reported first

        refuse_full(out)

    opened = open_trace(trace, format, pattern, delimiter, columns=columns, kinds=kinds)
    with audited(opened, engine, cores) as (result, choice):
        result.allow_empty = allow_empty
        detail(f"route: {result.route}")
        with _collecting(result):
            result.told(SHOWN, paths)  # finds the proofs, which takes longest, before anything is printed
        tell(result, choice, opened, paths, console(json_file))
        with _collecting(result) as progress:
            write_pieces(json_file, _tallied(result.json(paths), progress))
            if out is not None:
                write_findings(result, out, paths=paths)
        if page is not None:
            _write_page(opened, result, choice, page, paths, cores, console(json_file))
        finish(result.exit_code)


@contextmanager
def _collecting(result: AuditResult) -> Iterator[AuditProgress]:
    """Show the progress of Spark on a terminal while its findings are collected."""
    with counted() as progress:
        if result.engine != "spark":
            yield progress
            return
        from thence.tables.engines.spark.session import watched

        with watched(result.findings.frame.sparkSession, progress):  # type: ignore[attr-defined]
            yield progress


def _tallied(pieces: Iterator[str], progress: AuditProgress) -> Iterator[str]:
    """Yield pieces of JSON, and report their number as progress."""
    for count, piece in enumerate(pieces):
        if count % PROGRESS_EVERY == 0:
            progress("writing findings", count, None)
        yield piece


PROGRESS_EVERY = 10_000
"""Findings written between two progress reports."""


def _write_page(
    opened: Trace, result: AuditResult, choice: EngineChoice | None, page: Path, paths: int, cores: int, out: Console
) -> None:
    from thence.cli._pages import recorded, write_pages
    from thence.show.page import Wanted, recorded_log

    logs_only = set(opened.files.values()) == {"shiviz"}
    made = recorded_log(opened, page.stem) if logs_only else None
    made = made or recorded(opened, result, choice, Wanted(), page.stem, cores=cores, paths=paths)
    write_pages(made, Wanted(), page, out)


@contextmanager
def audited(opened: Trace, engine: str, cores: int) -> Iterator[tuple[AuditResult, EngineChoice | None]]:
    """Audit an opened trace, tables and logs, with the chosen engine."""
    from thence.tables.engines.choice import Engine, EngineChoice, choose_engine

    tables = [path for path, kind in opened.files.items() if kind != "shiviz"]
    choice = choose_engine(engine, tables)
    if opened.records:
        if engine == Engine.SPARK:
            raise MisuseError(
                "spans, events and changes in files are audited in this process; leave --engine spark out"
            )
        choice = EngineChoice(Engine.LOCAL, "records are read in this process only")
    logs_only = not tables and "shiviz" in opened.files.values()
    if choice.engine is Engine.SPARK and not logs_only:
        result = _on_spark(opened, cores)
    else:
        from thence.tables.engines.local.audit import audit_trace
        from thence.tables.files.without_pandas import without_pandas

        without_pandas()
        with counted() as progress:
            result = audit_trace(opened, cores=cores, progress=progress)
    with result:
        if "shiviz" in opened.files.values():
            _audit_logs(opened, result)
        yield result, None if logs_only else choice


def _on_spark(opened: Trace, cores: int) -> AuditResult:
    from thence.tables.engines.spark.audit import audit_trace
    from thence.tables.engines.spark.session import watched

    size = sum(path.stat().st_size for path in opened.files if path.exists())
    spark = start_spark(cores, quick=size < SMALL or _opened_by_workers(opened))
    with counted() as progress, watched(spark, progress):
        result = audit_trace(spark, opened)
        detail(f"{len(result.run_rows):,} runs judged on Spark")  # this starts the Spark job
        return result


SMALL = 50 << 20
"""Bytes of input up to which an early start of Spark matters more than its speed."""


def _opened_by_workers(opened: Trace) -> bool:
    """Return whether Java will probably read no rows, judged by the first file."""
    from thence.tables.files.parquet_reader import has_order

    return set(opened.files.values()) == {"parquet"} and has_order(next(iter(opened.files)))


def _audit_logs(opened: Trace, result: AuditResult) -> None:
    from thence.tables.engines.local.audit import refused_row
    from thence.tables.explain.clock_findings import audit_clocks

    before = len(opened.quarantine)
    with working("Auditing clocks"):
        result.clocks = audit_clocks(opened.clocks())
    result.log_quarantine = [refused_row(each) for each in opened.quarantine[before:]]


# -- for people --------------------------------------------------------------------------------------------------------


def tell(result: AuditResult, choice: EngineChoice | None, opened: Trace, paths: int, out: Console) -> None:
    """Print verdict, findings and runs for people, the worst first."""
    say = out.print
    if choice is not None:
        say(f"verdict: {result.verdict}")
        detail(f"judged {choice}")
        for line in _runs(result, out):
            say(line)
    for line in (*_clocks(result), *_records(result), *_findings(result, paths), *skipped_files(opened.skipped)):
        say(line)
    if not result.events:
        unused = next(iter(result.rows("quarantine")), None)
        hint = "" if result.allow_empty or unused else "; --allow-empty accepts an empty trace"
        say(f"note: there is no event to judge{hint}")


def _runs(result: AuditResult, out: Console) -> Iterator[str]:
    """Print the runs, the worst first, hops apart; yield totals."""
    from thence.core.model.message_names import HOPS

    rank = {"violated": 0, "unknown": 1, "causal": 2}
    runs = sorted(result.run_rows, key=lambda run: (rank[run["verdict"]], run["run"]))
    hops = [run for run in runs if run["run"].endswith(HOPS)]
    runs = [run for run in runs if not run["run"].endswith(HOPS)]
    if len(runs) == 1:
        yield _run_line(runs[0])
    for title, some in ((None, runs if len(runs) > 1 else []), ("hops, as runs of their own", hops)):
        if some:
            out.print(_run_table(some[:SHOWN], title))
            if len(some) > SHOWN:
                yield f"... and {len(some) - SHOWN} more runs; --json has them all"
    if len(runs) > 1:
        counts = {verdict: sum(run["verdict"] == verdict for run in runs) for verdict in rank}
        verdicts = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items() if count)
        yield f"{len(runs):,} runs: {verdicts}; {result.events:,} events, {result.messages:,} messages"


def _run_line(run: RunRow) -> str:
    """Return the counts of a single run, without its name and without zeros."""
    counts = {name: run[name] for name in _COUNTS}  # type: ignore[literal-required]
    shown = {name: count for name, count in counts.items() if count or name in _ALWAYS}
    return ", ".join(f"{count:,} {name.removesuffix('s') if count == 1 else name}" for name, count in shown.items())


_COUNTS = (
    "events", "messages", "violations", "possible", "gaps", "undelivered", "duplicates", "misdelivered", "quarantined",
)  # fmt: skip
_ALWAYS = ("events", "messages", "violations")


def _run_table(runs: list[RunRow], title: str | None) -> ConsoleTable:
    """Return one row per run; columns that are zero everywhere are left out, so that the table fits a terminal."""
    columns = [name for name in _COUNTS if name in _ALWAYS or any(run[name] for run in runs)]  # type: ignore[literal-required]
    rows = [[run["run"], run["verdict"], *(run[name] for name in columns)] for run in runs]  # type: ignore[literal-required]
    return table("run", "verdict", *columns, rows=rows, title=title)


_CLOCK_VERDICTS = {
    "causal": "are consistent", "violated": "are not consistent", "unknown": "may be consistent",
}  # fmt: skip


def _clocks(result: AuditResult) -> Iterator[str]:
    """Yield sentences about logs with vector clocks."""
    if result.clocks is None:
        return
    audited = result.clocks
    counts = {"host": audited.hosts, "event": audited.events, "execution": audited.executions}
    what = ", ".join(f"{count:,} {noun}{'s' * (count != 1)}" for noun, count in counts.items())
    yield f"clocks {_CLOCK_VERDICTS[audited.verdict]}: {what}"
    if not result.run_rows and result.verdict == "unknown":
        lacking = "hosts have no events in it" if audited.findings else "lines were set aside"
        yield f"verdict: unknown, since {lacking}" if audited.events else "verdict: unknown: there is no event"
    yield f"layout: {'; '.join(audited.layouts) or 'none'}"
    for row in audited.findings[:SHOWN]:
        yield f"{row.file}:{row.line}: {row.host} breaks {row.rule}: {row.found}"
    if len(audited.findings) > SHOWN:
        yield f"... and {len(audited.findings) - SHOWN} more clock findings; --json has them all"
    for note in audited.notes[:SHOWN]:
        yield f"note: {note}"


def _records(result: AuditResult) -> Iterator[str]:
    """Yield sentences about spans, events and changes: missing causes, and clock skew."""
    if result.records is None:
        return
    orphans, skews = result.records.orphans, result.records.skews
    yield f"records: {result.records.records:,}; causes that are not among them: {len(orphans):,}"
    for row in orphans[:SHOWN]:
        names = list(row["named_by"])  # type: ignore[call-overload]
        more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        yield f"orphan: {row['cause']} is not there; {names[0]}{more} named it"
    if len(orphans) > SHOWN:
        yield f"... and {len(orphans) - SHOWN:,} more orphans; --json has them all"
    for skew in skews[:SHOWN]:
        what = f"{len(skew.pairs):,} of {skew.child} start before their parents of {skew.parent}"
        if skew.offset is None:
            yield f"violated: {what}, and no difference of the clocks explains it; the first: {skew.pairs[0][1]}"
        else:
            yield f"clock skew: {what}; the clock of {skew.child} is {skew.offset:.6g} s behind"


def _findings(result: AuditResult, paths: int) -> Iterator[str]:
    """Yield violations in words, and rows that were set aside."""
    count = sum(run["violations"] for run in result.run_rows)
    one = len(result.run_rows) == 1
    for number, (row, sentence) in enumerate(result.told(SHOWN, paths), 1):
        yield f"{number}. {sentence}" if one else f"{number}. run {row['run']}: {sentence}"
    if count > SHOWN:
        yield f"... and {count - SHOWN:,} more violations; --json has them all"
    if count:
        yield "thence explain TRACE --violation K draws one of them"
    for row in islice(result.rows("possible"), SHOWN):
        where = "" if one else f"run {row['run']}: "
        yield (
            f"possible: {where}{row['destination']} delivered {row['early']} and no {row['missing']}, which was sent "
            f"before it, unless a row that is missing or set aside there delivered {row['missing']}"
        )
    if (more := sum(run["possible"] for run in result.run_rows) - SHOWN) > 0:
        yield f"... and {more:,} more that are possible; --json has them all"
    reasons = by_reason(result.rows("quarantine"))
    yield from lines_by_reason(reasons, SHOWN)
    if not result.messages:
        yield from _hints([reason.removeprefix("column ") for reason in islice(reasons, SHOWN)])


def _hints(reasons: list[str]) -> Iterator[str]:
    """Yield hints where rows were set aside because of their columns, which may have other names or another format."""
    for column in JUDGED_COLUMNS:
        about_it = [reason for reason in reasons if reason.startswith(f"{column.name} is ")]
        if not any("accepted" in reason or "missing" in reason for reason in about_it):
            continue
        if column.among and any("accepted" in reason for reason in about_it):
            yield f"note: if your rows have other words for {column.name}, give --kinds YOURS=send,..."
        elif any(re.search(r" is -?\d+; a string is accepted$", reason) for reason in about_it):
            yield f'note: ids are texts: convert the numbers of {column.name}, as in "1" for 1'
        elif column.required:
            known = ", ".join(column.name for column in JUDGED_COLUMNS)
            named = f"--columns {column.name}=YOURS,..."
            yield f"note: if your columns have other names, give {named}; the expected columns are {known}"
            how = without([column], ()) or f"; if this is not a recorded execution: {ELSEWHERE}"
            yield f"note{how.replace(';', ':', 1)}"
        else:
            yield f"note: if your column {column.name} means something else, give --columns {column.name}="
        return
