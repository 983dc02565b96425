"""Delivery in a stream: packed transport around the stored state of each key.

Law. One micro-batch after the other, a key's rows go through its state in the order of arrival; `StoredKey` (a blob and
sealed parts) is the only state. Spark commits input offsets, state and output together, so that after a crash the sink
shows what an undisturbed run shows. An operator's word to give up comes through a source of its own, so that offsets
say which micro-batch heard it. No watermark may reach the stateful step: Spark would drop late rows before we see them,
and late rows are what this is for.

Transport is what costs, so rows travel packed: one binary row per key and partition on the way in, one per key on the
way out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    MapState,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DoubleType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from thence.errors import Argument, MisuseError
from thence.tables.delivery.arrow_rows import in_utc
from thence.tables.delivery.columns import Columns, Key
from thence.tables.delivery.key_state import Setup
from thence.tables.delivery.orderer import BY_HAND
from thence.tables.delivery.outcome import KINDS
from thence.tables.delivery.partition_by_key import by_key, in_order
from thence.tables.delivery.stored_key import StoredKey, made_with
from thence.tables.engines.spark.deliver import READ_ORDER, column, output_schema
from thence.tables.engines.spark.stream_options import StreamOptions
from thence.tables.engines.spark.versions import arrow_schema

PACKED, ACTION, CAUSE = "__thence_rows", "__thence_action", "__thence_cause"
"""Columns beside the key on the way to the stateful step: no key of a caller has such names."""
TOLD = "__thence_told"
"""On the way out, beside the packed rows: a number for each of `COUNTS`, and how long the row held longest has waited;
one column, since each costs a key of a few rows more than its rows."""
LEAVING = pd.Index([PACKED, TOLD])
DRAIN, GIVE_UP = "drain", "give up"
CHATTY = "pyspark.sql.streaming.transform_with_state_driver_worker"
"""What Spark runs once for each query, to open its state; it prints what it does, and Java shows that to the user."""
BLOB = StructType([StructField("blob", BinaryType())])
PART_NAME = StructType([StructField("name", StringType())])
MOST_ROWS = 1 << 16
"""Rows that the packing step gathers before it parts them by key."""
WATERMARK = "spark.watermarkDelayMs"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
COUNTS = (*(kind for kind in KINDS if kind != "blocked"), "held", "held_before", "state_bytes")
METRICS = "thence"
"""The name of the observed metrics in a query's progress."""


def deliver_stream(arrivals: DataFrame, setup: Setup, options: StreamOptions) -> DataFrame:
    """Return the stream of rows that leave."""
    _refuse(arrivals, setup, options)
    names = setup.columns
    schema = output_schema(arrivals.schema, names)
    keys, table = _keyed(arrivals, names)
    packed_schema = StructType([*keys, StructField(PACKED, BinaryType())])
    arrival = names.arrival if names.arrival in arrivals.columns else READ_ORDER
    packed = table.mapInArrow(packer(names.key, arrival, names.message), packed_schema)
    no_word = [F.lit(None).cast("string").alias(ACTION), F.lit(None).cast("string").alias(CAUSE)]
    packed = packed.select(*map(column, packed.columns), *no_word)
    if options.give_up is not None:
        packed = packed.unionByName(_told(arrivals, keys, options.give_up))
    out_schema = StructType([StructField(PACKED, BinaryType()), StructField(TOLD, ArrayType(DoubleType()))])
    rows_schema = arrow_schema(arrivals.schema)
    stepped = packed.groupBy(*map(column, names.key)).transformWithStateInPandas(
        statefulProcessor=Processor(setup, arrival, options, rows_schema),
        outputStructType=out_schema,
        outputMode="Append",
        timeMode="ProcessingTime" if options.timed else "None",
    )
    numbers = [F.col(TOLD)[place] for place in range(len(COUNTS) + 1)]
    sums = [F.sum(numbers[place].cast("long")).alias(name) for place, name in enumerate(COUNTS)]
    observed = stepped.observe(METRICS, *sums, F.max(numbers[-1]).alias("oldest_seconds"))
    return observed.select(PACKED).mapInArrow(unpack, schema)


def _refuse(arrivals: DataFrame, setup: Setup, options: StreamOptions) -> None:
    for field in arrivals.schema.fields:
        if WATERMARK in field.metadata:
            raise MisuseError(
                f"the arrivals carry a watermark on {field.name!r}: Spark would drop late rows before they are seen "
                "here, and nothing may be dropped. Call deliver before withWatermark; ",
                Argument("policy", "release"), " with ", Argument("after_seconds"), " bounds the wait by event time",
            )  # fmt: skip
    if setup.policy.needs_an_end():
        raise MisuseError(
            Argument("policy", "fail"), " needs ", Argument("after_rows"), " or ", Argument("after_seconds"),
            " in a stream, which has no end",
        )  # fmt: skip
    options.check(setup.policy, setup.by)
    provider = arrivals.sparkSession.conf.get(PROVIDER, "")
    if provider is None or "RocksDB" not in provider:
        raise MisuseError(f"a stream needs the RocksDB state store: spark.conf.set({PROVIDER!r}, {ROCKSDB!r})")


def _keyed(arrivals: DataFrame, names: Columns) -> tuple[list[StructField], DataFrame]:
    """Return the key as it travels, before the rows: a key of structs, lists or maps travels as JSON."""
    fields = {field.name: field for field in arrivals.schema.fields}
    keys: list[StructField] = []
    columns: list[Column] = []
    for name in names.key:
        nested = isinstance(fields[name].dataType, StructType | ArrayType | MapType | VariantType)
        keys.append(StructField(name, StringType() if nested else fields[name].dataType))
        columns.append((F.to_json(column(name)) if nested else column(name)).alias(f"__key_{len(columns)}"))
    return keys, arrivals.select(*columns, *map(column, arrivals.columns))


def _told(arrivals: DataFrame, keys: list[StructField], folder: str) -> DataFrame:
    """Return what operators say, as rows beside the packed ones."""
    if "://" not in folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
    words = StructType([*keys, StructField(ACTION, StringType()), StructField(CAUSE, StringType())])
    lines = arrivals.sparkSession.readStream.schema(words).json(folder)
    nothing = F.lit(None).cast("binary").alias(PACKED)
    return lines.select(*[column(field.name) for field in keys], nothing, ACTION, CAUSE)


# -- packed rows -------------------------------------------------------------------------------------------------------


def packer(key: tuple[str, ...], arrival: str, message: str) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Return the function that packs a partition: one row per key, its rows in the order of arrival.

    The first columns are the key as it travels. Rows that have no arrival get the order in which they are read.
    """

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        read = (0 if context is None else context.partitionId()) << 40
        gathered: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            if arrival == READ_ORDER:
                order = pa.array(np.arange(read, read + len(batch)))
                batch = pa.RecordBatch.from_arrays([*batch.columns, order], names=[*batch.schema.names, READ_ORDER])
                read += len(batch)
            gathered.append(in_utc(batch))
            rows += len(batch)
            if rows >= MOST_ROWS:
                yield _packed(gathered, key, arrival, message)
                gathered, rows = [], 0
        if rows:
            yield _packed(gathered, key, arrival, message)

    return pack


def _packed(batches: list[pa.RecordBatch], key: tuple[str, ...], arrival: str, message: str) -> pa.RecordBatch:
    """Return one row per key: the key, and its rows as bytes."""
    table = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    keys = table.columns[: len(key)]
    rows = pa.RecordBatch.from_arrays(table.columns[len(key) :], names=table.schema.names[len(key) :])
    firsts, blobs = list[int](), list[bytes]()
    for place, own in by_key(rows, keys, order_of(rows, arrival, message)):
        firsts.append(place)
        blobs.append(ipc(own))
    columns = [*(values.take(pa.array(firsts)) for values in keys), pa.array(blobs, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=[*key, PACKED])


def order_of(rows: pa.RecordBatch, arrival: str, message: str) -> list[str]:
    """Return the columns that say the order of rows; where a row was read says it all."""
    return [arrival] if arrival == READ_ORDER or message not in rows.schema.names else [arrival, message]


def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of packed rows."""
    for batch in batches:
        for blob in batch.column(0):
            if blob.is_valid:
                yield from pa.ipc.open_stream(blob.as_buffer())


def ipc(*batches: pa.RecordBatch) -> bytes:
    """Return rows as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def sorted_rows(blobs: list[bytes], arrival: str, message: str) -> pa.RecordBatch:
    """Return the rows of packed rows of one key, in the order of arrival."""
    batches = [batch for blob in blobs for batch in pa.ipc.open_stream(blob)]
    table = batches[0]
    if len(batches) > 1:
        table = pa.concat_batches(batches)
        table = table.take(pa.array(in_order(table, order_of(table, arrival, message))))
    return table.drop_columns([READ_ORDER]) if arrival == READ_ORDER else table


# -- the stateful step -------------------------------------------------------------------------------------------------


class MapParts:
    """The sealed parts of the key at hand, in a map of Spark's state store."""

    def __init__(self, state: MapState) -> None:
        """Take the map."""
        self.state = state

    def get(self, name: str) -> bytes | None:
        """Return a part, if it is there."""
        found = self.state.getValue((name,))
        return None if found is None else bytes(found[0])

    def put(self, name: str, data: bytes) -> None:
        """Write a part."""
        self.state.updateValue((name,), (data,))

    def delete(self, name: str) -> None:
        """Remove a part."""
        self.state.removeKey((name,))


class Processor(StatefulProcessor):
    """The stateful step: each key's stored state, its rows, its timer."""

    def __init__(self, setup: Setup, arrival: str, options: StreamOptions, schema: pa.Schema) -> None:
        """Take what every key is told."""
        self.setup, self.arrival, self.options, self.schema = setup, arrival, options, schema

    def __setstate__(self, state: dict[str, object]) -> None:
        """Arrive at a worker; the one beside the driver would tell the terminal of its every step."""
        self.__dict__.update(state)
        spec = sys.modules["__main__"].__spec__
        if spec is not None and spec.name == CHATTY:
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # for as long as it lives

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self.handle = handle
        self.blob = handle.getValueState("state", BLOB)
        self.parts = handle.getMapState("parts", PART_NAME, BLOB)
        self.made = made_with(self.setup, self.schema)

    def handleInputRows(  # type: ignore[override]  # frames alone: it is a step in pandas
        self, key: Key, rows: Iterator[pd.DataFrame], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        """Take a key's rows of one micro-batch, then what operators say of it, then what has waited too long."""
        blobs: list[bytes] = []
        words: list[tuple[str, str | None]] = []
        for frame in rows:
            for *_, packed, action, cause in frame.to_numpy(object).tolist():
                blobs += [] if packed is None else [packed]
                words += [(action, cause)] if isinstance(action, str) else []  # pandas 3 has NaN in place of None
        table = sorted_rows(blobs, self.arrival, self.setup.columns.message) if blobs else None
        stored = self._stored(key if table is None else self._key(table))
        before = len(stored.state)
        moment = self._now(timerValues)
        out = [] if table is None else [stored.state.take(table, moment)]
        if table is not None:
            stored.last = moment
        for what, lost in sorted(words, key=str):
            let_go = stored.state.flush(BY_HAND) if what == DRAIN else stored.state.give_up(lost or "", BY_HAND)
            out += [let_go] if let_go is not None else []
        out += self._too_long(stored, moment)
        yield self._leave(stored, out, before)
        self._set_timer(stored, moment)

    def handleExpiredTimer(
        self, key: Key, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[pd.DataFrame]:
        """Let go what has waited too long, or forget a key that has finished."""
        stored, moment = self._stored(key), self._now(timerValues)
        before = len(stored.state)
        out = self._too_long(stored, moment)
        if out:
            yield self._leave(stored, out, before)
        ttl = self.options.ttl_seconds
        if ttl is not None and not len(stored.state) and moment >= stored.last + _ms(ttl):
            stored.clear()
            self.blob.clear()
            return
        self._set_timer(stored, moment)

    def close(self) -> None:
        """Nothing to close."""

    def _now(self, timer_values: TimerValues) -> int:
        return int(timer_values.getCurrentProcessingTimeInMs()) if self.options.timed else 0

    def _key(self, table: pa.RecordBatch) -> Key:
        """Return the key as the rows say it: on the way a null may have become something else."""
        return tuple(table.column(name)[0].as_py() for name in self.setup.columns.key)

    def _stored(self, key: Key) -> StoredKey:
        state = self.blob.get() if self.blob.exists() else None
        blob = None if state is None else bytes(state[0])
        return StoredKey(self.setup, tuple(key), self.schema, blob, MapParts(self.parts), self.made)

    def _too_long(self, stored: StoredKey, moment: int) -> list[pa.RecordBatch]:
        """Let go rows that have been held for too long, or all of a key that has fallen idle."""
        out = []
        wait, idle = self.options.wait_seconds, self.options.idle_seconds
        if wait is not None:
            out.append(stored.state.flush(f"after {wait:g} s of waiting", moment - _ms(wait)))
        if idle is not None and moment >= stored.last + _ms(idle):
            out.append(stored.state.flush(f"since nothing came for {idle:g} s"))
        return [batch for batch in out if batch is not None]

    def _set_timer(self, stored: StoredKey, moment: int) -> None:
        """Have the key looked at again when the next of its times is up."""
        if not self.options.timed:
            return
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        wait, idle, ttl = self.options.wait_seconds, self.options.idle_seconds, self.options.ttl_seconds
        times = []
        if len(stored.state):
            times += [] if wait is None else [stored.state.came_first() + _ms(wait)]
            times += [] if idle is None else [stored.last + _ms(idle)]
        elif ttl is not None:
            times.append(stored.last + _ms(ttl))
        if times:
            self.handle.registerTimer(max(min(times), moment + 1))

    def _leave(self, stored: StoredKey, out: list[pa.RecordBatch], before: int) -> pd.DataFrame:
        blob = stored.blob()
        self.blob.update((blob,))
        out = [batch for batch in out if len(batch)]
        kinds = dict.fromkeys(COUNTS, 0)
        for batch in out:
            for kind in batch.column("outcome").to_pylist():
                kinds[kind] += 1
        kinds |= {"held": len(stored.state), "held_before": before, "state_bytes": stored.written}
        numbers = [*(float(kinds[name]) for name in COUNTS), stored.state.oldest_seconds()]
        columns = np.empty((1, 2), object)
        columns[0, 0], columns[0, 1] = ipc(*out) if out else None, numbers
        return pd.DataFrame(columns, columns=LEAVING, copy=False)


def _ms(seconds: float) -> int:
    return int(1000 * seconds)
