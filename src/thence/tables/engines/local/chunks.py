"""The driver of the stages in this process: tables and files judged by the kernels, chunks on several cores.

Invariant. Chunks (`judge.stored_rows`) are judged in threads, since the kernels release the interpreter lock while they
work, and merged in order as they are done. What is judged again, `rounds_over_chunks` decides. Rows that do not stay in
memory are written to a scratch folder as they are read, and mapped from there.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from thence.tables.contract.columns import JUDGED_COLUMNS
from thence.tables.engines.choice import estimated_rows
from thence.tables.engines.local.audit import AuditProgress, LocalAuditResult, silent
from thence.tables.files.read import Trace
from thence.tables.judge import findings
from thence.tables.judge.arrow_findings import ArrowFindings
from thence.tables.judge.chunk import summarise
from thence.tables.judge.findings import SCHEMA
from thence.tables.judge.merge_chunks import ChunkMerger
from thence.tables.judge.normal_table import concatenated, of_batch, refused_table
from thence.tables.judge.partition_plan import CHUNK_ROWS
from thence.tables.judge.rounds_over_chunks import Round, judged
from thence.tables.judge.route import choose_route
from thence.tables.judge.row_groups import read_footers
from thence.tables.judge.stored_rows import JudgedEvents, StoredChunk, TableRows, chunks_of_stored, chunks_of_table
from thence.tables.judge.tasks import judged_runs, split_by_run
from thence.tables.judge.threads import in_threads
from thence.tables.judge.whole_run import judge_run

SCRATCH_ROWS = CHUNK_ROWS // 8
"""Rows that are put into a scratch folder at a time, about."""
HELD_ROWS = 2 * CHUNK_ROWS
"""Rows, about, that are held in memory between reading and judging; more are kept in a scratch folder."""
MAPPED = 8
"""Files of a scratch folder that are mapped at a time."""


class Scratch:
    """A folder of files, each with one table, sorted by run."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="thence-audit-")
        self.stored: list[TableRows] = []
        self._written = 0
        self._mapped = lru_cache(MAPPED)(_mapped)

    def put(self, table: pa.Table) -> None:
        """Write a table that has the normal columns."""
        path = Path(self._folder.name) / f"{self._written}.arrow"
        self._written += 1
        own = list(split_by_run(table))
        start = 0
        for run, rows in own:
            self.stored.append(TableRows(run, rows, partial(self._rows, path, start, len(rows))))
            start += len(rows)
        whole = concatenated([rows for _, rows in own]).unify_dictionaries()
        with pa.ipc.new_file(str(path), whole.schema) as writer:
            writer.write_table(whole)

    def _rows(self, path: Path, start: int, count: int) -> pa.Table:
        return self._mapped(path).slice(start, count)

    def close(self) -> None:
        """Remove the folder with its files."""
        self._mapped.cache_clear()
        self._folder.cleanup()


def _mapped(path: Path) -> pa.Table:
    """Return the table in a file, mapped into memory."""
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def audit_table(
    table: pa.Table, *, cores: int = 1, progress: AuditProgress = silent, chunk_rows: int = CHUNK_ROWS
) -> LocalAuditResult:
    """Audit a table that has the normal columns."""
    chunks = [chunk for run, rows in split_by_run(table) for chunk in chunks_of_table(run, rows, chunk_rows)]
    return _audited(chunks, str(choose_route()), cores, progress)


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
    if footers is not None and route.by_groups:
        refused = [refused_table(each) for each in (*trace.quarantine, *footers.refused)]
        return _audited(route.chunks, str(route), cores, progress, refused)
    scratch = Scratch()
    try:
        for table in _together(_read(trace, cores, progress)):
            scratch.put(table)
        chunks = list(chunks_of_stored(scratch.stored, chunk_rows))
        return _audited(chunks, str(route), cores, progress, close=scratch.close)
    except BaseException:
        scratch.close()
        raise


def _audited(
    chunks: Sequence[StoredChunk],
    route: str,
    cores: int,
    progress: AuditProgress,
    refused: Sequence[pa.Table] = (),
    close: Callable[[], None] = lambda: None,
) -> LocalAuditResult:
    """Judge all chunks, in as many rounds as it takes; `close` goes with the result."""
    found, troubled = judged(LocalEngine(chunks, cores, progress))
    along_order = {chunk.run for chunk in chunks if chunk.number is not None and chunk.run is not None} - troubled
    tables = [SCHEMA.empty_table(), *(table for some in found for table in some), *refused]
    events = JudgedEvents((some for chunk in chunks for some in chunk.stored), along_order, cores, close)
    kept = ArrowFindings(pa.concat_tables(tables).drop_columns(["payload", "chunk"]), events)
    return LocalAuditResult(kept, "local", route)


def _read(trace: Trace, cores: int, progress: AuditProgress) -> Iterator[pa.Table]:
    """Yield all rows of a trace, several parts being read at a time."""
    rows = 0
    tasks = trace.tasks(JUDGED_COLUMNS, needs=False, coded=True)
    for table in in_threads(lambda task: concatenated([of_batch(rows) for rows in task()]), tasks, cores):
        rows += len(table)
        progress("reading", rows, None)
        yield table


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


class LocalEngine:
    """Chunks judged in threads of this process; those of a run are merged as they are done, in order."""

    def __init__(self, chunks: Sequence[StoredChunk], cores: int, progress: AuditProgress) -> None:
        """Take the chunks; those of one run come together."""
        self._chunks, self._cores, self._progress = chunks, cores, progress
        self._want: dict[str, frozenset[str]] = {}

    def round(self, wanting: set[str] | None) -> Round[list[pa.Table]]:
        """Judge all chunks, or those of some runs once more."""
        chunks = self._chunks if wanting is None else [chunk for chunk in self._chunks if chunk.run in wanting]
        done = Round[list[pa.Table]]([])
        rows, total = 0, sum(chunk.rows for chunk in chunks)
        self._progress("judging", 0, total)
        results = in_threads(lambda chunk: self._judged(chunk, done.troubled), chunks, self._cores)
        for run, own in groupby(zip(chunks, results, strict=True), key=lambda pair: pair[0].run):
            merger, kept = None, [SCHEMA.empty_table()]
            for chunk, found in own:
                if run is None or chunk.number is None:
                    done.found.append(found)
                else:
                    merger = merger or ChunkMerger(run, last_round=wanting is not None)
                    kept.append(_add(found, merger, done))
                rows += chunk.rows
                self._progress("judging", rows, total)
            if merger is not None and run not in done.troubled:
                self._finish(merger, kept, done)
        return done

    def whole(self, runs: Sequence[str]) -> list[pa.Table]:
        """Judge runs whole, one after the other."""
        found: list[pa.Table] = []
        for run in runs:
            table = concatenated([chunk.load() for chunk in self._chunks if chunk.run == run])
            self._progress("judging", 0, len(table))
            found.append(judge_run(run, table))
        return found

    def _judged(self, chunk: StoredChunk, troubled: set[str]) -> pa.Table:
        """Return the findings of one chunk; chunks of a run that is already in trouble are skipped."""
        if chunk.number is None or chunk.run is None:
            return pa.Table.from_batches(judged_runs(chunk.load(), block=None), SCHEMA)
        if chunk.run in troubled:
            return SCHEMA.empty_table()
        return summarise(chunk.run, chunk.number, chunk.load(), want=self._want.get(chunk.run, ()))

    def _finish(self, merger: ChunkMerger, kept: list[pa.Table], done: Round[list[pa.Table]]) -> None:
        """Return the findings of a run, or what must be judged again."""
        rest = merger.finish()
        first = rest.column("tag")[0].as_py()
        if first == findings.TROUBLE:
            done.troubled.add(merger.run)
        elif first == findings.WANT:
            done.wanting.add(merger.run)
            self._want[merger.run] = pickle.loads(rest.column("payload")[0].as_py())
        else:
            done.found += [*kept, rest]


def _add(found: pa.Table, merger: ChunkMerger, done: Round[list[pa.Table]]) -> pa.Table:
    """Merge the next chunk of a run, unless the run is in trouble; return the findings so far."""
    tags = found.column("tag")
    if merger.run in done.troubled or pc.any(pc.equal(tags, findings.TROUBLE)).as_py():
        done.troubled.add(merger.run)
        return SCHEMA.empty_table()
    for tag in (findings.SUMMARY, findings.IDS):
        merger.take(tag, [payload.as_buffer() for payload in found.filter(pc.equal(tags, tag)).column("payload")])
    return found.filter(pc.is_in(tags, pa.array(findings.LISTED_TAGS)))
