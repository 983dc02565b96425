"""Parquet files whose row groups are chunks by themselves, or can be brought to their chunks without Spark's help.

Invariant: Footers are read first. If every row group holds one run and ranges of `order` do not overlap within a run,
each chunk is a list of row groups, read where it is judged. If they do overlap, the rows of each row group are split by
chunk first. A file that is not a trace is set aside whole, a row group that cannot be read alone; both are said so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from thence.tables.contract.columns import JUDGED_COLUMNS
from thence.tables.files.parquet_reader import footer, row_group_batches, row_groups
from thence.tables.files.source import Quarantined
from thence.tables.files.splits import Split
from thence.tables.judge.normal_table import concatenated, of_batch
from thence.tables.judge.partition_plan import Large, Plan, evenly
from thence.tables.judge.stored_rows import StoredChunk, StoredRows, chunks_along_order, sends_in, stored_by_run
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


@dataclass(frozen=True)
class RowGroup(StoredRows):
    """A row group, and what the footer of its file says of it."""

    place: RowGroupPlace
    run: str | None = None
    low: int | None = None
    high: int | None = None

    @property
    def rows(self) -> int:  # type: ignore[override]
        """Return how many rows it has."""
        return self.place.rows

    def load(self) -> pa.Table:
        return read_groups([self.place])

    def files(self) -> set[str]:
        return {self.place.file}

    def sends(self, names: pa.Array) -> dict[str, int]:
        """Return the `order` of the sends of some messages, by three columns alone."""
        import pyarrow.parquet as pq  # lines need none of it

        with pq.ParquetFile(self.place.file) as file:
            table = file.read_row_group(self.place.group, columns=["kind", "message", "order"], use_threads=False)
        return sends_in(table.filter(pc.equal(table.column("kind").cast(pa.string()), "send")), names)


class Footers(NamedTuple):
    """Metadata from the footers of some files."""

    groups: list[RowGroup]
    refused: list[Quarantined]
    """Files that are not traces, and why not."""


def read_footers(files: Iterable[Path | str]) -> Footers:
    """Read the footers of Parquet files, some at a time."""
    names = list(map(str, files))
    each = list(in_threads(_footer, names, min(_READERS, len(names)))) if names else []
    groups = [group for footer in each for group in footer.groups if group.rows]
    return Footers(groups, [refused for footer in each for refused in footer.refused])


def _footer(name: str) -> Footers:
    found = row_groups(name, JUDGED_COLUMNS)
    groups = [_group(split) for split in found if isinstance(split, Split)]
    return Footers(groups, [each for each in found if isinstance(each, Quarantined)])


def _group(split: Split) -> RowGroup:
    group = footer(split.file).row_group(split.group)
    run, order = _range(group, "run"), _range(group, "order")
    one = str(run[0]) if run is not None and run[0] == run[1] else None
    low, high = (int(order[0]), int(order[1])) if order is not None else (None, None)
    return RowGroup(RowGroupPlace(split.file, split.group, split.first - 1, group.num_rows), one, low, high)


def _range(group: pq.RowGroupMetaData, name: str) -> tuple[str | int, str | int] | None:
    """Return the least and the greatest value of a column without nulls, if the footer says them."""
    for place in range(group.num_columns):
        column = group.column(place)
        if column.path_in_schema == name:
            stats = column.statistics
            known = stats is not None and stats.has_min_max and stats.has_null_count and stats.null_count == 0
            return (stats.min, stats.max) if known else None
    return None


def chunks_of(groups: Sequence[RowGroup], chunk_rows: int) -> list[StoredChunk] | None:
    """Make chunks of whole row groups; None if one is not of one run, or if they overlap in `order`."""
    found: list[StoredChunk] = []
    for run, own in sorted(stored_by_run(groups).items(), key=lambda each: each[0] or ""):
        chunks = chunks_along_order(run, own, chunk_rows)
        if chunks is None:
            return None
        found += chunks
    return found


def plan_of_chunks(chunks: list[StoredChunk]) -> Plan:
    """Return the plan in which each chunk has a partition of its own, from 1 on."""
    large: dict[str, Large] = {}
    for partition, chunk in enumerate(chunks, 1):
        low = chunk.stored[0].low
        assert chunk.run is not None
        assert low is not None
        if chunk.run not in large:
            large[chunk.run] = Large(partition, None if chunk.number is None else ())
        else:
            first = large[chunk.run]
            large[chunk.run] = Large(first.partition, (*(first.cuts or ()), low))
    return Plan(large, 1, sum(chunk.rows for chunk in chunks))


def plan_of_overlapping(groups: list[RowGroup], chunk_rows: int) -> Plan | None:
    """Plan chunks of runs whose row groups overlap, as where each process has a file, if the footers say enough."""
    if any(group.run is None or group.low is None for group in groups):
        return None
    runs = {str(run): own for run, own in sorted(stored_by_run(groups).items(), key=lambda each: str(each[0]))}
    sizes = {run: sum(each.rows for each in own) for run, own in runs.items()}
    partition = shared = 1 + sum(rows for rows in sizes.values() if rows <= chunk_rows) // chunk_rows
    large: dict[str, Large] = {}
    for run, own in runs.items():
        if sizes[run] > chunk_rows:
            low, high = min(each.low or 0 for each in own), max(each.high or 0 for each in own)
            cut = evenly(partition, sizes[run], low, high, chunk_rows)
            if cut is None:
                return None
            large[run] = cut
            partition += cut.chunks
    return Plan(large, shared, sum(sizes.values())) if large else None


def read_groups(places: Iterable[RowGroupPlace]) -> pa.Table:
    """Return row groups as a normal table."""
    parts = (Split(each.file, "parquet", each.start + 1, length=each.rows, group=each.group) for each in places)
    batches = (batch for part in parts for batch in row_group_batches(part, JUDGED_COLUMNS, needs=False, coded=True))
    return concatenated([of_batch(batch) for batch in batches])
