"""What a task of an audit does: thin functions from Arrow batches to Arrow batches, all sense being in `kernels`.

Law. A task gets whole slots and says everything it finds as tagged rows (`kernels.findings`). Whoever drives the tasks,
this process, a pool of processes or Spark, the functions are these.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from itertools import groupby

import numpy as np
import pyarrow as pa

from thence.auditing.plan import Plan, owner, slots_of
from thence.auditing.transport import gathered, joined
from thence.kernels import findings
from thence.kernels.chunk import summarise, summary_of
from thence.kernels.findings import SCHEMA, tagged
from thence.kernels.ids import repeated
from thence.kernels.judge_run import judge
from thence.kernels.merge_chunks import ChunkMerger
from thence.kernels.packing import split_by_slot
from thence.kernels.rows import by_run

Batches = Iterator[pa.RecordBatch]
Work = Callable[[Batches], Batches]


def _batches(table: pa.Table) -> Batches:
    yield from table.combine_chunks().to_batches()


def judging(*, block: int | None, buckets: int) -> Work:
    """Judge whole runs and summarise chunks; a piece may say which messages are wanted in its summary."""

    def work(batches: Batches) -> Batches:
        for pieces in gathered(batches):
            run, chunk, want = pieces[0]["run"], pieces[0]["chunk"], pieces[0].get("want")
            names: frozenset[str] = pickle.loads(want) if want else frozenset()
            table = joined(pieces)
            if chunk is None or run is None:
                yield from judged_runs(table, block=block)
            else:
                yield from _batches(summarise(run, chunk, table, want=names, block=block, buckets=buckets))

    return work


def judged_runs(table: pa.Table, *, block: int | None) -> Batches:
    """Judge all runs of a normal table, each whole."""
    for name, rows in split_by_run(table):
        yield from _batches(judge(name, rows, block=block))


def judging_rows(
    plan: Plan, tables: Callable[[Batches], Iterator[pa.Table]], *, block: int | None, buckets: int
) -> Work:
    """Judge the slots that a partition of rows holds; `tables` makes normal tables of its batches.

    If the plan says how many rows a slot has, it is judged when they are there; if others are here in the end, the rows
    have moved since the plan was made.
    """

    def judged(slot: int, rows: pa.Table) -> Batches:
        run, chunk = owner(plan, slot)
        if run is None or chunk is None:
            yield from judged_runs(rows, block=block)
        else:
            yield from _batches(summarise(run, chunk, rows, block=block, buckets=buckets))

    def work(batches: Batches) -> Batches:
        held: dict[int, list[pa.Table]] = {}
        for table in tables(batches):
            for slot, rows in split_by_slot(table, slots_of(table, plan)):
                here = held.setdefault(slot, [])
                here.append(rows)
                if plan.counts is not None and sum(map(len, here)) == plan.counts.get(slot):
                    yield from judged(slot, pa.concat_tables(held.pop(slot)))
        for slot in sorted(held):
            if plan.counts is None:
                yield from judged(slot, pa.concat_tables(held.pop(slot)))
            else:
                yield from _batches(tagged(findings.MOVED, owner(plan, slot)[0], 1))

    return work


def split_by_run(table: pa.Table) -> Iterator[tuple[str | None, pa.Table]]:
    """Yield the rows of each run of a normal table, in their order."""
    codes, names = by_run(table)
    if len(names) <= 1:
        yield from ((name, table) for name in names)
        return
    if bool(np.any(codes[1:] < codes[:-1])):
        order = np.argsort(codes, kind="stable")
        table, codes = table.take(pa.array(order)), codes[order]
    table = table.combine_chunks()
    ends = np.searchsorted(codes, np.arange(len(names)), side="right").tolist()
    for name, start, end in zip(names, [0, *ends[:-1]], ends, strict=True):
        if end > start:
            yield name, table.slice(start, end - start)


def merging(*, last_round: bool) -> Callable[[tuple[pa.Scalar, ...], Batches], Batches]:
    """Put the summaries of one run together, and compare the hashes of its ids if they come along.

    Rows come sorted by tag, by chunk, and by place in it.
    """

    def work(key: tuple[pa.Scalar, ...], batches: Batches) -> Batches:
        run = key[0].as_py()
        merger = ChunkMerger(run, last_round=last_round)
        columns = ("tag", "chunk", "payload")
        rows = (row for batch in batches for row in zip(*(batch.column(name) for name in columns), strict=True))
        for (tag, _), own in groupby(rows, key=lambda row: (row[0].as_py(), row[1].as_py())):
            payloads = (payload.as_buffer() for _, _, payload in own)
            if tag == findings.IDS:
                yield from _twice_sent(run, payloads)
            else:
                merger.add(summary_of(payloads))
        yield from _batches(merger.finish())

    return work


def comparing(key: tuple[pa.Scalar, ...], batches: Batches) -> Batches:
    """Say so if a message of the run may have been sent twice."""
    yield from _twice_sent(key[0].as_py(), (p.as_buffer() for batch in batches for p in batch.column("payload")))


def _twice_sent(run: str, hashes: Iterator[pa.Buffer]) -> Batches:
    if repeated([bytes(each) for each in hashes]):
        yield from _batches(tagged(findings.TROUBLE, run, 1, reason="a message is sent twice"))
    else:
        yield pa.RecordBatch.from_pylist([], schema=SCHEMA)
