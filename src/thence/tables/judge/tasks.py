"""The tasks of an audit on Spark: thin functions from Arrow batches to Arrow batches.

Invariant. A task gets whole partitions and says everything it finds as tagged rows (`tables.judge.findings`).
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from itertools import groupby

import pyarrow as pa

from thence.tables.judge.chunk import summarise
from thence.tables.judge.coded_rows import run_codes
from thence.tables.judge.findings import SCHEMA
from thence.tables.judge.merge_chunks import ChunkMerger, twice_sent
from thence.tables.judge.packed_rows import gathered, join_packed
from thence.tables.judge.packing import split_by_partition
from thence.tables.judge.whole_run import judge_run

Batches = Iterator[pa.RecordBatch]
BatchFunction = Callable[[Batches], Batches]
GroupFunction = Callable[[tuple[pa.Scalar, ...], Batches], Batches]


def _batches(table: pa.Table) -> Batches:
    yield from table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=SCHEMA)]


def judging(*, block: int | None, buckets: int) -> BatchFunction:
    """Judge whole runs and summarise chunks; packed rows may say which messages are wanted in its summary."""

    def work(batches: Batches) -> Batches:
        for packed in gathered(batches):
            run, chunk, want = packed[0]["run"], packed[0]["chunk"], packed[0].get("want")
            names: frozenset[str] = pickle.loads(want) if want else frozenset()
            table = join_packed(packed)
            if chunk is None or run is None:
                yield from judged_runs(table, block=block)
            else:
                yield from _batches(summarise(run, chunk, table, want=names, block=block, buckets=buckets))

    return work


def judged_runs(table: pa.Table, *, block: int | None) -> Batches:
    """Judge all runs of a normal table, each whole."""
    for name, rows in split_by_run(table):
        yield from _batches(judge_run(name, rows, block=block))


def split_by_run(table: pa.Table) -> Iterator[tuple[str | None, pa.Table]]:
    """Yield the rows of each run of a normal table, in their order."""
    codes, names = run_codes(table)
    if len(names) == 1:
        yield names[0], table
    else:
        yield from ((names[code], rows) for code, rows in split_by_partition(table.combine_chunks(), codes))


def merging(*, last_round: bool) -> GroupFunction:
    """Put the summaries of one run together, and compare the hashes of its ids if they come along.

    Rows come sorted by tag, by chunk, and by place in it.
    """

    def work(key: tuple[pa.Scalar, ...], batches: Batches) -> Batches:
        merger = ChunkMerger(key[0].as_py(), last_round=last_round)
        _take(merger, batches)
        yield from _batches(merger.finish())

    return work


def joining(key: tuple[pa.Scalar, ...], batches: Batches) -> Batches:
    """Make one chunk of neighbouring chunks: a node of the tree over a run, numbered among its like."""
    number = key[1].as_py()
    merger = ChunkMerger(key[0].as_py(), opens=number == 0)
    _take(merger, batches)
    yield from _batches(merger.as_one_chunk(number))


def _take(merger: ChunkMerger, batches: Batches) -> None:
    columns = ("tag", "chunk", "payload")
    rows = (row for batch in batches for row in zip(*(batch.column(name) for name in columns), strict=True))
    for (tag, _), own in groupby(rows, key=lambda row: (row[0].as_py(), row[1].as_py())):
        merger.take(tag, (payload.as_buffer() for _, _, payload in own))


def comparing(key: tuple[pa.Scalar, ...], batches: Batches) -> Batches:
    """Report that a message of the run may have been sent twice, if so."""
    hashes = (bytes(payload.as_buffer()) for batch in batches for payload in batch.column("payload"))
    found = twice_sent(key[0].as_py(), hashes)
    yield from _batches(found if found is not None else SCHEMA.empty_table())
