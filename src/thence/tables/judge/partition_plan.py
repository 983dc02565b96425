"""Which partition judges which rows: decided by the run and the `order` of a row alone.

*Invariant.* Every row belongs to exactly one partition. A partition holds one chunk of a large run, or one large run
whole, or several small runs; all rows of a partition are judged by one task.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np
import pyarrow as pa

from thence.tables.contract.numpy_types import Ints
from thence.tables.judge.coded_rows import run_codes

CHUNK_ROWS = 1_000_000
"""Rows of a chunk, and the size up to which a run is judged whole."""
TASKS, TASK_ROWS = 8, 250_000
"""Up to this many partitions each has its own task; beyond, tiny partitions share one."""
FAR = 1 << 62
"""Differences of `order` below this can be taken in a long."""
FAN = 16
"""Neighbouring chunks that one task merges: more are merged along a tree, level by level."""
LEAST_CHUNKS = 4
"""A large run is cut into this many chunks at least, so that there is work for several tasks."""


@dataclass(frozen=True)
class Large:
    """A run too large for one task: its first partition, and the `order` at which each further chunk begins."""

    partition: int
    cuts: tuple[int, ...] | None
    """None: judged whole, for want of an order."""

    @property
    def chunks(self) -> int:
        """Return the number of partitions the run takes."""
        return 1 if self.cuts is None else len(self.cuts) + 1


@dataclass(frozen=True)
class Plan:
    """Which partition each row goes to, and what of a row has to travel."""

    large: dict[str, Large] = field(default_factory=dict)
    shared: int = 1
    """Slots for the small runs; they come first."""
    rows: int = 0
    spread: bool = False
    """One partition of the frame holds more than two thirds of the rows: they must be spread before they are packed."""
    only: str | None = None
    """The one run there is, if there is one only."""

    @property
    def tasks(self) -> int:
        """Return how many tasks share the partitions: one each, unless partitions are many and tiny."""
        return min(self.partitions, max(TASKS, self.rows // TASK_ROWS))

    @property
    def partitions(self) -> int:
        """Return how many partitions there are."""
        return self.shared + sum(each.chunks for each in self.large.values())

    @property
    def chunked(self) -> list[str]:
        """Return the runs that are judged in chunks."""
        return [run for run, each in self.large.items() if each.cuts is not None]


def evenly(partition: int, rows: int, low: int, high: int, chunk_rows: int) -> Large | None:
    """Cut a range of `order` into equal ranges; None if the numbers it leaves out could make them unequal."""
    span = high - low + 1
    if 2 * rows < span < FAR:
        return None
    step = -(-span // chunk_count(rows, chunk_rows))
    return Large(partition, tuple(range(low + step, low + span, step)))


def chunk_count(rows: int, chunk_rows: int) -> int:
    """Return into how many chunks a large run is cut."""
    return max(LEAST_CHUNKS, -(-rows // chunk_rows))


def partitions_of(table: pa.Table, plan: Plan) -> Ints:
    """Return the partition of each row of a normal table."""
    codes, names = run_codes(table)
    partitions = np.array([crc32((name or "").encode()) % plan.shared for name in names], np.int32)[codes]
    for place, name in enumerate(names):
        large = plan.large.get(name) if name is not None else None
        if large is None:
            continue
        in_run = codes == place
        if large.cuts is None:
            partitions[in_run] = large.partition
        else:
            order = table.column("order").to_numpy()[in_run]
            partitions[in_run] = large.partition + np.searchsorted(np.array(large.cuts, np.int64), order, side="right")
    return partitions


def owner(plan: Plan, partition: int) -> tuple[str | None, int | None]:
    """Return the large run a partition belongs to, and which chunk of it, if it is one."""
    runs = list(plan.large)
    place = bisect_right([plan.large[run].partition for run in runs], partition) - 1
    if place < 0:
        return None, None
    large = plan.large[runs[place]]
    return runs[place], None if large.cuts is None else partition - large.partition
