"""Delivery in a stream: keys in shards, packed transport around the state of each shard.

*Invariant.* One micro-batch after the other, a key's rows go through its state in the order of arrival. Spark commits
input offsets, state and output together, so that after a crash the sink shows what an undisturbed run shows. An
operator's give-up command comes through a source of its own, so that offsets say which micro-batch took it. No
watermark may reach the stateful step: Spark would drop late rows before we see them.

A visit of the stateful step costs at least milliseconds, so keys are grouped into shards by their hash, and
rows travel packed: one binary row per shard and partition on the way in, one per shard on the way out. The state of a
shard is in `tables/delivery/shard.py`, a visit in `shard_visit.py`, Spark's interface to it in `stream_step.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DoubleType, IntegerType, StringType, StructField, StructType

from thence.errors import Argument, MisuseError
from thence.tables.delivery.delivery_terms import DeliveryTerms
from thence.tables.delivery.many_keys import KNOWN
from thence.tables.engines.spark.deliver import column, output_schema, with_key
from thence.tables.engines.spark.shard_visit import (
    ACTION,
    ALWAYS_VISITED,
    CAUSE,
    NUMBERS,
    PACKED,
    SHARD,
    VISIT_COUNTS,
    Visits,
    packer,
    unpack_rows,
)
from thence.tables.engines.spark.stream_options import READ_ORDER, StreamOptions
from thence.tables.engines.spark.stream_step import Processor
from thence.tables.engines.spark.versions import as_arrow, check_stateful, values_by_partition

WATERMARK = "spark.watermarkDelayMs"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
METRICS = "thence"
"""The name of the observed metrics in a query's progress."""
PACKED_ROWS = StructType([StructField(SHARD, IntegerType()), StructField(PACKED, BinaryType())])
LEAVING = StructType([StructField(PACKED, BinaryType()), StructField(NUMBERS, ArrayType(DoubleType()))])


def deliver_stream(
    arrivals: DataFrame, terms: DeliveryTerms, options: StreamOptions, known: DataFrame | None = None
) -> DataFrame:
    """Return the stream of rows that leave; `known`: ids that its state begins with."""
    _refuse(arrivals, terms, options)
    names, session = terms.columns, arrivals.sparkSession
    shards = options.shards or int(session.conf.get("spark.sql.shuffle.partitions") or 1)
    table, keys, _ = with_key(arrivals, names)
    arrival = names.arrival if names.arrival in arrivals.columns else READ_ORDER
    sharded = table.select(shard_of(keys, shards), *map(column, table.columns))
    packed = sharded.mapInArrow(packer(arrival, ALWAYS_VISITED), PACKED_ROWS)
    key_schema = StructType([table.schema[name] for name in keys])
    if options.commands is not None:
        packed = packed.unionByName(_commands(arrivals, key_schema, names.key, options.commands, shards))
    visits = Visits(terms, options, as_arrow(arrivals.schema), as_arrow(key_schema), arrival, shards)
    stepped = packed.groupBy(SHARD).transformWithStateInPandas(
        statefulProcessor=Processor(visits),
        outputStructType=LEAVING,
        outputMode="Append",
        timeMode="ProcessingTime" if options.timed else "None",
        initialState=None if known is None else _packed_known(known, terms, shards).groupBy(SHARD),
    )
    numbers = [F.col(NUMBERS)[place] for place in range(len(VISIT_COUNTS) + 1)]
    sums = [F.sum(numbers[place].cast("long")).alias(name) for place, name in enumerate(VISIT_COUNTS)]
    observed = stepped.observe(METRICS, *sums, F.max(numbers[-1]).alias("oldest_seconds"))
    return observed.select(PACKED).mapInArrow(unpack_rows, output_schema(arrivals.schema, names, timed=options.timed))


def _packed_known(known: DataFrame, terms: DeliveryTerms, shards: int) -> DataFrame:
    """Return known ids, packed like rows."""
    table, keys, _ = with_key(known, terms.columns)
    ids = [name for name in (terms.columns.message,) if name not in keys]
    sharded = table.select(shard_of(keys, shards), *map(column, [*keys, *ids]), F.lit(0).alias(KNOWN))
    return sharded.mapInArrow(packer("", None), PACKED_ROWS)


def shard_of(keys: Sequence[str], shards: int) -> Column:
    """Return the column that says the shard of a row, as a number that leads Spark to a partition of its own."""
    values = F.expr(f"array({', '.join(map(str, values_by_partition(shards)))})")
    return F.element_at(values, (F.pmod(F.hash(*map(column, keys)), F.lit(shards)) + 1).cast("int")).alias(SHARD)


def _refuse(arrivals: DataFrame, terms: DeliveryTerms, options: StreamOptions) -> None:
    check_stateful(arrivals)
    for field in arrivals.schema.fields:
        if WATERMARK in field.metadata:
            raise MisuseError(
                f"the arrivals carry a watermark on {field.name!r}: Spark would drop late rows before they are seen "
                "here, and nothing may be dropped. Call deliver before withWatermark; ",
                Argument("policy", "release"), " with ", Argument("after_seconds"), " bounds the wait by event time",
            )  # fmt: skip
    if terms.policy.needs_an_end():
        raise MisuseError(
            Argument("policy", "fail"), " needs ", Argument("after_rows"), " or ", Argument("after_seconds"),
            " in a stream, which has no end",
        )  # fmt: skip
    options.check(terms.policy, terms.by)
    provider = arrivals.sparkSession.conf.get(PROVIDER, "")
    if provider is None or "RocksDB" not in provider:
        raise MisuseError(f"a stream needs the RocksDB state store: spark.conf.set({PROVIDER!r}, {ROCKSDB!r})")


def _commands(arrivals: DataFrame, keys: StructType, names: Sequence[str], folder: str, shards: int) -> DataFrame:
    """Return the operators' give-up commands, packed like rows."""
    if "://" not in folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
    fields = [StructField(name, field.dataType) for name, field in zip(names, keys.fields, strict=True)]
    schema = StructType([*fields, StructField(ACTION, StringType()), StructField(CAUSE, StringType())])
    lines = arrivals.sparkSession.readStream.schema(schema).json(folder)
    return lines.select(shard_of(names, shards), *map(column, lines.columns)).mapInArrow(packer("", None), PACKED_ROWS)
