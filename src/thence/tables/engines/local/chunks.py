"""The driver of the stages in this process: tables and files judged by the kernels, chunks on several cores.

Invariant. Work is divided into tasks: a chunk of a large run that has an `order`, or runs whole. Tasks run in threads,
since the kernels release the interpreter lock while they work, and chunks are merged in order as they are done. What is
judged again, `rounds_over_chunks` decides. Rows that do not stay in memory are written to a scratch folder as they are
read, and mapped from there.
"""

from __future__ import annotations

import pickle
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from thence.tables.contract.columns import JUDGED_COLUMNS
from thence.tables.engines.choice import estimated_rows
from thence.tables.engines.local.audit import AuditProgress, LocalAuditResult, silent
from thence.tables.files.read import Trace
from thence.tables.judge import findings
from thence.tables.judge.arrow_findings import ArrowFindings
from thence.tables.judge.chunk import summarise
from thence.tables.judge.coded_rows import SEND, as_they_come
from thence.tables.judge.findings import SCHEMA
from thence.tables.judge.normal_table import concatenated, of_batch, refused_table
from thence.tables.judge.partition_plan import CHUNK_ROWS, chunk_count
from thence.tables.judge.proof_events import EventsInMemory, EventsOnDisk, RowGroupRows, StoredRows, sends_in
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


class ScratchRows(StoredRows):
    """Rows of one run in a file of the scratch folder."""

    def __init__(self, path: Path, start: int, table: pa.Table, run: str | None) -> None:
        """Take note of rows that are about to be written, `start` rows into the file."""
        self.path, self.start, self.rows, self.run = path, start, len(table), run
        order = table.column("order")
        ends = pc.min_max(order).as_py() if not order.null_count else {}
        self.low, self.high = ends.get("min"), ends.get("max")

    def load(self) -> pa.Table:
        """Map the rows into memory; they go when the table goes."""
        return mapped(self.path).slice(self.start, self.rows)

    def sends(self, names: pa.Array) -> dict[str, int]:
        """Return the `order` of the sends of these messages, found by reading all rows."""
        table = self.load()
        return sends_in(table.filter(pc.equal(table.column("kind"), SEND)), names)


def mapped(path: Path) -> pa.Table:
    """Return the table in a file, mapped into memory."""
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


class Scratch:
    """A folder of files, each with one table."""

    def __init__(self) -> None:
        """Make the folder."""
        self._folder = tempfile.TemporaryDirectory(prefix="thence-audit-")
        self._runs_in: dict[str, set[str]] = defaultdict(set)
        self.files: dict[str | None, list[ScratchRows]] = defaultdict(list)
        self.rows = self._written = 0

    def put(self, table: pa.Table) -> None:
        """Write a table that has the normal columns to disk, by run."""
        path = Path(self._folder.name) / f"{self._written}.arrow"
        self._written += 1
        own = list(split_by_run(table))
        start = 0
        for run, rows in own:
            self.files[run].append(ScratchRows(path, start, rows, run))
            start += len(rows)
        whole = concatenated([rows for _, rows in own]).unify_dictionaries()
        with pa.ipc.new_file(str(path), whole.schema) as writer:
            writer.write_table(whole)
        self.rows += len(whole)
        for place in whole.select(["file", "run"]).group_by(["file", "run"]).aggregate([]).to_pylist():
            if place["run"] is not None:
                self._runs_in[place["file"]].add(place["run"])

    def chunks(self, chunk_rows: int) -> Iterator[tuple[str | None, int | None, list[ScratchRows]]]:
        """Yield what is judged together: (run, number, rows) of a chunk, or the rows of runs that are judged whole.

        Large runs whose files follow one another in `order` come in chunks; small runs come together.
        """
        small: list[ScratchRows] = []
        held = 0
        for run, own in self.files.items():
            rows = sum(each.rows for each in own)
            if rows > chunk_rows:
                yield from _large(run, own, -(-rows // chunk_count(rows, chunk_rows)))
                continue
            small += own
            held += rows
            if held > chunk_rows:
                yield None, None, small
                small, held = [], 0
        if small:
            yield None, None, small

    def events(self, along_order: set[str], cores: int) -> ScratchEvents:
        """Return the rows for proofs."""
        return ScratchEvents(self, along_order, cores)

    def runs_in(self, files: Iterable[str]) -> set[str]:
        """Return the runs that have rows in some files."""
        return {run for file in files for run in self._runs_in.get(file, ())}

    def close(self) -> None:
        """Remove the temporary folder with its files."""
        self._folder.cleanup()


def _large(
    run: str | None, stored: list[ScratchRows], size: int
) -> Iterator[tuple[str | None, int | None, list[ScratchRows]]]:
    """Divide a large run into chunks, if its files follow one another in `order`."""
    ranges = sorted((p.low, p.high) for p in stored if p.low is not None and p.high is not None)
    if run is None or len(ranges) < len(stored) or any(one[1] >= two[0] for one, two in pairwise(ranges)):
        yield run, None, stored
        return
    chunk: list[ScratchRows] = []
    number = 0
    for rows in sorted(stored, key=lambda rows: rows.low or 0):
        chunk.append(rows)
        if sum(each.rows for each in chunk) >= size:
            yield run, number, chunk
            chunk, number = [], number + 1
    if chunk:
        yield run, number, chunk


def load_stored(stored: Iterable[ScratchRows]) -> pa.Table:
    """Return stored rows as one table; each file is mapped once."""
    files: dict[Path, list[ScratchRows]] = defaultdict(list)
    for rows in stored:
        files[rows.path].append(rows)
    tables: list[pa.Table] = []
    for path, own in files.items():
        whole = mapped(path)
        tables += [whole.slice(rows.start, rows.rows) for rows in own]
    return concatenated(tables)


class ScratchEvents(EventsOnDisk):
    """Events in a scratch folder, which goes when they are let go."""

    def __init__(self, scratch: Scratch, along_order: set[str], cores: int) -> None:
        """Take the folder."""
        super().__init__([rows for own in scratch.files.values() for rows in own], along_order, cores)
        self._scratch = scratch

    def runs_in(self, files: Iterable[str]) -> set[str]:
        """Return the runs that have rows in some files."""
        return self._scratch.runs_in(files)

    def close(self) -> None:
        """Remove the temporary folder with its files."""
        self._scratch.close()


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
        """Describe what the run turned out to be, or what is to be done about it."""
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
