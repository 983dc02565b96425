"""One visit of a shard, in plain Python: packed rows and an operator's give-up commands in, packed rows out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from thence.tables.delivery import shard_memory
from thence.tables.delivery.arrow_rows import in_utc
from thence.tables.delivery.delivery_terms import DeliveryTerms
from thence.tables.delivery.many_keys import KNOWN
from thence.tables.delivery.orderer import BY_HAND
from thence.tables.delivery.outcome import KINDS
from thence.tables.delivery.shard import SegmentStore, Shard
from thence.tables.delivery.shard_state import batches, ipc
from thence.tables.delivery.without_collection import without_collection
from thence.tables.engines.spark.stream_options import READ_ORDER, StreamOptions

SHARD, PACKED, ACTION, CAUSE = "__thence_shard", "__thence_rows", "__thence_action", "__thence_cause"
"""Columns on the way to the stateful step and in operators' commands; callers' columns have no such names."""
NUMBERS = "__thence_numbers"
"""On the way out, beside packed rows: a number for each of `VISIT_COUNTS`, and the longest wait of a held row."""
DRAIN, GIVE_UP = "drain", "give up"
ALWAYS_VISITED = 0
"""A shard that every micro-batch visits, for any number of shards: its head has the checkpoint's own number."""
VISIT_COUNTS = (*(kind for kind in KINDS if kind != "blocked"), "held", "held_before", "state_bytes")
MOST_ROWS = 1 << 16
"""Rows that the packing step gathers before it divides them by shard, and rows of one packed row on the way out."""


def packer(arrival: str, first: int | None) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that packs a partition: one row per shard; the first column of a table says it.

    Rows that have no arrival get the order in which they are read. Shard `first` is visited in every micro-batch, so
    that a stream with another number of shards than its checkpoint is refused at once.
    """

    def pack(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        read, count = partition << 40, 0
        gathered: list[pa.RecordBatch] = []
        for batch in rows:
            if arrival == READ_ORDER:
                order = pa.array(np.arange(read, read + len(batch)))
                batch = pa.RecordBatch.from_arrays([*batch.columns, order], names=[*batch.schema.names, READ_ORDER])
                read += len(batch)
            gathered.append(in_utc(batch))
            count += len(batch)
            if count >= MOST_ROWS:
                yield _packed(gathered)
                gathered, count = [], 0
        if count:
            yield _packed(gathered)
        if first is not None and partition == 0:
            yield pa.RecordBatch.from_arrays([pa.array([first], pa.int32()), pa.nulls(1, pa.binary())], [SHARD, PACKED])

    return pack


def _packed(tables: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return one row per shard: the shard, and its rows as bytes."""
    table = tables[0] if len(tables) == 1 else pa.concat_batches(tables)
    shards = table.column(0).to_numpy()
    order = np.argsort(shards, kind="stable")
    shards = shards[order]
    rows = table.drop_columns([SHARD]).take(pa.array(order))
    starts = np.flatnonzero(np.concatenate([[True], shards[1:] != shards[:-1]]))
    stops = np.append(starts[1:], len(shards)).tolist()
    blobs = [ipc(rows.slice(start, stop - start)) for start, stop in zip(starts.tolist(), stops, strict=True)]
    return pa.RecordBatch.from_arrays(
        [pa.array(shards[starts], pa.int32()), pa.array(blobs, pa.binary())], [SHARD, PACKED]
    )


def unpack_rows(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of packed rows."""
    for batch in rows:
        for blob in batch.column(0):
            if blob.is_valid:
                yield from pa.ipc.open_stream(blob.as_buffer())


@dataclass(frozen=True)
class Visits:
    """The arguments of every visit of a shard."""

    terms: DeliveryTerms
    options: StreamOptions
    schema: pa.Schema
    keys: pa.Schema
    """The columns that say the key, as they travel"""
    arrival: str
    shards: int

    def take(
        self, head: bytes | None, store: SegmentStore, blobs: list[bytes], moment: int
    ) -> tuple[Shard, list[pa.RecordBatch], int]:
        """Take rows, then operators' commands, then time-outs; also return how many rows were held before."""
        with without_collection():
            return self._take(head, store, blobs, moment)

    def _take(
        self, head: bytes | None, store: SegmentStore, blobs: list[bytes], moment: int
    ) -> tuple[Shard, list[pa.RecordBatch], int]:
        shard = shard_memory.opened(head, store, Shard(self.terms, self.schema, self.keys, self.shards))
        held = shard.held.count
        tables = [table for blob in blobs for table in batches(blob)]
        for table in tables:
            if KNOWN in table.schema.names:
                shard.know_before(table, moment)
        rows = [table for table in tables if not {ACTION, KNOWN} & set(table.schema.names)]
        out: list[pa.RecordBatch | None] = []
        if rows:
            names = rows[0].schema.names
            order = [self.arrival]
            if self.arrival != READ_ORDER and self.terms.columns.message in names:
                order.append(self.terms.columns.message)  # the place where a row was read gives its key
            drop = [name for name in names if name not in self.schema.names]
            out.append(shard.arrive(pa.concat_batches(rows), order, drop, moment))
        commands = {
            tuple(row.values()) for table in tables if ACTION in table.schema.names for row in table.to_pylist()
        }
        for *key, action, cause in sorted(commands, key=str):
            number = shard.number(tuple(key))
            shard.touched[number] = None
            drain = action == DRAIN
            out.append(shard.flush(number, BY_HAND) if drain else shard.give_up(number, cause or "", BY_HAND))
        out += self._too_long(shard, moment)
        return shard, [batch for batch in out if batch is not None], held

    def _too_long(self, shard: Shard, moment: int) -> Iterator[pa.RecordBatch | None]:
        """Release rows that were held for too long, or all of an idle key; forget keys that have finished."""
        wait, idle, ttl = self.options.wait_seconds, self.options.idle_seconds, self.options.ttl_seconds
        for number in shard.expired(moment, self.when) if self.options.timed else ():
            last, rule = shard.last[number], shard.rules[number]
            if wait is not None:
                yield shard.flush(number, f"after {wait:g} s of waiting", moment - _ms(wait))
            if idle is not None and moment >= last + _ms(idle):
                yield shard.flush(number, f"since nothing came for {idle:g} s")
            if ttl is not None and not rule.held and moment >= last + _ms(ttl):
                shard.retire(number)

    def when(self, last: int, came_first: int | None) -> int | None:
        """Return when a key is due, given when its last row came and when the one came that is held longest."""
        wait, idle, ttl = self.options.wait_seconds, self.options.idle_seconds, self.options.ttl_seconds
        times = []
        if came_first is not None:
            times += [] if wait is None else [came_first + _ms(wait)]
            times += [] if idle is None else [last + _ms(idle)]
        elif ttl is not None:
            times.append(last + _ms(ttl))
        return min(times, default=None)

    def leave(self, shard: Shard, store: SegmentStore, out: list[pa.RecordBatch], held: int) -> pd.DataFrame:
        """Write the shard; return the rows that leave, packed, and the numbers of this visit."""
        oldest = shard.oldest_seconds()
        with without_collection():
            shard.write(store)
        numbers = dict.fromkeys(VISIT_COUNTS, 0)
        for batch in out:
            for counted in pc.value_counts(batch.column("outcome")).to_pylist():
                numbers[counted["values"]] += counted["counts"]
        numbers |= {"held": shard.held.count, "held_before": held, "state_bytes": shard.written}
        values = [*(float(numbers[name]) for name in VISIT_COUNTS), oldest]
        slices = [batch.slice(at, MOST_ROWS) for batch in out for at in range(0, len(batch), MOST_ROWS)]
        columns = np.empty((max(1, len(slices)), 2), object)
        columns[: len(slices), 0] = [ipc(each) for each in slices]
        columns[0, 1] = values
        return pd.DataFrame(columns, columns=[PACKED, NUMBERS], copy=False)

    def keep(self, shard: Shard) -> None:
        """Keep a shard in memory, as it was written."""
        shard_memory.keep(shard)


def _ms(seconds: float) -> int:
    return int(1000 * seconds)
