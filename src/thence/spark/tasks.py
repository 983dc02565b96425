"""What the tasks of an audit do: thin functions from Arrow batches to Arrow batches, all sense being in `kernels`.

Law. A task gets whole slots and says everything it finds as tagged rows (`kernels.found`).
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from thence.kernels import found
from thence.kernels.chunk import summarise, summary_of
from thence.kernels.compose import Composer
from thence.kernels.found import SCHEMA, part
from thence.kernels.ids import repeated
from thence.kernels.packing import parted
from thence.kernels.rows import by_run
from thence.kernels.whole import judge
from thence.spark.pieces import gathered, joined, tables
from thence.spark.plan import Plan, owner, slots_of

Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def _batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from table.combine_chunks().to_batches()


def judging(*, block: int | None, buckets: int) -> Work:
    """Judge whole runs and summarise chunks; a piece may say which messages are wanted in its summary."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for run, chunk, pieces in gathered(batches):
            want = pieces[0].get("want")
            names: frozenset[str] = pickle.loads(want) if want else frozenset()
            table = joined(pieces)
            if chunk is None:
                for name, rows in _by_run(table):
                    yield from _batches(judge(name, rows, block=block))
            else:
                assert run is not None
                yield from _batches(summarise(run, chunk, table, want=names, block=block, buckets=buckets))

    return work


def judging_rows(plan: Plan, *, block: int | None, buckets: int) -> Work:
    """Judge the slots that a partition of lightened rows holds.

    If the plan says how many rows a slot has, it is judged when they are there; if others are here in the end, the rows
    have moved since the plan was made.
    """

    def judged(slot: int, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        run, chunk = owner(plan, slot)
        if run is None or chunk is None:
            for name, own in _by_run(rows):
                yield from _batches(judge(name, own, block=block))
            return
        yield from _batches(summarise(run, chunk, rows, block=block, buckets=buckets))

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: dict[int, list[pa.Table]] = {}
        for table in tables(batches, plan):
            for slot, rows in parted(table, slots_of(table, plan)):
                mine = held.setdefault(slot, [])
                mine.append(rows)
                if plan.counts is not None and sum(map(len, mine)) == plan.counts.get(slot):
                    yield from judged(slot, pa.concat_tables(held.pop(slot)))
        for slot in sorted(held):
            if plan.counts is None:
                yield from judged(slot, pa.concat_tables(held.pop(slot)))
            else:
                yield from _batches(part(found.MOVED, owner(plan, slot)[0], 1))

    return work


def _by_run(table: pa.Table) -> Iterator[tuple[str | None, pa.Table]]:
    codes, names = by_run(table)
    if len(names) == 1:
        yield names[0], table
        return
    if bool(np.any(codes[1:] < codes[:-1])):
        order = np.argsort(codes, kind="stable")
        table, codes = table.take(pa.array(order)), codes[order]
    table = table.combine_chunks()
    ends = np.searchsorted(codes, np.arange(len(names)), side="right").tolist()
    for name, start, end in zip(names, [0, *ends[:-1]], ends, strict=True):
        yield name, table.slice(start, end - start)


def composing(*, last_round: bool) -> Callable[[tuple[Any, ...], Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Put the summaries of one run together, and compare the hashes of its ids if they come along.

    Rows come sorted by tag, by chunk, and by place in it.
    """

    def work(key: tuple[Any, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        run = key[0].as_py()
        composer = Composer(run, last_round=last_round)
        columns = ("tag", "chunk", "payload")
        rows = (row for batch in batches for row in zip(*(batch.column(name) for name in columns), strict=True))
        for (tag, _), mine in groupby(rows, key=lambda row: (row[0].as_py(), row[1].as_py())):
            payloads = (payload.as_buffer() for _, _, payload in mine)
            if tag == found.IDS:
                yield from _twice_sent(run, payloads)
            else:
                composer.add(summary_of(payloads))
        yield from _batches(composer.finish())

    return work


def comparing(key: tuple[Any, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Say so if a message of the run may have been sent twice."""
    yield from _twice_sent(key[0].as_py(), (p.as_buffer() for batch in batches for p in batch.column("payload")))


def _twice_sent(run: str, hashes: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    if repeated([bytes(each) for each in hashes]):
        yield from _batches(part(found.TROUBLE, run, 1, reason="a message is sent twice"))
    else:
        yield pa.RecordBatch.from_pylist([], schema=SCHEMA)
