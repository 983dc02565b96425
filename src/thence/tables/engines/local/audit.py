"""The audit in this process: no JVM, no session; the same stages, the same answers.

    import thence
    with thence.audit("trace.jsonl") as result:      # files, folders, globs; a table of any kind; events
        result.verdict, result.violations

Invariant. The result equals `thence.core.model.order.judge` on the rows of every run, whatever their number. Parquet
whose row groups follow one another in `order` is judged in chunks, several at a time, so that memory is bounded by the
chunks in hand and what they leave open; all else is judged run by run from all rows.

Work is divided into tasks: a chunk of a large run that has an `order`, or runs whole. Tasks run in threads, since the
kernels release the interpreter lock while they work, and chunks are merged in order as they are done. What is judged
again, `rounds_over_chunks` decides.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from thence.core.model.events import Event
from thence.errors import MisuseError
from thence.tables.contract.columns import JUDGED_COLUMNS
from thence.tables.engines.choice import estimated_rows
from thence.tables.engines.local.scratch import Scratch, load_stored
from thence.tables.files.inputs import FileNames, InputTable, TraceInput, trace_input
from thence.tables.files.read import Trace, open_trace
from thence.tables.files.source import Quarantined
from thence.tables.judge import findings
from thence.tables.judge.arrow_findings import ArrowFindings
from thence.tables.judge.chunk import summarise
from thence.tables.judge.coded_rows import as_they_come
from thence.tables.judge.findings import SCHEMA
from thence.tables.judge.normal_table import concatenated, of_batch, refused_table
from thence.tables.judge.partition_plan import CHUNK_ROWS, chunk_count
from thence.tables.judge.proof_events import EventsInMemory, EventsOnDisk, RowGroupRows
from thence.tables.judge.result import COLUMNS, AuditResult, FindingRow, RunRow
from thence.tables.judge.rounds_over_chunks import Merging, Round, judged
from thence.tables.judge.route import Route, choose_route
from thence.tables.judge.row_groups import RowGroupChunk, read_footers, read_groups
from thence.tables.judge.tasks import judged_runs, split_by_run
from thence.tables.judge.threads import in_threads
from thence.tables.judge.whole_run import judge_run

SCRATCH_ROWS = CHUNK_ROWS // 8
"""Rows that are put into a scratch folder at a time, about."""
HELD_ROWS = 2 * CHUNK_ROWS
"""Rows, about, that are held in memory between reading and judging; more are kept in a scratch folder."""
AuditProgress = Callable[[str, int, int | None], None]
"""Called with a stage, how many rows are done, and how many there are if that is known."""


def silent(stage: str, rows: int, total: int | None) -> None:
    """Ignore progress; the default where a caller wants no reports."""


class LocalAuditResult(AuditResult):
    """What an audit in this process found; every list is a list of rows."""

    @property
    def runs(self) -> list[RunRow]:
        """One row per run: `run, verdict, events, messages, gaps`, and how many there are of each finding."""
        return self.run_rows

    @property
    def violations(self) -> list[FindingRow]:
        """One row per destination and missing message: `run, destination, early, missing`."""
        return self.listed("violations")

    @property
    def possible(self) -> list[FindingRow]:
        """Violations unless a missing or set-aside row hides a delivery: `run, destination, early, missing`."""
        return self.listed("possible")

    @property
    def undelivered(self) -> list[FindingRow]:
        """Copies never delivered: `run, message, destination`."""
        return self.listed("undelivered")

    @property
    def duplicates(self) -> list[FindingRow]:
        """Deliveries after the first of a copy: `run, message, destination`."""
        return self.listed("duplicates")

    @property
    def misdelivered(self) -> list[FindingRow]:
        """Deliveries where a message was not addressed: `run, message, destination`."""
        return self.listed("misdelivered")

    @property
    def quarantine(self) -> list[FindingRow]:
        """Rows set aside: where they stood, what they said, and `reason`."""
        return self.listed("quarantine")

    def paths(self, violations: Iterable[FindingRow] | None = None) -> list[dict[str, object]]:
        """Return violations with `path`: a shortest causal chain from the send of missing to that of early.

        `violations` are rows of the list of that name, as in `result.paths(result.violations[:100])`; all if not given.
        """
        if isinstance(violations, int):
            raise MisuseError(f"paths takes violations, not a number; paths(result.violations[:{violations}])")
        return self.with_paths(self.violations if violations is None else violations)


def audit(
    events: TraceInput,
    *,
    cores: int | None = None,
    columns: Mapping[str, str] | None = None,
    kinds: Mapping[str, str] | None = None,
    progress: AuditProgress = silent,
) -> LocalAuditResult:
    """Audit a trace in this process: was every message delivered after its causes, and if not, which were not?

        thence.audit("trace.jsonl").verdict    # 'causal', 'violated' or 'unknown'

    Args:
        events: files, folders or globs; a table in the trace table's columns (pandas, Polars, pyarrow, anything else
            with Arrow's capsule interface, a list of dicts); or events.
        cores: how many chunks are judged at a time; as many as there are cores if not given.
        columns: the trace's own names for the columns of the contract, as in `{"process": "pid"}`.
        kinds: the trace's own values of `kind`, as in `{"PRODUCED": "send"}`.
        progress: called with the stage, the rows done and the rows in all, if known.
    """
    given = trace_input(events, columns, kinds)
    if isinstance(given, InputTable):
        return audit_input(given, columns, kinds, cores=cores, progress=progress)
    if isinstance(given, FileNames):
        return audit_trace(open_trace(given.names, columns=columns, kinds=kinds), cores=cores, progress=progress)
    return audit_events(given, cores=cores, progress=progress)


def audit_input(
    table: InputTable,
    columns: Mapping[str, str] | None = None,
    kinds: Mapping[str, str] | None = None,
    *,
    cores: int | None = None,
    progress: AuditProgress = silent,
) -> LocalAuditResult:
    """Audit a table that the caller holds in memory."""
    from thence.tables.judge.normal_table import of_input

    return audit_table(of_input(table, columns, kinds), cores=cores or os.cpu_count() or 1, progress=progress)


def audit_events(
    events: Sequence[Event], *, cores: int | None = None, progress: AuditProgress = silent
) -> LocalAuditResult:
    """Audit a list of events."""
    from thence.tables.judge.normal_table import of_events

    return audit_table(of_events(events), cores=cores or os.cpu_count() or 1, progress=progress)


def audit_trace(trace: Trace, *, cores: int | None = None, progress: AuditProgress = silent) -> LocalAuditResult:
    """Audit the tables of a trace; logs with clocks are for `tables.explain.clock_findings`."""

    result = audit_files(trace, cores=cores or os.cpu_count() or 1, progress=progress)
    result.records = trace.record_audit()
    return result


def refused_row(refused: Quarantined) -> FindingRow:
    """Return what a reader refused as a row of the list `quarantine`."""
    row = refused.row()
    return {column: row.get(column) for column in COLUMNS["quarantine"]}  # type: ignore[misc]


@dataclass(frozen=True)
class JudgeTask:
    """Rows that are judged together: a chunk of a run, numbered, or runs whole."""

    run: str | None
    number: int | None
    rows: int
    load: Callable[[], pa.Table]


def audit_table(
    table: pa.Table, *, cores: int = 1, progress: AuditProgress = silent, chunk_rows: int = CHUNK_ROWS
) -> LocalAuditResult:
    """Audit a table that has the normal columns."""
    tasks = [task for run, rows in split_by_run(table) for task in tasks_of(run, rows, chunk_rows)]
    outcome = judge_tasks(tasks, cores=cores, progress=progress)
    kept = ArrowFindings(outcome.table(), EventsInMemory(table))
    return LocalAuditResult(kept, "local", str(choose_route()))


def audit_files(
    trace: Trace,
    *,
    cores: int = 1,
    progress: AuditProgress = silent,
    chunk_rows: int = CHUNK_ROWS,
    held_rows: int = HELD_ROWS,
) -> LocalAuditResult:
    """Audit the tables of a trace."""
    files = {path: kind for path, kind in trace.files.items() if kind != "shiviz"}
    grouped = files and set(files.values()) == {"parquet"} and trace.in_our_names
    footers = read_footers(files) if grouped else None
    held = sum(map(estimated_rows, files)) <= held_rows
    route = choose_route(footers=footers, split=False, held=held, chunk_rows=chunk_rows)
    if route.name == "whole":
        tables = list(_read(trace, cores, progress))
        return audit_table(concatenated(tables), cores=cores, progress=progress, chunk_rows=chunk_rows)
    if footers is None or not route.by_groups:
        return _audit_scratch(_read(trace, cores, progress), route, cores, progress, chunk_rows)
    tasks = [_task_of(chunk) for chunk in route.chunks]
    outcome = judge_tasks(tasks, cores=cores, progress=progress)
    outcome.kept.extend(refused_table(each) for each in (*trace.quarantine, *footers.refused))
    stored = [RowGroupRows(group) for group in footers.groups]
    kept = ArrowFindings(outcome.table(), EventsOnDisk(stored, outcome.along_order, cores))
    return LocalAuditResult(kept, "local", str(route))


def _audit_scratch(
    tables: Iterator[pa.Table], route: Route, cores: int, progress: AuditProgress, chunk_rows: int
) -> LocalAuditResult:
    """Audit rows that are too many to be held; the scratch folder goes with the result."""
    scratch = Scratch()
    try:
        for table in _together(tables):
            scratch.put(table)
        tasks = [
            JudgeTask(run, number, sum(each.rows for each in stored), lambda stored=stored: load_stored(stored))  # type: ignore[misc]
            for run, number, stored in scratch.chunks(chunk_rows)
        ]
        outcome = judge_tasks(tasks, cores=cores, progress=progress)
    except BaseException:
        scratch.close()
        raise
    kept = ArrowFindings(outcome.table(), scratch.events(outcome.along_order, cores))
    return LocalAuditResult(kept, "local", str(route))


def _together(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables of `SCRATCH_ROWS` rows or more, each made of some that follow one another."""
    some: list[pa.Table] = []
    for table in tables:
        some.append(table)
        if sum(map(len, some)) >= SCRATCH_ROWS:
            yield concatenated(some)
            some = []
    if some:
        yield concatenated(some)


def _task_of(chunk: RowGroupChunk) -> JudgeTask:
    places = [group.place for group in chunk.groups]
    return JudgeTask(chunk.run, chunk.number, chunk.rows, lambda: read_groups(places))


def tasks_of(run: str | None, table: pa.Table, chunk_rows: int) -> Iterator[JudgeTask]:
    """Yield the tasks of one run: chunks if it is large and has an `order`, else one."""
    if run is None or len(table) <= chunk_rows or table.column("order").null_count:
        yield JudgeTask(run, None, len(table), lambda: table)
        return
    ordered = as_they_come(table)
    size = -(-len(ordered) // chunk_count(len(ordered), chunk_rows))
    for number, start in enumerate(range(0, len(ordered), size)):
        chunk = ordered.slice(start, size)
        yield JudgeTask(run, number, len(chunk), lambda chunk=chunk: chunk)  # type: ignore[misc]


class LocalEngine:
    """Tasks done in threads of this process; the chunks of a run are merged as they are done, in order."""

    def __init__(self, tasks: list[JudgeTask], cores: int, progress: AuditProgress) -> None:
        """Take the tasks; those of one run come together."""
        self._tasks, self._cores, self._progress = tasks, cores, progress
        self._want: dict[str, frozenset[str]] = {}

    def round(self, wanting: set[str] | None) -> Round[list[pa.Table]]:
        """Judge all tasks, or those of some runs once more."""
        tasks = self._tasks if wanting is None else [task for task in self._tasks if task.run in wanting]
        done = Round[list[pa.Table]]([])
        rows, total = 0, sum(task.rows for task in tasks)
        self._progress("judging", 0, total)
        results = in_threads(lambda task: self._judged(task, done.troubled), tasks, self._cores)
        for run, own in groupby(zip(tasks, results, strict=True), key=lambda pair: pair[0].run):
            chunks = None
            for task, found in own:
                if run is None or task.number is None:
                    done.found.append(found)
                else:
                    chunks = chunks or _Chunks(run, last_round=wanting is not None)
                    chunks.add(found, done)
                rows += task.rows
                self._progress("judging", rows, total)
            if chunks is not None:
                chunks.finish(done, self._want)
        return done

    def whole(self, runs: Sequence[str]) -> list[pa.Table]:
        """Judge runs whole, one after the other."""
        found: list[pa.Table] = []
        for run in runs:
            table = concatenated([task.load() for task in self._tasks if task.run == run])
            self._progress("judging", 0, len(table))
            found.append(judge_run(run, table))
        return found

    def _judged(self, task: JudgeTask, troubled: set[str]) -> pa.Table:
        """Return what one task finds; a chunk of a run that is in trouble already is not looked at."""
        if task.number is None or task.run is None:
            return pa.Table.from_batches(judged_runs(task.load(), block=None), findings.SCHEMA)
        if task.run in troubled:
            return findings.SCHEMA.empty_table()
        return summarise(task.run, task.number, task.load(), want=self._want.get(task.run, ()))


class _Chunks:
    """The chunks of one run, as far as they have come."""

    def __init__(self, run: str, *, last_round: bool) -> None:
        self.run, self._merging, self._kept = (
            run,
            Merging(run, last_round=last_round),
            [pa.Table.from_batches([], SCHEMA)],
        )

    def add(self, found: pa.Table, done: Round[list[pa.Table]]) -> None:
        """Take the next chunk."""
        tags = found.column("tag")
        if self.run in done.troubled or pc.any(pc.equal(tags, findings.TROUBLE)).as_py():
            done.troubled.add(self.run)
            return
        for tag in (findings.SUMMARY, findings.IDS):
            payloads = found.filter(pc.equal(tags, tag)).column("payload")
            self._merging.add(tag, [payload.as_buffer() for payload in payloads])
        self._kept.append(found.filter(pc.is_in(tags, pa.array(findings.LISTED_TAGS))))

    def finish(self, done: Round[list[pa.Table]], want: dict[str, frozenset[str]]) -> None:
        """Say what the run turned out to be, or what is to be done about it."""
        if self.run in done.troubled:
            return
        rest = self._merging.finish()
        first = rest.column("tag")[0].as_py()
        if first == findings.TROUBLE:
            done.troubled.add(self.run)
        elif first == findings.WANT:
            done.wanting.add(self.run)
            want[self.run] = pickle.loads(rest.column("payload")[0].as_py())
        else:
            done.found += [*self._kept, rest]


class Judged(NamedTuple):
    """What tasks found, and the runs judged along their `order`."""

    kept: list[pa.Table]
    along_order: set[str]

    def table(self) -> pa.Table:
        """Return all findings as one table."""
        return pa.concat_tables([SCHEMA.empty_table(), *self.kept]).drop_columns(["payload", "chunk"])


def judge_tasks(tasks: list[JudgeTask], *, cores: int, progress: AuditProgress = silent) -> Judged:
    """Judge everything, in as many rounds as it takes."""
    found, troubled = judged(LocalEngine(tasks, cores, progress))
    chunked = {task.run for task in tasks if task.number is not None and task.run is not None}
    return Judged([table for some in found for table in some], chunked - troubled)


def _read(trace: Trace, cores: int, progress: AuditProgress) -> Iterator[pa.Table]:
    """Yield all rows of a trace, several parts being read at a time."""
    rows = 0
    tasks = trace.tasks(JUDGED_COLUMNS, needs=False, coded=True)
    for table in in_threads(lambda task: concatenated([of_batch(rows) for rows in task()]), tasks, cores):
        rows += len(table)
        progress("reading", rows, None)
        yield table
