"""Parquet files whose row groups are chunks by themselves, or can be brought to their chunks without Spark's help.

Invariant: Footers are read first. If every row group holds one run and ranges of `order` do not overlap within a run,
each chunk is a list of row groups, read where it is judged. If they do overlap, the rows of each row group are split by
chunk first. A file that is no trace is set aside whole, a row group that cannot be read alone; both are said so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from thence.tables.contract.columns import JUDGED_COLUMNS
from thence.tables.files.parquet_reader import UNREADABLE, footer, row_group_batches, unfit
from thence.tables.files.source import Quarantined, first_line
from thence.tables.files.splits import Split
from thence.tables.judge.normal_table import concatenated, of_batch
from thence.tables.judge.partition_plan import Large, Plan, chunk_count, evenly
from thence.tables.judge.threads import in_threads

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_READERS = 16
"""Footers that are read at a time."""


class RowGroupPlace(NamedTuple):
    """Where a row group is: its file, its number there, the row of the file that it begins after, how many it has."""

    file: str
    group: int
    start: int
    rows: int


class RowGroup(NamedTuple):
    """What a footer says of one row group."""

    place: RowGroupPlace
    run: str | None = None
    """The one run of all rows; None if that is not known."""
    low: int | None = None
    high: int | None = None
    """The range of `order`; None unless every row has one."""

    @property
    def rows(self) -> int:
        """Return how many rows it has."""
        return self.place.rows

    @property
    def plain(self) -> bool:
        """Tell whether all rows are of one run and have an `order`."""
        return self.run is not None and self.low is not None


class Footers(NamedTuple):
    """What the footers of some files say."""

    groups: list[RowGroup]
    refused: list[Quarantined]
    """Files that are no traces, and why not."""


def read_footers(files: Iterable[Path | str]) -> Footers:
    """Read the footers of Parquet files, some at a time."""
    names = list(map(str, files))
    each = list(in_threads(_footer, names, min(_READERS, len(names)))) if names else []
    groups = [group for footer in each for group in footer.groups if group.rows]
    return Footers(groups, [refused for footer in each for refused in footer.refused])


def _footer(name: str) -> Footers:
    try:
        whole = footer(name)
        if reason := unfit(whole.schema.to_arrow_schema(), JUDGED_COLUMNS):
            return Footers([], [Quarantined(name, None, f"{reason}; its {whole.num_rows} rows are set aside")])
        return Footers(list(_groups(name, whole)), [])
    except UNREADABLE as error:
        return Footers([], [Quarantined(name, None, f"it cannot be read as Parquet: {first_line(error)}")])


def _groups(name: str, footer: pq.FileMetaData) -> Iterator[RowGroup]:
    start = 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        run, order = _range(group, "run"), _range(group, "order")
        one = str(run[0]) if run is not None and run[0] == run[1] else None
        low, high = (int(order[0]), int(order[1])) if order is not None else (None, None)
        yield RowGroup(RowGroupPlace(name, number, start, group.num_rows), one, low, high)
        start += group.num_rows


def _range(group: pq.RowGroupMetaData, name: str) -> tuple[str | int, str | int] | None:
    """Return the least and the greatest value of a column without nulls, if the footer says them."""
    for place in range(group.num_columns):
        column = group.column(place)
        if column.path_in_schema == name:
            stats = column.statistics
            known = stats is not None and stats.has_min_max and stats.has_null_count and stats.null_count == 0
            return (stats.min, stats.max) if known else None
    return None


class RowGroupChunk(NamedTuple):
    """Row groups that are judged together: a chunk of a large run, or a small run whole (`number` None)."""

    run: str
    number: int | None
    groups: list[RowGroup]

    @property
    def rows(self) -> int:
        """Return how many rows they have."""
        return sum(group.rows for group in self.groups)


def chunks_of(groups: list[RowGroup], chunk_rows: int) -> list[RowGroupChunk] | None:
    """Make chunks of whole row groups; None if they are not plain, or overlap in `order`."""
    runs = _by_run(groups)
    if not runs or any(one.high >= two.low for own in runs.values() for one, two in pairwise(own)):  # type: ignore[operator]
        return None
    found: list[RowGroupChunk] = []
    for run, own in runs.items():
        total = sum(group.rows for group in own)
        filled = _filled(own, total if total <= chunk_rows else -(-total // chunk_count(total, chunk_rows)))
        found += [RowGroupChunk(run, None if len(filled) == 1 else number, some) for number, some in enumerate(filled)]
    return found


def plan_of_chunks(chunks: list[RowGroupChunk]) -> Plan:
    """Return the plan in which each chunk has a partition of its own, from 1 on."""
    large: dict[str, Large] = {}
    for partition, chunk in enumerate(chunks, 1):
        low = chunk.groups[0].low
        assert low is not None
        if chunk.run not in large:
            large[chunk.run] = Large(partition, None if chunk.number is None else ())
        else:
            first = large[chunk.run]
            large[chunk.run] = Large(first.partition, (*(first.cuts or ()), low))
    return Plan(large, 1, sum(chunk.rows for chunk in chunks))


def plan_of_overlapping(groups: list[RowGroup], chunk_rows: int) -> Plan | None:
    """Plan chunks of runs whose row groups overlap, as where each process has a file, if the footers say enough."""
    runs = _by_run(groups)
    sizes = {run: sum(each.rows for each in own) for run, own in runs.items()}
    partition = shared = 1 + sum(rows for rows in sizes.values() if rows <= chunk_rows) // chunk_rows
    large: dict[str, Large] = {}
    for run, own in runs.items():
        if sizes[run] > chunk_rows:
            low, high = own[0].low or 0, max(each.high or 0 for each in own)
            cut = evenly(partition, sizes[run], low, high, chunk_rows)
            if cut is None:
                return None
            large[run] = cut
            partition += cut.chunks
    return Plan(large, shared, sum(sizes.values())) if large else None


def _by_run(groups: list[RowGroup]) -> dict[str, list[RowGroup]]:
    """Return the row groups of each run in their order; none at all unless each is of one run and has `order`."""
    if not all(group.plain for group in groups):
        return {}
    runs: dict[str, list[RowGroup]] = {}
    for group in sorted(groups, key=lambda each: (each.run or "", each.low or 0)):
        runs.setdefault(group.run or "", []).append(group)
    return runs


def _filled(groups: list[RowGroup], size: int) -> list[list[RowGroup]]:
    chunks: list[list[RowGroup]] = []
    held = size
    for group in groups:
        if held + group.rows // 2 >= size:
            chunks.append([])
            held = 0
        chunks[-1].append(group)
        held += group.rows
    return chunks


def read_groups(places: Iterable[RowGroupPlace]) -> pa.Table:
    """Return row groups as a normal table."""
    parts = (Split(each.file, "parquet", each.start + 1, length=each.rows, group=each.group) for each in places)
    batches = (batch for part in parts for batch in row_group_batches(part, JUDGED_COLUMNS, needs=False, coded=True))
    return concatenated([of_batch(batch) for batch in batches])
