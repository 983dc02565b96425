"""The events behind findings, for proofs: kept in a table, read again from row groups, or from a scratch folder.

*Invariant.* A proof needs the rows of its run as they were judged: all of them, or, of a run that was judged along its
`order`, those between the two sends of each violation asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thence.tables.contract.numpy_types import Longs
from thence.tables.judge.normal_table import concatenated
from thence.tables.judge.proof_path import ViolationPair
from thence.tables.judge.row_groups import RowGroup, read_groups
from thence.tables.judge.threads import in_threads


class JudgedEvents(ABC):
    """The events that were judged."""

    @abstractmethod
    def of_run(self, run: str, pairs: Sequence[ViolationPair]) -> pa.Table:
        """Return the rows of a run, as a normal table: all that may lie between the sends of each pair of messages."""

    @abstractmethod
    def of_messages(self, run: str, messages: pa.Array) -> pa.Table:
        """Return the rows of a run that name some messages."""

    @abstractmethod
    def runs_in(self, files: Iterable[str]) -> set[str]:
        """Return the runs that have rows in some files."""

    def close(self) -> None:  # noqa: B027  (most hold nothing that must be let go)
        """Let go of what is held."""


class EventsInMemory(JudgedEvents):
    """Events in a normal table."""

    def __init__(self, table: pa.Table) -> None:
        """Take the table."""
        self._table = table

    def of_run(self, run: str, pairs: Sequence[ViolationPair]) -> pa.Table:
        """Return all rows of a run."""
        return self._table.filter(_equal(self._table.column("run"), run))

    def of_messages(self, run: str, messages: pa.Array) -> pa.Table:
        """Return the rows of a run that name some messages."""
        return _naming(self.of_run(run, ()), messages)

    def runs_in(self, files: Iterable[str]) -> set[str]:
        """Return the runs that have rows in some files."""
        here = pc.is_in(self._table.column("file").cast(pa.string()), pa.array(list(files)))
        return _names(self._table.filter(here).column("run"))


class StoredRows(ABC):
    """Rows of one run that are brought into memory when needed, and the range of their `order` if all have one."""

    run: str | None
    low: int | None
    high: int | None

    @abstractmethod
    def load(self) -> pa.Table:
        """Return the rows, as a normal table."""

    @abstractmethod
    def sends(self, names: pa.Array) -> dict[str, int]:
        """Return the `order` of the sends of some messages."""


class RowGroupRows(StoredRows):
    """A row group of Parquet."""

    def __init__(self, group: RowGroup) -> None:
        """Take what its footer says."""
        self.group, self.run, self.low, self.high = group, group.run, group.low, group.high

    def load(self) -> pa.Table:
        """Read the row group again from its file."""
        return read_groups([self.group.place])

    def sends(self, names: pa.Array) -> dict[str, int]:
        """Return the `order` of the sends of these messages, found by reading three columns."""
        import pyarrow.parquet as pq  # lines need none of it

        place = self.group.place
        with pq.ParquetFile(place.file) as file:
            table = file.read_row_group(place.group, columns=["kind", "message", "order"], use_threads=False)
        return sends_in(table.filter(_equal(table.column("kind"), "send")), names)


class EventsOnDisk(JudgedEvents):
    """Events in files or row groups, each of one run."""

    def __init__(self, stored: Sequence[StoredRows], along_order: set[str], cores: int) -> None:
        """Take the stored rows, and the runs that were judged along their `order`."""
        self._along_order, self._cores = along_order, cores
        self._stored: dict[str | None, list[StoredRows]] = {}
        for some in stored:
            self._stored.setdefault(some.run, []).append(some)

    def of_run(self, run: str, pairs: Sequence[ViolationPair]) -> pa.Table:
        """Return the rows of a run: between the sends asked for, or all."""
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
        stored = (some for own in self._stored.values() for some in own if isinstance(some, RowGroupRows))
        return {some.run for some in stored if some.run is not None and some.group.place.file in asked}


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


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column if pa.types.is_string(column.type) else column.cast(pa.string())


def _naming(table: pa.Table, messages: pa.Array) -> pa.Table:
    return table.filter(pc.is_in(_plain(table.column("message")), messages))


def _equal(column: pa.ChunkedArray, text: str) -> pa.ChunkedArray:
    return pc.equal(_plain(column), text)


def _names(column: pa.ChunkedArray) -> set[str]:
    return {name for name in pc.unique(column).to_pylist() if name is not None}
