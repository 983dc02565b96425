"""The driver of the stages in this process: tables and files judged by the kernels, chunks on several cores.

Law. Work is cut into tasks: a chunk of a large run that has an `order`, or runs whole. Tasks are done in threads, since
the kernels let go of the interpreter while they work, and chunks are merged in order as they are done. A run that wants
another round, or is in trouble, is done again as `kernels.merge_chunks` says.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from thence.auditing.arrow_findings import ArrowFindings
from thence.auditing.event_rows import GroupPiece, PieceRows, TableRows
from thence.auditing.local import LocalAuditResult, Progress, silent
from thence.auditing.plan import CHUNK_ROWS, chunk_count
from thence.auditing.route import Route, choose
from thence.auditing.row_groups import Chunk, read_footers, read_groups
from thence.auditing.scratch import Scratch, load
from thence.auditing.stages import judged_runs, split_by_run
from thence.auditing.tables import concatenated, of_batch, refused_table
from thence.auditing.threads import in_threads
from thence.kernels import findings
from thence.kernels.chunk import summarise, summary_of
from thence.kernels.compiling import COMPILING, telling
from thence.kernels.ids import repeated
from thence.kernels.merge_chunks import ChunkMerger
from thence.kernels.rows import as_they_come
from thence.model.columns import JUDGED_COLUMNS
from thence.trace.engine import estimated_rows
from thence.trace.read import Trace

LISTED = pa.array(
    [
        findings.RUN, findings.VIOLATION, findings.UNDELIVERED, findings.DUPLICATE, findings.MISDELIVERED,
        findings.QUARANTINE,
    ]
)  # fmt: skip
PIECE_ROWS = CHUNK_ROWS // 8
"""Rows that are put into a scratch folder at a time, about."""
HELD_ROWS = 2 * CHUNK_ROWS
"""Rows, about, that are held in memory between reading and judging; more are kept in a scratch folder."""


@dataclass(frozen=True)
class Task:
    """Rows that are judged together: a chunk of a run, numbered, or runs whole."""

    run: str | None
    number: int | None
    rows: int
    load: Callable[[], pa.Table]


def audit_table(
    table: pa.Table, *, cores: int = 1, progress: Progress = silent, chunk_rows: int = CHUNK_ROWS
) -> LocalAuditResult:
    """Audit a normal table."""
    tasks = [task for run, rows in split_by_run(table) for task in tasks_of(run, rows, chunk_rows)]
    outcome = judge_tasks(tasks, cores=cores, progress=progress)
    kept = ArrowFindings(outcome.table(), TableRows(table))
    return LocalAuditResult(kept, "local", str(choose()))


def audit_files(
    trace: Trace,
    *,
    cores: int = 1,
    progress: Progress = silent,
    chunk_rows: int = CHUNK_ROWS,
    held_rows: int = HELD_ROWS,
) -> LocalAuditResult:
    """Audit the tables of a trace."""
    files = {path: kind for path, kind in trace.files.items() if kind != "shiviz"}
    grouped = files and set(files.values()) == {"parquet"} and trace.in_our_names
    footers = read_footers(files) if grouped else None
    held = sum(map(estimated_rows, files)) <= held_rows
    route = choose(footers=footers, split=False, held=held, chunk_rows=chunk_rows)
    if route.name == "whole":
        tables = list(_read(trace, cores, progress))
        return audit_table(concatenated(tables), cores=cores, progress=progress, chunk_rows=chunk_rows)
    if footers is None or not route.by_groups:
        return _audit_scratch(_read(trace, cores, progress), route, cores, progress, chunk_rows)
    tasks = [_task_of(chunk) for chunk in route.chunks]
    outcome = judge_tasks(tasks, cores=cores, progress=progress)
    outcome.kept += [refused_table(each) for each in (*trace.quarantine, *footers.refused)]
    pieces = [GroupPiece(group) for group in footers.groups]
    kept = ArrowFindings(outcome.table(), PieceRows(pieces, outcome.along_order, cores))
    return LocalAuditResult(kept, "local", str(route))


def _audit_scratch(
    tables: Iterator[pa.Table], route: Route, cores: int, progress: Progress, chunk_rows: int
) -> LocalAuditResult:
    """Audit rows that are too many to be held; the scratch folder goes with the result."""
    scratch = Scratch()
    try:
        for table in _together(tables):
            scratch.put(table)
        tasks = [
            Task(run, number, sum(piece.rows for piece in pieces), lambda pieces=pieces: load(pieces))  # type: ignore[misc]
            for run, number, pieces in scratch.chunks(chunk_rows)
        ]
        outcome = judge_tasks(tasks, cores=cores, progress=progress)
    except BaseException:
        scratch.close()
        raise
    kept = ArrowFindings(outcome.table(), scratch.events(outcome.along_order, cores))
    return LocalAuditResult(kept, "local", str(route))


def _together(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables of `PIECE_ROWS` rows or more, each made of some that follow one another."""
    some: list[pa.Table] = []
    for table in tables:
        some.append(table)
        if sum(map(len, some)) >= PIECE_ROWS:
            yield concatenated(some)
            some = []
    if some:
        yield concatenated(some)


def _task_of(chunk: Chunk) -> Task:
    places = [group.place for group in chunk.groups]
    return Task(chunk.run, chunk.number, chunk.rows, lambda: read_groups(places))


def tasks_of(run: str | None, table: pa.Table, chunk_rows: int) -> Iterator[Task]:
    """Yield the tasks of one run: chunks if it is large and has an `order`, else one."""
    if run is None or len(table) <= chunk_rows or table.column("order").null_count:
        yield Task(run, None, len(table), lambda: table)
        return
    ordered = as_they_come(table)
    size = -(-len(ordered) // chunk_count(len(ordered), chunk_rows))
    for number, start in enumerate(range(0, len(ordered), size)):
        piece = ordered.slice(start, size)
        yield Task(run, number, len(piece), lambda piece=piece: piece)  # type: ignore[misc]


@dataclass
class Outcome:
    """What tasks found, the runs that must be judged whole, and those judged along their `order`."""

    kept: list[pa.Table] = field(default_factory=list)
    troubled: set[str] = field(default_factory=set)
    want: dict[str, frozenset[str]] = field(default_factory=dict)
    along_order: set[str] = field(default_factory=set)

    def table(self) -> pa.Table:
        """Return all findings."""
        return pa.concat_tables([findings.SCHEMA.empty_table(), *self.kept]).drop_columns(["payload", "chunk"])


def judge_tasks(tasks: list[Task], *, cores: int, progress: Progress = silent) -> Outcome:
    """Judge everything: a first round, a second with the runs that want one, and whole what is in trouble."""
    outcome = Outcome()
    chunked = {task.run for task in tasks if task.number is not None and task.run is not None}
    todo = tasks
    want: dict[str, frozenset[str]] = {}
    for last_round in (False, True):
        done = _round(todo, want, cores=cores, last_round=last_round, progress=progress)
        outcome.kept += done.kept
        outcome.troubled |= done.troubled
        want = done.want
        todo = [task for task in tasks if task.run in want]
        if not todo:
            break
    outcome.along_order = chunked - outcome.troubled
    for run in sorted(outcome.troubled):
        own = [task for task in tasks if task.run == run]
        whole = Task(run, None, sum(task.rows for task in own), lambda own=own: concatenated([t.load() for t in own]))  # type: ignore[misc]
        outcome.kept += _round([whole], {}, cores=1, last_round=True, progress=progress).kept
    return outcome


def _round(
    tasks: list[Task], want: dict[str, frozenset[str]], *, cores: int, last_round: bool, progress: Progress
) -> Outcome:
    """Judge some tasks once, and merge the chunks of each run."""
    outcome = Outcome()
    total = sum(task.rows for task in tasks)
    rows = 0
    merging: _Merging | None = None
    progress("judging", 0, total)
    results = in_threads(lambda task: _judged(task, want, outcome.troubled), tasks, cores)
    for task, found in zip(tasks, _telling(results, progress), strict=True):
        if merging is not None and merging.run != task.run:
            merging.finish(outcome)
            merging = None
        if task.number is None or task.run is None:
            outcome.kept.append(found)
        else:
            merging = merging or _Merging(task.run, ChunkMerger(task.run, last_round=last_round))
            merging.add(found, outcome)
        rows += task.rows
        progress("judging", rows, total)
    if merging is not None:
        merging.finish(outcome)
    return outcome


def _telling(results: Iterator[pa.Table], progress: Progress) -> Iterator[pa.Table]:
    """Pass results on, and tell of loops that are compiled meanwhile: that happens once on a machine."""
    with telling(lambda count: progress(COMPILING, count, None)):
        yield from results


def _judged(task: Task, want: dict[str, frozenset[str]], troubled: set[str]) -> pa.Table:
    """Return what one task finds; a chunk of a run that is in trouble already is not looked at."""
    if task.number is None or task.run is None:
        return pa.Table.from_batches(judged_runs(task.load(), block=None), findings.SCHEMA)
    if task.run in troubled:
        return findings.SCHEMA.empty_table()
    return summarise(task.run, task.number, task.load(), want=want.get(task.run, ()))


@dataclass
class _Merging:
    """The chunks of one run, as far as they have come."""

    run: str
    merger: ChunkMerger
    kept: list[pa.Table] = field(default_factory=list)
    hashes: list[bytes] = field(default_factory=list)

    def add(self, found: pa.Table, outcome: Outcome) -> None:
        """Take the next chunk."""
        tags = found.column("tag")
        if self.run in outcome.troubled or pc.any(pc.equal(tags, findings.TROUBLE)).as_py():
            outcome.troubled.add(self.run)
            return
        payloads = defaultdict(list)
        open_ones = found.filter(pc.is_in(tags, pa.array([findings.SUMMARY, findings.IDS])))
        for tag, payload in zip(open_ones.column("tag"), open_ones.column("payload"), strict=True):
            payloads[tag.as_py()].append(payload.as_buffer())
        self.merger.add(summary_of(payloads[findings.SUMMARY]))
        self.hashes += [bytes(each) for each in payloads[findings.IDS]]
        self.kept.append(_listed(found))

    def finish(self, outcome: Outcome) -> None:
        """Say what the run turned out to be, or what is to be done about it."""
        if self.run in outcome.troubled:
            return
        rest = self.merger.finish()
        first = rest.column("tag")[0].as_py()
        if first == findings.TROUBLE or repeated(self.hashes):
            outcome.troubled.add(self.run)
        elif first == findings.WANT:
            outcome.want[self.run] = pickle.loads(rest.column("payload")[0].as_py())
        else:
            outcome.kept += [*self.kept, rest]


def _listed(found: pa.Table) -> pa.Table:
    return found.filter(pc.is_in(found.column("tag"), LISTED))


def _read(trace: Trace, cores: int, progress: Progress) -> Iterator[pa.Table]:
    """Yield all rows of a trace, several parts being read at a time."""
    rows = 0
    tasks = trace.tasks(JUDGED_COLUMNS, needs=False, coded=True)
    for table in in_threads(lambda task: concatenated([of_batch(rows) for rows in task()]), tasks, cores):
        rows += len(table)
        progress("reading", rows, None)
        yield table
