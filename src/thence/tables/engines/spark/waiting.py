"""Held rows with their causes and times: of a batch from its output, of a stream from its state store.

    waiting(ordered)                                # a DataFrame that `deliver` returned for a batch
    waiting_in_stream(session, "checkpoint/path")   # the last committed micro-batch of a stream

*Invariant.* One row per blocked message: key, message, the causes it still misses, the one at the root of its wait (a
cause that has not arrived, or was quarantined), how many rows and how much event time have passed since it came. A key
column that is a struct, a list or a map is shown as JSON for a stream.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from thence.core.model.plain import Row
from thence.errors import MisuseError
from thence.tables.delivery.checkpoint_terms import OF_AN_EARLIER_RELEASE, refuse_earlier
from thence.tables.delivery.columns import Key
from thence.tables.delivery.outcome import OUTPUT_COLUMNS, WAITING_COLUMNS
from thence.tables.delivery.shard_memory import ReadOnly, as_written, key_schema
from thence.tables.engines.spark.arrow_to_spark_types import spark_type
from thence.tables.engines.spark.deliver import MADE, column, resolved
from thence.tables.engines.spark.shard_visit import SHARD
from thence.tables.engines.spark.stream_step import HEAD, SEGMENTS
from thence.tables.engines.spark.versions import as_arrow

READABLE = "/_-.~!'()*:@&=+$,;"
"""Characters, besides letters and digits, that need no escape in a path of Spark's state reader."""
FIELDS = (
    StructField("message", spark_type("string")),
    *(StructField(name, spark_type(OUTPUT_COLUMNS[name])) for name in WAITING_COLUMNS),
)


def waiting(
    ordered: DataFrame, *, key: str | Iterable[str] | None = None, columns: Mapping[str, str] | None = None
) -> DataFrame:
    """Return the blocked rows of a batch that `deliver` returned, with the causes that each still misses.

    Args:
        ordered: what `deliver` returned for a batch, also after it was written as Parquet and read again.
        key: the key of `deliver`; needed only where the metadata was lost, as in a file of another format than Parquet.
        columns: the names of `deliver`, needed in the same case.
    """
    if "blocker" not in getattr(ordered, "columns", ()) or ordered.isStreaming:
        found = "a stream" if getattr(ordered, "isStreaming", False) else type(ordered).__name__
        raise MisuseError(
            f"waiting takes the DataFrame that deliver returned for a batch; found {found}. For a stream: "
            "waiting_in_stream(session, checkpoint)"
        )
    message = (columns or {}).get("message")
    made = json.loads(ordered.schema["blocker"].metadata.get(MADE, "{}"))
    asked = [*([key] if isinstance(key, str) else key or ()), *([message] if message else ())]
    for name in asked:
        if resolved(ordered, name) not in ordered.columns:
            raise MisuseError(f"no column {name!r}; the table has {', '.join(ordered.columns)}")
    keys = [key] if isinstance(key, str) else list(key or made.get("key", ("run", "destination")))
    keys = [resolved(ordered, name) for name in keys]
    message = resolved(ordered, message or made.get("message", "message"))
    chosen = [column(name) for name in keys if name in ordered.columns]
    if message in ordered.columns and message not in keys:
        chosen.append(column(message).cast("string").alias("message"))
    blocked = ordered.where(F.col("outcome") == "blocked")
    return blocked.select(*chosen, *[column(name) for name in WAITING_COLUMNS])


def refuse_unreadable(checkpoint: str) -> None:
    """Refuse a folder in which Spark's reader of states looks for nothing: it takes %20 for a space, and so on."""
    whole_path = checkpoint if "://" in checkpoint else os.path.abspath(checkpoint)
    strange = sorted({sign for sign in whole_path if sign.isascii() and not sign.isalnum() and sign not in READABLE})
    if strange:
        raise MisuseError(
            f"Spark's reader of states finds none in {whole_path!r}, which has {' '.join(map(repr, strange))} in it: "
            f"only checkpoint folders of letters, digits and {READABLE} can be read; rename this one while its "
            "stream is stopped"
        )


def waiting_in_stream(session: SparkSession, checkpoint: str | os.PathLike[str]) -> DataFrame:
    """Return the rows that a stream holds back as of its last committed micro-batch, with the columns of `waiting`.

    Args:
        session: a session of the Spark version that runs the stream.
        checkpoint: the checkpoint folder of the stream.
    """
    if not hasattr(session, "createDataFrame"):
        raise MisuseError(f"waiting_in_stream takes a SparkSession first; found {type(session).__name__}")
    checkpoint = os.fspath(checkpoint)
    refuse_unreadable(checkpoint)
    parts = state_of_shards(session, checkpoint)
    head = parts.where(F.col("name") == "").select("data").first()
    if head is None:
        return session.createDataFrame([], StructType(list(FIELDS)))
    keys = from_arrow_schema(key_schema(bytes(head[0])))
    schema = StructType([*keys.fields, *FIELDS])
    return parts.groupBy("shard").applyInArrow(_explained(as_arrow(schema)), schema)


def state_of_shards(session: SparkSession, checkpoint: str) -> DataFrame:
    """Return the state of a stream as columns shard, name, data; the head of a shard has the empty name."""
    refuse_earlier(checkpoint)
    store = session.read.format("statestore").option("path", checkpoint)
    try:
        heads = store.option("stateVarName", HEAD).load()
        segments = store.option("stateVarName", SEGMENTS).load()
    except PySparkException as error:
        if str(error.getCondition()).startswith("STDS_INVALID_OPTION_VALUE"):
            raise MisuseError(OF_AN_EARLIER_RELEASE) from error
        raise
    shard = F.col(f"key.{SHARD}").alias("shard")
    name, data = F.col("user_map_key.name").alias("name"), F.col("user_map_value.blob").alias("data")
    first = heads.select(shard, F.lit("").alias("name"), F.col("value.blob").alias("data"))
    return first.unionByName(segments.select(shard, name, data))


def _explained(schema: pa.Schema) -> Callable[[pa.Table], pa.Table]:
    def explained(table: pa.Table) -> pa.Table:
        found = dict(zip(table.column("name").to_pylist(), table.column("data").to_pylist(), strict=True))
        if not found.get(""):
            return schema.empty_table()
        rows = [
            [*key, message, *(about[name] for name in WAITING_COLUMNS)] for key, message, about in explained_in(found)
        ]
        columns = zip(*rows, strict=True) if rows else [()] * len(schema)
        arrays = [pa.array(list(values), kind) for values, kind in zip(columns, schema.types, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)

    return explained


def explained_in(found: dict[str, bytes]) -> Iterator[tuple[Key, str | None, Row]]:
    """Yield what one shard holds back: its head stands under the empty name, its segments under theirs."""
    return as_written(found[""], ReadOnly(found)).explained()
