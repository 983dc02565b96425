"""The route of an audit: how rows reach the task that judges them.

Invariant. Every route gives the same answer; they differ in what moves, and so in time and memory. A route says its
name and, in a sentence, why it was taken; `thence audit --verbose` shows it, and the JSON has it as `route`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from thence.tables.judge.partition_plan import CHUNK_ROWS, Plan
from thence.tables.judge.row_groups import Footers, chunks_of, plan_of_chunks, plan_of_overlapping
from thence.tables.judge.stored_rows import StoredChunk

RouteName = Literal["whole", "scratch", "row groups", "packed"]


@dataclass(frozen=True)
class Route:
    """One way from rows to a verdict."""

    name: RouteName
    why: str
    plan: Plan = field(default_factory=Plan, repr=False)
    chunks: tuple[StoredChunk, ...] = field(default=(), repr=False)
    """The row groups of each partition from 1 on; of the route `row groups` only."""
    by_groups: bool = False
    """Row groups are read where they are judged, or where they are packed."""

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


def choose_route(
    *,
    footers: Footers | None = None,
    look: Callable[[], Plan] | None = None,
    split: bool = True,
    held: bool = True,
    chunk_rows: int = CHUNK_ROWS,
) -> Route:
    """Choose the route of some rows.

    `footers` are those of Parquet files, if there is nothing else to judge; `look` looks at the rows themselves, where
    they are spread over tasks, and is called only if the footers do not tell enough. Without it all rows are in this
    process; `held`: they are few enough to be held in its memory. `split`: rows of a row group can be split by chunk.
    """
    if footers is not None and (chunks := chunks_of(footers.groups, chunk_rows)):
        why = f"row groups follow one another in `order`: {len(chunks)} chunks are lists of whole row groups"
        return Route("row groups", why, plan_of_chunks(chunks), tuple(chunks), by_groups=True)
    if footers is not None and split and (plan := plan_of_overlapping(footers.groups, chunk_rows)):
        why = f"row groups overlap in `order`: rows are packed for {plan.partitions} partitions before they are judged"
        return Route("packed", why, plan, by_groups=True)
    if look is None and not held:
        return Route("scratch", "rows are kept in a scratch folder; small runs are judged whole, large ones in chunks")
    if look is None:
        return Route("whole", "every run is judged from all its rows, in this process")
    plan = look()
    why = f"{plan.rows:,} rows are packed for {plan.partitions} partitions, each judged by one task"
    return Route("packed", why, plan)
