"""Rows of runs where they are kept (memory, row groups, a scratch folder): the chunks made of them, and their proofs.

*Invariant.* A chunk is judged by one task: part of a large run whose stored rows follow one another in `order`, or runs
whole. A proof needs the rows of its run as they were judged: all of them, or, of a run that was judged along its
`order`, those between the two sends of each violation asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thence.tables.contract.numpy_types import Longs
from thence.tables.judge.coded_rows import SEND, as_they_come
from thence.tables.judge.normal_table import concatenated
from thence.tables.judge.partition_plan import chunk_count
from thence.tables.judge.proof_path import ViolationPair
from thence.tables.judge.threads import in_threads


class StoredRows(ABC):
    """Rows of one run that stand together, and what is known of them without loading them."""

    run: str | None
    """None if it cannot be read, or is not known."""
    rows: int
    """How many they are."""
    low: int | None
    """The least `order`; None unless every row has one."""
    high: int | None
    """The greatest."""

    @abstractmethod
    def load(self) -> pa.Table:
        """Return the rows, as a normal table."""

    def files(self) -> set[str]:
        """Return the files that they were read from."""
        return {name for name in pc.unique(self.load().column("file")).to_pylist() if name is not None}

    def sends(self, names: pa.Array) -> dict[str, int]:
        """Return the `order` of the sends of some messages."""
        table = self.load()
        return sends_in(table.filter(pc.equal(table.column("kind"), SEND)), names)


class TableRows(StoredRows):
    """Rows of a normal table in memory, or mapped into memory when they are needed."""

    def __init__(self, run: str | None, table: pa.Table, load: Callable[[], pa.Table] | None = None) -> None:
        """Take a table, which is kept unless `load` returns it again."""
        self.run, self.rows, self._load = run, len(table), load or (lambda: table)
        order = table.column("order")
        ends = pc.min_max(order).as_py() if len(table) and not order.null_count else {}
        self.low, self.high = ends.get("min"), ends.get("max")

    def load(self) -> pa.Table:
        """Return the table, which may be mapped now."""
        return self._load()


class StoredChunk(NamedTuple):
    """The rows that one task judges: a numbered chunk of a run, or whole runs (`number` None)."""

    run: str | None
    """None: several runs, or one that cannot be read."""
    number: int | None
    stored: Sequence[StoredRows]

    @property
    def rows(self) -> int:
        """Return how many rows it has."""
        return sum(some.rows for some in self.stored)

    def load(self) -> pa.Table:
        """Return its rows as a normal table."""
        return concatenated([some.load() for some in self.stored])


Stored = TypeVar("Stored", bound=StoredRows)


def stored_by_run(stored: Iterable[Stored]) -> dict[str | None, list[Stored]]:
    """Return what is stored of each run."""
    found: dict[str | None, list[Stored]] = {}
    for some in stored:
        found.setdefault(some.run, []).append(some)
    return found


def chunks_along_order(run: str | None, own: Sequence[StoredRows], chunk_rows: int) -> list[StoredChunk] | None:
    """Divide a run whose stored rows follow one another in `order`, if its rows are many; None if they do not."""
    ordered = sorted((some for some in own if some.low is not None), key=lambda some: some.low or 0)
    if run is None or len(ordered) < len(own) or any((a.high or 0) >= (b.low or 0) for a, b in pairwise(ordered)):
        return None
    total = sum(some.rows for some in own)
    size = held = total if total <= chunk_rows else -(-total // chunk_count(total, chunk_rows))
    chunks: list[list[StoredRows]] = []
    for some in ordered:
        if held + some.rows // 2 >= size:
            chunks.append([])
            held = 0
        chunks[-1].append(some)
        held += some.rows
    return [StoredChunk(run, None if len(chunks) == 1 else number, some) for number, some in enumerate(chunks)]


def chunks_of_stored(stored: Sequence[StoredRows], chunk_rows: int) -> Iterator[StoredChunk]:
    """Divide large runs whose rows follow one another in `order`; small runs are judged together."""
    group: dict[str | None, int] = {}
    number = held = 0
    for run, own in stored_by_run(stored).items():
        rows = sum(some.rows for some in own)
        if rows > chunk_rows:
            yield from chunks_along_order(run, own, chunk_rows) or [StoredChunk(run, None, own)]
            continue
        group[run] = number
        held += rows
        if held > chunk_rows:
            number, held = number + 1, 0
    small: dict[int, list[StoredRows]] = defaultdict(list)
    for some in stored:  # as they are stored, so that a file is looked at once
        if some.run in group:
            small[group[some.run]].append(some)
    yield from (StoredChunk(None, None, own) for own in small.values())


def chunks_of_table(run: str | None, table: pa.Table, chunk_rows: int) -> list[StoredChunk]:
    """Divide the rows of one run in memory, if they are many and all have an `order`."""
    if run is None or len(table) <= chunk_rows or table.column("order").null_count:
        return [StoredChunk(run, None, [TableRows(run, table)])]
    ordered = as_they_come(table)
    size = -(-len(ordered) // chunk_count(len(ordered), chunk_rows))
    parts = (TableRows(run, ordered.slice(start, size)) for start in range(0, len(ordered), size))
    return [StoredChunk(run, number, [part]) for number, part in enumerate(parts)]


class JudgedEvents:
    """The events that were judged, for proofs."""

    def __init__(
        self,
        stored: Iterable[StoredRows],
        along_order: set[str] | None = None,
        cores: int = 1,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        """Take the stored rows, and the runs that were judged along their `order`; `close` releases the rows."""
        self._stored, self._along_order, self._cores = stored_by_run(stored), along_order or set(), cores
        self.close = close

    def of_run(self, run: str, pairs: Sequence[ViolationPair]) -> pa.Table:
        """Return the rows of a run, as a normal table: all that may lie between the sends of each pair of messages."""
        own = self._stored.get(run, [])
        if run not in self._along_order:
            return concatenated([some.load() for some in own])
        low, high = self._windows(own, pairs)
        near = [some for some in own if bool(np.any((low <= (some.high or 0)) & (high >= (some.low or 0))))]
        return concatenated(list(in_threads(lambda some: _inside(some, low, high), near, self._cores)))

    def of_messages(self, run: str, messages: pa.Array) -> pa.Table:
        """Return the rows of a run that name some messages."""
        own = self._stored.get(run, [])
        return concatenated(list(in_threads(lambda some: _naming(some.load(), messages), own, self._cores)))

    def _windows(self, stored: Sequence[StoredRows], pairs: Sequence[ViolationPair]) -> tuple[Longs, Longs]:
        """Return the ranges of `order` between the sends of each pair; those that touch are one."""
        names = pa.array(sorted({name for pair in pairs for name in pair}), pa.string())
        at: dict[str, int] = {}
        for found in in_threads(lambda some: some.sends(names), stored, self._cores):
            at.update(found)
        ends = sorted((at[missing], at[early]) for missing, early in pairs if missing in at and early in at)
        merged: list[list[int]] = []
        for low, high in ends:
            if merged and low <= merged[-1][1]:
                merged[-1][1] = max(high, merged[-1][1])
            else:
                merged.append([low, high])
        spans = np.array(merged, np.int64).reshape(-1, 2)
        return spans[:, 0], spans[:, 1]

    def runs_in(self, files: Iterable[str]) -> set[str]:
        """Return the runs that have rows in some files."""
        asked = set(files)
        return {
            run for run, own in self._stored.items() if run is not None and any(asked & some.files() for some in own)
        }


def _inside(rows: StoredRows, low: Longs, high: Longs) -> pa.Table:
    """Return the stored rows whose `order` lies in some ranges, sorted and apart from each other."""
    table = rows.load()
    order = table.column("order").to_numpy()
    place = np.searchsorted(low, order, side="right") - 1
    return table.filter(pa.array((place >= 0) & (order <= high[place])))


def sends_in(sends: pa.Table, names: pa.Array) -> dict[str, int]:
    """Return the `order` of some messages among sends."""
    chosen = _naming(sends, names)
    return dict(zip(chosen.column("message").to_pylist(), chosen.column("order").to_pylist(), strict=True))


def _naming(table: pa.Table, messages: pa.Array) -> pa.Table:
    return table.filter(pc.is_in(table.column("message").cast(pa.string()), messages))
