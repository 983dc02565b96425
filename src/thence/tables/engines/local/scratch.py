"""Rows that do not stay in memory: written to a scratch folder as they are read, and mapped from there to be judged.

*Invariant.* What comes out is what was put in. Each table that is put in lies in one file, its rows sorted by run; of a
run the scratch knows where its rows lie and, if all have one, the range of their `order`. Memory is taken by the tables
in use. The folder goes with the result, or with the process.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from thence.tables.judge.coded_rows import SEND
from thence.tables.judge.normal_table import concatenated
from thence.tables.judge.partition_plan import chunk_count
from thence.tables.judge.proof_events import EventsOnDisk, StoredRows, sends_in
from thence.tables.judge.tasks import split_by_run


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
