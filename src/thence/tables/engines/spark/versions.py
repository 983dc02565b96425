"""Differences between versions of Spark since 4.0; no other module asks for the version.

Invariant. Answers are the same on every version. What a Spark lacks is seen from its functions, not from its number:
vendors take functions over before their number changes. On 4.0 a grouped operator holds the rows of a group in memory
at once; from 4.1 on it takes them batch by batch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache

import pyarrow as pa
from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructType
from pyspark.util import PythonEvalType

from thence.errors import MisuseError

Batches = Iterator[pa.RecordBatch]
GroupFunction = Callable[[tuple[pa.Scalar, ...], Batches], Batches]

TAKES_BATCHES = hasattr(PythonEvalType, "SQL_GROUPED_MAP_ARROW_ITER_UDF")
"""Grouped operators take a group batch by batch (4.1)."""
HAS_BY_ID = hasattr(DataFrame, "repartitionById")
"""A column can say the number of a row's partition (4.1)."""
SAYS_ZONE = "timezone" in inspect.signature(to_arrow_schema).parameters
"""Schemas say the zone of moments (4.2); before, it was UTC."""
SEED = 42
"""Of the hash by which Spark places rows."""


def as_arrow(schema: StructType) -> pa.Schema:
    """Return a schema in Arrow, moments in UTC."""
    return to_arrow_schema(schema, timezone="UTC") if SAYS_ZONE else to_arrow_schema(schema)


def check_stateful(arrivals: DataFrame) -> None:
    """Refuse a stream where the client has no stateful step: through Connect before 4.1."""
    if not hasattr(arrivals.groupBy(), "transformWithStateInPandas"):
        raise MisuseError(
            "Spark Connect has stateful streams (transformWithStateInPandas) from Spark 4.1 on, and this client is "
            "older. Deliver the stream with Spark 4.1 or newer, or in a session without Connect"
        )


def apply_to_groups(groups: GroupedData, work: GroupFunction, schema: StructType | str) -> DataFrame:
    """Return the results of `work` on the batches of each group, whose rows keep their order."""
    if not TAKES_BATCHES:
        kind = DataType.fromDDL(schema) if isinstance(schema, str) else schema
        assert isinstance(kind, StructType)
        return groups.applyInArrow(on_tables(work, as_arrow(kind)), schema)

    def on_batches(key: tuple[pa.Scalar, ...], batches: Batches) -> Batches:
        return work(key, batches)

    # Spark passes what the annotations say; texts, which they are here, it does not look up everywhere.
    on_batches.__annotations__ = {"key": tuple[pa.Scalar, ...], "batches": Batches, "return": Batches}
    return groups.applyInArrow(on_batches, schema)


def on_tables(work: GroupFunction, schema: pa.Schema) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    """Return work on batches as work on whole groups; `schema` is for groups of which nothing comes out."""

    def on_table(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        batches = list(work(key, iter(table.to_batches())))
        return pa.Table.from_batches(batches) if batches else schema.empty_table()

    return on_table


def repartition_by_id(frame: DataFrame, count: int, number: Column) -> DataFrame:
    """Return the frame in `count` partitions; `number`, from 0, says the one of each row."""
    number = number.cast("int")
    if HAS_BY_ID:
        return frame.repartitionById(count, number)
    stand_ins = F.expr(f"array({', '.join(map(str, values_by_partition(count)))})")
    return frame.repartition(count, F.element_at(stand_ins, number + 1))


@cache
def values_by_partition(count: int) -> tuple[int, ...]:
    """Return for each partition, of `count`, a number whose hash leads there."""
    found: dict[int, int] = {}
    value = 0
    while len(found) < count:
        found.setdefault(spark_hash(value) % count, value)
        value += 1
    return tuple(found[partition] for partition in range(count))


def spark_hash(value: int) -> int:
    """Return the `hash` of Spark SQL for a non-negative `int`: Murmur3, x86, 32 bits."""
    mixed = SEED ^ _turned(value * 0xCC9E2D51, 15) * 0x1B873593 & 0xFFFFFFFF
    mixed = _turned(mixed, 13) * 5 + 0xE6546B64 & 0xFFFFFFFF
    mixed ^= 4  # bytes of an int
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        mixed = (mixed ^ mixed >> shift) * factor & 0xFFFFFFFF
    return mixed - (mixed >> 31 << 32)


def _turned(value: int, by: int) -> int:
    value &= 0xFFFFFFFF
    return (value << by | value >> 32 - by) & 0xFFFFFFFF
