"""Which way rows take to their judge: decided here, in one place, and said aloud.

Law. Every route gives the same answer; they differ in what moves, and so in time and memory. A route says its name and,
in a sentence, why it was taken; `thence audit --verbose` shows it, and the JSON has it as `route`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from thence.auditing.plan import CHUNK_ROWS, FEW, Plan
from thence.auditing.row_groups import Chunk, Footers, chunks_of, plan_of_chunks, plan_of_overlapping

Name = Literal["whole", "scratch", "row groups", "split row groups", "in place", "placed", "packed"]


@dataclass(frozen=True)
class Route:
    """One way from rows to a verdict."""

    name: Name
    why: str
    plan: Plan = field(default_factory=Plan, repr=False)
    chunks: tuple[Chunk, ...] = field(default=(), repr=False)
    """The row groups of each slot from 1 on; of the route `row groups` only."""

    @property
    def by_groups(self) -> bool:
        """Tell whether row groups are read where they are judged, or where they are split."""
        return self.name in ("row groups", "split row groups")

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


def choose(
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
    process; `held`: they are few enough to be held in its memory. `split`: there is somebody who can split the rows of
    a row group by chunk.
    """
    if footers is not None and (chunks := chunks_of(footers.groups, chunk_rows)):
        why = f"row groups follow one another in `order`: {len(chunks)} chunks are lists of whole row groups"
        return Route("row groups", why, plan_of_chunks(chunks), tuple(chunks))
    if footers is not None and split and (plan := plan_of_overlapping(footers.groups, chunk_rows)):
        why = f"row groups overlap in `order`: their rows are split into {plan.slots} slots before they are judged"
        return Route("split row groups", why, plan)
    if look is None and not held:
        return Route("scratch", "rows are kept in a scratch folder; small runs are judged whole, large ones in chunks")
    if look is None:
        return Route("whole", "every run is judged from all its rows, in this process")
    return _of_rows(look())


def _of_rows(plan: Plan) -> Route:
    """Choose by what a look at the rows of a frame showed."""
    if plan.counts is not None:
        return Route("in place", "every stretch of a partition is one range of `order`: judged where it lies", plan)
    if plan.direct:
        return Route("placed", f"Spark brings each row to one of {plan.slots} slots, and it is judged there", plan)
    if not plan.large:
        why = f"no run has more rows than one task judges: {plan.rows:,} rows go to {plan.slots} slots"
    elif len(plan.large) > FEW:
        why = f"{len(plan.large)} large runs: rows are packed into pieces first, and moved then"
    else:
        why = "a large run has no regular `order`: rows are packed into pieces first, and moved then"
    return Route("packed", why, plan)
