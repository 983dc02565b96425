"""Rows that do not stay in memory: written to a scratch folder as they are read, and mapped from there to be judged.

Law. What comes out is what was put in. Each part that is put in lies in one file, its rows sorted by run; of a run the
scratch knows where its rows lie and, if all have one, the range of their `order`. Memory is taken by the parts in hand.
The folder goes with the result, or with the process.
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
from thence.tables.judge.proof_events import Piece, PieceRows, sends_in
from thence.tables.judge.tasks import split_by_run


class ScratchPiece(Piece):
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
        """Look at all rows."""
        table = self.load()
        return sends_in(table.filter(pc.equal(table.column("kind"), SEND)), names)


def mapped(path: Path) -> pa.Table:
    """Return the table in a file, mapped into memory."""
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


class Scratch:
    """A folder of parts."""

    def __init__(self) -> None:
        """Make the folder."""
        self._folder = tempfile.TemporaryDirectory(prefix="thence-audit-")
        self._runs_in: dict[str, set[str]] = defaultdict(set)
        self.pieces: dict[str | None, list[ScratchPiece]] = defaultdict(list)
        self.rows = self._parts = 0

    def put(self, table: pa.Table) -> None:
        """Write a normal table."""
        path = Path(self._folder.name) / f"{self._parts}.arrow"
        self._parts += 1
        own = list(split_by_run(table))
        start = 0
        for run, rows in own:
            self.pieces[run].append(ScratchPiece(path, start, rows, run))
            start += len(rows)
        whole = concatenated([rows for _, rows in own]).unify_dictionaries()
        with pa.ipc.new_file(str(path), whole.schema) as writer:
            writer.write_table(whole)
        self.rows += len(whole)
        for place in whole.select(["file", "run"]).group_by(["file", "run"]).aggregate([]).to_pylist():
            if place["run"] is not None:
                self._runs_in[place["file"]].add(place["run"])

    def chunks(self, chunk_rows: int) -> Iterator[tuple[str | None, int | None, list[ScratchPiece]]]:
        """Yield what is judged together: (run, number, pieces) of a chunk, or pieces of runs that are judged whole.

        Large runs whose pieces follow one another in `order` come in chunks; small runs come together.
        """
        small: list[ScratchPiece] = []
        held = 0
        for run, own in self.pieces.items():
            rows = sum(piece.rows for piece in own)
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

    def events(self, along_order: set[str], cores: int) -> ScratchRows:
        """Return the rows for proofs."""
        return ScratchRows(self, along_order, cores)

    def runs_in(self, files: Iterable[str]) -> set[str]:
        """Return the runs that have rows in some files."""
        return {run for file in files for run in self._runs_in.get(file, ())}

    def close(self) -> None:
        """Remove the folder."""
        self._folder.cleanup()


def _large(
    run: str | None, pieces: list[ScratchPiece], size: int
) -> Iterator[tuple[str | None, int | None, list[ScratchPiece]]]:
    """Cut a large run, if its pieces follow one another in `order`."""
    ranges = sorted((p.low, p.high) for p in pieces if p.low is not None and p.high is not None)
    if run is None or len(ranges) < len(pieces) or any(one[1] >= two[0] for one, two in pairwise(ranges)):
        yield run, None, pieces
        return
    some: list[ScratchPiece] = []
    number = 0
    for piece in sorted(pieces, key=lambda piece: piece.low or 0):
        some.append(piece)
        if sum(each.rows for each in some) >= size:
            yield run, number, some
            some, number = [], number + 1
    if some:
        yield run, number, some


def load(pieces: Iterable[ScratchPiece]) -> pa.Table:
    """Return the rows of some pieces; each file is mapped once."""
    files: dict[Path, list[ScratchPiece]] = defaultdict(list)
    for piece in pieces:
        files[piece.path].append(piece)
    tables: list[pa.Table] = []
    for path, own in files.items():
        whole = mapped(path)
        tables += [whole.slice(piece.start, piece.rows) for piece in own]
    return concatenated(tables)


class ScratchRows(PieceRows):
    """Events in a scratch folder, which goes when they are let go."""

    def __init__(self, scratch: Scratch, along_order: set[str], cores: int) -> None:
        """Take the folder."""
        super().__init__([piece for own in scratch.pieces.values() for piece in own], along_order, cores)
        self._scratch = scratch

    def runs_in(self, files: Iterable[str]) -> set[str]:
        """Return the runs that have rows in some files."""
        return self._scratch.runs_in(files)

    def close(self) -> None:
        """Remove the folder."""
        self._scratch.close()
