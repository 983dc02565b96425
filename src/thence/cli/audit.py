"""`thence audit`: is this execution causal, and if not, which delivery came too early, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thence.cli._common import JsonFile, console, finish, table, working, write_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from thence.spark.auditing import AuditResult
    from thence.trace.read import Trace

EXAMPLE = "thence audit trace.jsonl --json verdict.json"
SMALL = 50 << 20
"""Bytes of input up to which an early start of Spark matters more than its speed."""

SHOWN = 20
"""Rows of each table for people; `--json` has them all."""


def audit(
    trace: Annotated[list[str], typer.Argument(metavar="TRACE...", help="Files, folders or globs.")],
    format: Annotated[str, typer.Option(help="auto, jsonl, parquet or shiviz.")] = "auto",
    pattern: Annotated[
        str | None, typer.Option(metavar="RE", help="A log's lines: groups host, clock and event.")
    ] = None,
    delimiter: Annotated[str | None, typer.Option(metavar="RE", help="What parts executions in a log.")] = None,
    paths: Annotated[int, typer.Option(help="Prove this many violations by a causal path.", min=0)] = 100,
    cores: Annotated[int, typer.Option(help="Cores of the embedded Spark session.", min=1)] = 2,
    json_file: JsonFile = None,
) -> None:
    """Judge a recorded execution: verdict, every violation with its causal path, missing and duplicate deliveries.

    Exit code 0 if it is causal, 1 if it is violated or unknown or has duplicates or misdeliveries, 2 if it
    cannot be read.
    """
    from thence.trace.read import open_trace

    opened = open_trace(trace, format, pattern, delimiter)
    report = _Report()
    if any(kind != "shiviz" for kind in opened.files.values()):
        _audit_tables(opened, report, paths, cores)
    if "shiviz" in opened.files.values():
        _audit_logs(opened, report)
    report.show(json_file)
    write_json(json_file, report.json())
    finish(report.code)


@dataclass
class _Report:
    """What is said in the end: to people, as JSON, and by the exit code."""

    runs: list[dict[str, Any]] = field(default_factory=list)
    violations: list[dict[str, Any]] = field(default_factory=list)
    undelivered: list[dict[str, Any]] = field(default_factory=list)
    duplicates: list[dict[str, Any]] = field(default_factory=list)
    misdelivered: list[dict[str, Any]] = field(default_factory=list)
    quarantine: list[dict[str, Any]] = field(default_factory=list)
    clocks: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    logged: int = 0

    @property
    def verdict(self) -> str:
        """Violated, unknown or causal, over all runs and logs."""
        said = {run["verdict"] for run in self.runs}
        if "violated" in said or self.clocks:
            return "violated"
        return "unknown" if "unknown" in said or self.quarantine else "causal"

    @property
    def events(self) -> int:
        """How many events were judged."""
        return self.logged + sum(int(run["events"]) for run in self.runs)

    @property
    def code(self) -> int:
        """The exit code of the contract."""
        return int(self.verdict != "causal" or bool(self.duplicates) or bool(self.misdelivered))

    def json(self) -> dict[str, Any]:
        """The result as the contract has it."""
        return {
            "verdict": self.verdict,
            "runs": self.runs,
            "events": self.events,
            "messages": sum(run["messages"] for run in self.runs),
            "violations": self.violations,
            "undelivered": self.undelivered,
            "duplicates": self.duplicates,
            "misdelivered": self.misdelivered,
            "quarantine": self.quarantine,
            "clocks": self.clocks,
        }

    def show(self, json_file: str | None) -> None:
        """Print what people want to know."""
        out = console(json_file)
        out.print(f"verdict: {self.verdict}")
        if self.runs:
            columns = [name for name in self.runs[0] if name not in ("run", "verdict")]
            rows = [[run["run"], run["verdict"], *(run[name] for name in columns)] for run in self.runs[:SHOWN]]
            out.print(table("run", "verdict", *columns, rows=rows))
            _rest(out, len(self.runs), "runs")
        for row in self.violations[:SHOWN]:
            out.print(f"run {row['run']}: {_sentence(row, self.undelivered)}")
        _rest(out, len(self.violations), "violations")
        for row in self.quarantine[:SHOWN]:
            out.print(f"set aside: {_place(row)}: {row['reason']}")
        _rest(out, len(self.quarantine), "rows set aside")
        for row in self.clocks[:SHOWN]:
            out.print(f"{row['file']}:{row['line']}: {row['host']} breaks {row['rule']}: {row['found']}")
        _rest(out, len(self.clocks), "clock findings")
        for note in self.notes[:SHOWN]:
            out.print(f"note: {note}")
        if not self.events:
            out.print("note: there is no event to judge")


def _rest(out: Any, count: int, what: str) -> None:
    if count > SHOWN:
        out.print(f"... and {count - SHOWN} more {what}; --json has them all")


def _place(row: dict[str, Any]) -> str:
    if row.get("file"):
        return f"{row['file']}:{row['line']}" if row.get("line") is not None else str(row["file"])
    return f"run {row.get('run')}, process {row.get('process')}, index {row.get('index')}"


def _sentence(row: dict[str, Any], undelivered: list[dict[str, Any]]) -> str:
    from thence.model.order import Violation
    from thence.trace.explain import Step, sentence

    violation = Violation(row["run"], row["destination"], row["early"], row["missing"])
    never = {"run": row["run"], "message": row["missing"], "destination": row["destination"]} in undelivered
    steps = None if row["path"] is None else [Step(**step) for step in row["path"]]
    return sentence(steps, violation, never=never)


def _audit_tables(opened: Trace, report: _Report, paths: int, cores: int) -> None:
    from thence.spark.session import local_session

    size = sum(path.stat().st_size for path in opened.files if path.exists())
    with working("Starting Spark"):
        spark = local_session(cores=cores, quick=size < SMALL or _opened_by_workers(opened))
    for kind in ("parquet", "jsonl"):
        files = [str(path) for path, found in opened.files.items() if found == kind]
        if files:
            with working(f"Auditing {len(files)} {kind} file{'s' if len(files) > 1 else ''}"):
                _take(_start(spark, kind, files), report, paths)


def _opened_by_workers(opened: Trace) -> bool:
    """Tell whether no row is likely to pass through Java, which then has little to do; the first file says it."""
    from thence.trace.parquet_reader import has_order

    return set(opened.files.values()) == {"parquet"} and has_order(next(iter(opened.files)))


def _start(spark: SparkSession, kind: str, files: list[str]) -> AuditResult:
    from thence.spark.files import audit_files, audit_jsonl

    return (audit_files if kind == "parquet" else audit_jsonl)(spark, files)


def _take(result: AuditResult, report: _Report, paths: int) -> None:
    """Bring what the audit found, but none of the events, into the report."""
    with result:
        runs = [row.asDict() for row in result.verdicts.toLocalIterator()]
        report.runs += sorted((run for run in runs if run["run"] is not None), key=lambda run: run["run"])
        listed = _listed(result)
        report.undelivered += listed["undelivered"]
        report.duplicates += listed["duplicates"]
        report.misdelivered += listed["misdelivered"]
        report.quarantine += listed["quarantine"]
        proofs = _proofs(result, listed["violations"][:paths])
        report.violations += [row | {"path": proofs.get(_key(row))} for row in listed["violations"]]


def _listed(result: AuditResult) -> dict[str, list[dict[str, Any]]]:
    """Return the findings of each kind, sorted; one job brings them all."""
    from thence.spark.auditing import LISTS, VIEWS

    found: dict[str, list[dict[str, Any]]] = {name: [] for name in LISTS}
    names = {tag: name for name, tag in LISTS.items()}
    for row in result.findings.toLocalIterator():
        view = VIEWS[names[row["tag"]]]
        found[names[row["tag"]]].append({name: row[column] for name, column in view.items()})
    for rows in found.values():
        rows.sort(key=lambda row: [(value is not None, value) for value in row.values()])
    return found


def _proofs(result: AuditResult, violations: list[dict[str, Any]]) -> dict[tuple[Any, ...], Any]:
    """Return the paths of some violations."""
    if not violations:
        return {}
    columns = "run string, destination string, early string, missing string"
    rows = [tuple(row[name] for name in ("run", "destination", "early", "missing")) for row in violations]
    asked = result.findings.sparkSession.createDataFrame(rows, columns)
    return {_key(row): row.asDict(recursive=True)["path"] for row in result.paths(asked).toLocalIterator()}


def _key(row: Any) -> tuple[Any, ...]:
    return row["run"], row["destination"], row["missing"]


def _audit_logs(opened: Trace, report: _Report) -> None:
    from thence.trace.clocks import audit_clocks

    before = len(opened.quarantine)
    with working("Auditing clocks"):
        audited = audit_clocks(opened.clocks())
    report.logged += audited.events
    report.clocks += [finding.row() for finding in audited.findings]
    report.notes += [str(note) for note in audited.notes]
    report.quarantine += [each.row() for each in opened.quarantine[before:]]
