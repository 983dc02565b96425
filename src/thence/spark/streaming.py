"""Delivery in a stream: packed transport around one blob of state per key.

Law. One micro-batch after the other, a key's rows go through its desk in the order of arrival; the desk's blob (state
and held rows) is the only state. Spark commits input offsets, state and output together, so that after a crash the
sink shows what an undisturbed run shows. No watermark may reach the stateful step: Spark would drop late rows before
we see them, and late rows are what this is for.

Transport is what costs, so rows travel packed: one binary row per key and partition on the way in, one per key on the
way out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, DoubleType, LongType, StructField, StructType

from thence.delivery.columns import Columns
from thence.delivery.outcome import KINDS
from thence.errors import MisuseError
from thence.spark.delivering import READ_ORDER, ordered_by_reading, output_schema
from thence.spark.desk import Desk, Setup

PACKED = "__thence_rows"
BLOB = StructType([StructField("blob", BinaryType())])
MOST_ROWS = 1 << 16
"""Rows that the packing step gathers before it parts them by key."""
WATERMARK = "spark.watermarkDelayMs"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
COUNTS = (*(kind for kind in KINDS if kind != "blocked"), "held", "held_before", "state_bytes")
METRICS = "thence"
"""The name of the observed metrics in a query's progress."""


def deliver_stream(arrivals: DataFrame, setup: Setup, idle_seconds: float | None = None) -> DataFrame:
    """Return the stream of rows that leave."""
    _refuse(arrivals, setup, idle_seconds)
    schema = output_schema(arrivals.schema)
    names = setup.columns
    table, arrival = ordered_by_reading(arrivals, names)
    keys = [field for field in arrivals.schema.fields if field.name in names.key]
    keys.sort(key=lambda field: names.key.index(field.name))
    packed_schema = StructType([*keys, StructField(PACKED, BinaryType())])
    packed = table.mapInArrow(packer(names.key, arrival), packed_schema)
    counts = [StructField(f"__{name}", LongType()) for name in COUNTS]
    out_schema = StructType([*keys, StructField(PACKED, BinaryType()), *counts, StructField("__oldest", DoubleType())])
    stepped = packed.groupBy(*[F.col(f"`{name}`") for name in names.key]).transformWithStateInPandas(
        statefulProcessor=Processor(setup, arrival, idle_seconds),
        outputStructType=out_schema,
        outputMode="Append",
        timeMode="None" if idle_seconds is None else "ProcessingTime",
    )
    sums = [F.sum(f"__{name}").alias(name) for name in COUNTS]
    observed = stepped.observe(METRICS, *sums, F.max("__oldest").alias("oldest_seconds"))
    return observed.select(PACKED).mapInArrow(unpack, schema)


def _refuse(arrivals: DataFrame, setup: Setup, idle_seconds: float | None) -> None:
    for field in arrivals.schema.fields:
        if WATERMARK in field.metadata:
            raise MisuseError(
                f"the arrivals carry a watermark on {field.name!r}: Spark would drop late rows before they are seen "
                "here, and nothing may be dropped. Call deliver before withWatermark; policy='release' with "
                "after_seconds bounds the wait by event time"
            )
    if setup.policy.needs_an_end():
        raise MisuseError("policy='fail' needs after_rows or after_seconds in a stream, which has no end")
    if idle_seconds is not None and not (idle_seconds > 0 and setup.policy.name == "release"):
        raise MisuseError("idle_seconds is a number of seconds above 0 and goes with policy='release'")
    provider = arrivals.sparkSession.conf.get(PROVIDER, "")
    if provider is None or "RocksDB" not in provider:
        raise MisuseError(f"a stream needs the RocksDB state store: spark.conf.set({PROVIDER!r}, {ROCKSDB!r})")


def packer(key: tuple[str, ...], arrival: str) -> Any:
    """Return the function that packs a partition: one row per key, its rows in the order of arrival."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gathered: list[Any] = []
        rows = 0
        for batch in batches:
            gathered.append(batch)
            rows += len(batch)
            if rows >= MOST_ROWS:
                yield _packed(gathered, key, arrival)
                gathered, rows = [], 0
        if rows:
            yield _packed(gathered, key, arrival)

    return pack


def _packed(batches: list[Any], key: tuple[str, ...], arrival: str) -> Any:
    """Part rows by key with one sort."""
    table = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    code = np.zeros(len(table), np.int64)
    for name in key:
        coded = pc.dictionary_encode(table.column(name), null_encoding="encode")
        code = code * max(len(coded.dictionary), 1) + coded.indices.to_numpy(zero_copy_only=False)
    order = pc.sort_indices(
        pa.table({"code": code, "arrival": table.column(arrival)}),
        sort_keys=[("code", "ascending"), ("arrival", "ascending")],
    )
    table = table.take(order)
    code = code[order.to_numpy()]
    starts = np.flatnonzero(np.concatenate([[True], code[1:] != code[:-1]]))
    ends = np.append(starts[1:], len(code))
    blobs = [_ipc(table.slice(start, end - start)) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    firsts = table.take(pa.array(starts))
    columns = [*(firsts.column(name) for name in key), pa.array(blobs, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=[*key, PACKED])


def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of packed rows."""
    for batch in batches:
        for blob in batch.column(0):
            if blob.is_valid:
                yield from pa.ipc.open_stream(blob.as_buffer())


def _ipc(batch: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def sorted_rows(blobs: list[Any], arrival: str, names: Columns) -> Any:
    """Return the rows of packed rows of one key, in the order of arrival."""
    batches = [batch for blob in blobs for batch in pa.ipc.open_stream(blob)]
    table = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    if len(batches) > 1 or names.message in table.schema.names:
        keys = {"arrival": table.column(arrival)}
        if names.message in table.schema.names and pa.types.is_primitive(table.column(arrival).type):
            keys["message"] = table.column(names.message)
        ties = len(keys) > 1 and len(pc.unique(keys["arrival"])) < len(table)
        if len(batches) > 1 or ties:
            by = [("arrival", "ascending"), *([("message", "ascending")] if ties else [])]
            table = table.take(pc.sort_indices(pa.table(keys), sort_keys=by))
    return table.drop_columns([READ_ORDER]) if arrival == READ_ORDER else table


class Processor(StatefulProcessor):
    """The stateful step: a desk per key, kept as one blob."""

    def __init__(self, setup: Setup, arrival: str, idle_seconds: float | None) -> None:
        """Take what every key is told."""
        self.setup, self.arrival, self.idle_seconds = setup, arrival, idle_seconds

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self.handle = handle
        self.blob = handle.getValueState("state", BLOB)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[pd.DataFrame]:
        """Take a key's rows of one micro-batch."""
        blobs = [blob for frame in rows for blob in frame.iloc[:, -1]]
        desk, before = self._desk(key)
        out = desk.take(sorted_rows(blobs, self.arrival, self.setup.columns))
        yield self._leave(key, desk, out, before)
        if self.idle_seconds is not None:
            for timer in list(self.handle.listTimers()):
                self.handle.deleteTimer(timer)
            if desk.held is not None and len(desk.held):
                now = timerValues.getCurrentProcessingTimeInMs()
                self.handle.registerTimer(now + int(1000 * self.idle_seconds))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        """Let an idle key's rows go."""
        desk, before = self._desk(key)
        out = desk.flush(f"since nothing came for {self.idle_seconds:g} s")
        if out is not None:
            yield self._leave(key, desk, out, before)

    def close(self) -> None:
        """Nothing to close."""

    def _desk(self, key: Any) -> tuple[Desk, int]:
        state = self.blob.get() if self.blob.exists() else None
        desk = Desk(self.setup, tuple(key), None if state is None else bytes(state[0]))
        return desk, 0 if desk.held is None else len(desk.held)

    def _leave(self, key: Any, desk: Desk, out: Any, before: int) -> pd.DataFrame:
        blob = desk.dump()
        self.blob.update((blob,))
        frame: dict[str, Any] = {name: [value] for name, value in zip(self.setup.columns.key, tuple(key), strict=True)}
        frame[PACKED] = [_ipc(out) if len(out) else None]
        kinds = {str(pair["values"]): int(pair["counts"].as_py()) for pair in pc.value_counts(out.column("outcome"))}
        for name in COUNTS:
            frame[f"__{name}"] = [kinds.get(name, 0)]
        frame["__held"] = [len(desk.held)]
        frame["__held_before"] = [before]
        frame["__state_bytes"] = [len(blob)]
        frame["__oldest"] = [desk.oldest_seconds()]
        return pd.DataFrame(frame)
