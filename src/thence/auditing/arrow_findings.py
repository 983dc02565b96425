"""Findings in an Arrow table, and the rows behind them for proofs: kept in a table, or read again from row groups.

Law. Findings are made into rows a few at a time. A proof needs the rows of its run as they were judged: all of them,
or, of a run that was judged along its `order`, those between the two sends of each violation asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from thence.auditing.result import (
    CALLED,
    COLUMNS,
    COUNTS,
    SORTED_BY,
    TAGS,
    Findings,
    Key,
    ListName,
    Row,
    RunRow,
    key_of,
    verdict_of,
)
from thence.auditing.row_groups import RowGroup, read_groups
from thence.auditing.tables import concatenated, events_of
from thence.auditing.threads import in_threads
from thence.kernels.arrays import Longs
from thence.kernels.path import Pair, shortest_paths
from thence.model.events import Event
from thence.trace.explain import Step

BATCH = 10_000
"""Findings that are made into rows at a time."""


class EventRows(ABC):
    """The events that were judged."""

    @abstractmethod
    def of_run(self, run: str, pairs: Sequence[Pair]) -> pa.Table:
        """Return the rows of a run, as a normal table: all that may lie between the sends of each pair of messages."""

    @abstractmethod
    def of_messages(self, run: str, messages: pa.Array) -> pa.Table:
        """Return the rows of a run that name some messages."""

    @abstractmethod
    def runs_in(self, files: Iterable[str]) -> set[str]:
        """Return the runs that have rows in some files."""


class TableRows(EventRows):
    """Events in a normal table."""

    def __init__(self, table: pa.Table) -> None:
        """Take the table."""
        self._table = table

    def of_run(self, run: str, pairs: Sequence[Pair]) -> pa.Table:
        """Return all rows of a run."""
        return self._table.filter(_equal(self._table.column("run"), run))

    def of_messages(self, run: str, messages: pa.Array) -> pa.Table:
        """Return the rows of a run that name some messages."""
        return _naming(self.of_run(run, ()), messages)

    def runs_in(self, files: Iterable[str]) -> set[str]:
        """Return the runs that have rows in some files."""
        here = pc.is_in(self._table.column("file").cast(pa.string()), pa.array(list(files)))
        return _names(self._table.filter(here).column("run"))


class GroupRows(EventRows):
    """Events in row groups of one run each, read again when they are needed."""

    def __init__(self, groups: list[RowGroup], along_order: set[str], cores: int) -> None:
        """Take the row groups, and the runs that were judged along their `order`."""
        self._groups, self._along_order, self._cores = groups, along_order, cores

    def of_run(self, run: str, pairs: Sequence[Pair]) -> pa.Table:
        """Return the rows of a run: between the sends asked for, or all."""
        own = [group for group in self._groups if group.run == run]
        if run not in self._along_order:
            return read_groups(group.place for group in own)
        low, high = self._windows(own, pairs)
        near = [group for group in own if bool(np.any((low <= (group.high or 0)) & (high >= (group.low or 0))))]
        return concatenated(list(in_threads(lambda group: _inside(group, low, high), near, self._cores)))

    def of_messages(self, run: str, messages: pa.Array) -> pa.Table:
        """Return the rows of a run that name some messages."""
        own = [group.place for group in self._groups if group.run == run]
        found = in_threads(lambda place: _naming(read_groups([place]), messages), own, self._cores)
        return concatenated(list(found))

    def _windows(self, groups: list[RowGroup], pairs: Sequence[Pair]) -> tuple[Longs, Longs]:
        """Return the ranges of `order` between the sends of each pair; those that touch are one."""
        names = pa.array(sorted({name for pair in pairs for name in pair}), pa.string())
        at: dict[str, int] = {}
        for found in in_threads(lambda group: _sends(group, names), groups, self._cores):
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
        return {group.run for group in self._groups if group.run is not None and group.place.file in asked}


def _inside(group: RowGroup, low: Longs, high: Longs) -> pa.Table:
    """Return the rows of a row group whose `order` lies in some ranges, sorted and apart from each other."""
    table = read_groups([group.place])
    order = table.column("order").to_numpy()
    place = np.searchsorted(low, order, side="right") - 1
    return table.filter(pa.array((place >= 0) & (order <= high[place])))


def _sends(group: RowGroup, names: pa.Array) -> dict[str, int]:
    """Return the `order` of the sends of some messages in a row group."""
    with pq.ParquetFile(group.place.file) as file:
        table = file.read_row_group(group.place.group, columns=["kind", "message", "order"], use_threads=False)
    chosen = table.filter(pc.is_in(_plain(table.column("message")), names))
    chosen = chosen.filter(_equal(chosen.column("kind"), "send"))
    return dict(zip(chosen.column("message").to_pylist(), chosen.column("order").to_pylist(), strict=True))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column if pa.types.is_string(column.type) else column.cast(pa.string())


def _naming(table: pa.Table, messages: pa.Array) -> pa.Table:
    return table.filter(pc.is_in(_plain(table.column("message")), messages))


def _null_first(table: pa.Table) -> pa.Array:
    """Return the places of rows sorted by all columns, null before everything else."""
    if not len(table):
        return pa.array([], pa.int64())
    keys: dict[str, pa.ChunkedArray] = {}
    for name in table.column_names:
        if table.column(name).null_count:
            keys[f"{name} is there"] = table.column(name).is_valid()
        keys[name] = table.column(name)
    return pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])


def _equal(column: pa.ChunkedArray, text: str) -> pa.ChunkedArray:
    return pc.equal(_plain(column), text)


def _names(column: pa.ChunkedArray) -> set[str]:
    return {name for name in pc.unique(column).to_pylist() if name is not None}


class ArrowFindings(Findings):
    """Findings in a tagged table; `events` are those that were judged."""

    def __init__(self, tagged: pa.Table, events: EventRows) -> None:
        """Take what was found, and the events behind it."""
        self.tagged, self._events = tagged, events

    def runs(self) -> Iterator[RunRow]:
        """Yield the runs, by name."""
        sums = ("events", "messages", "gaps")
        counted = self.tagged.group_by(["run", "tag"]).aggregate([([], "count_all"), *((name, "sum") for name in sums)])
        rows: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys((*sums, *COUNTS.values()), 0))
        names = {tag: COUNTS[name] for name, tag in TAGS.items()}
        for row in counted.to_pylist():
            if row["run"] is None:
                continue
            if row["tag"] in names:
                rows[row["run"]][names[row["tag"]]] += row["count_all"]
            for name in sums:
                rows[row["run"]][name] += row[f"{name}_sum"] or 0
        for run, found in sorted(rows.items()):
            verdict = verdict_of(found["violations"], found["quarantined"], found["gaps"])
            yield {"run": run, "verdict": verdict, **found}  # type: ignore[typeddict-item]

    def rows(self, name: ListName) -> Iterator[Row]:
        """Yield the rows of a list, sorted."""
        found = self.listed(name)
        order = _null_first(found.select(SORTED_BY[name]))
        for start in range(0, len(order), BATCH):
            yield from found.take(order.slice(start, BATCH)).to_pylist()

    def listed(self, name: ListName) -> pa.Table:
        """Return a list of findings as a table."""
        found = self.tagged.filter(pc.equal(self.tagged.column("tag"), TAGS[name]))
        return pa.table([found.column(CALLED.get(c, c)) for c in COLUMNS[name]], names=list(COLUMNS[name]))

    def paths(self, violations: Sequence[Row]) -> dict[Key, list[Step]]:
        """Return the causal paths that prove some violations."""
        runs: dict[str, list[Row]] = defaultdict(list)
        for row in violations:
            runs[str(row["run"])].append(row)
        found: dict[Key, list[Step]] = {}
        for run, asked in runs.items():
            pairs = [(str(row["missing"]), str(row["early"])) for row in asked]
            for row, path in zip(asked, shortest_paths(self._events.of_run(run, pairs), pairs), strict=True):
                if path is not None:
                    found[key_of(row)] = [Step(**step) for step in path]
        return found

    def events(self, run: str, messages: Iterable[str]) -> list[Event]:
        """Return the rows of a run that name some messages."""
        return events_of(self._events.of_messages(run, pa.array(sorted(messages), pa.string())))

    def runs_in(self, files: Iterable[str]) -> set[str]:
        """Return the runs that have rows in some files."""
        return self._events.runs_in(files)
