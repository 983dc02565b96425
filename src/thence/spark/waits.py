"""What is held back, for which cause, since when: of a batch from its output, of a stream from its state store.

    waiting(ordered)                        # a DataFrame that `deliver` returned for a batch
    waiting(session, "checkpoint/path")     # the last committed micro-batch of a stream

Law. One row per blocked message: key, message, the causes it still misses, the one at the root of its wait (a cause
that has not arrived at all), how many rows and how much event time have passed since it came.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DoubleType, LongType, StringType, StructField, StructType

from thence.delivery.engine import Engine
from thence.delivery.pack import unpack
from thence.delivery.policy import Policy
from thence.delivery.reading import Reading
from thence.delivery.state import restore
from thence.errors import MisuseError
from thence.model.roster import Roster

FIELDS = (
    StructField("message", StringType()),
    StructField("missing", ArrayType(StringType())),
    StructField("blocker", StringType()),
    StructField("held_for", LongType()),
    StructField("held_seconds", DoubleType()),
    StructField("reason", StringType()),
)


def waiting(
    what: DataFrame | SparkSession,
    checkpoint: str | os.PathLike[str] | None = None,
    *,
    key: tuple[str, ...] | None = None,
) -> DataFrame:
    """Explain what waits. `key`: the key columns of a batch if they are not (run, destination)."""
    if checkpoint is None:
        if not hasattr(what, "columns"):
            raise MisuseError("waiting(session) needs the checkpoint folder of a stream as well")
        return _of_batch(what, key)  # type: ignore[arg-type]
    return _of_stream(what, os.fspath(checkpoint))  # type: ignore[arg-type]


def _of_batch(ordered: DataFrame, key: tuple[str, ...] | None) -> DataFrame:
    if "blocker" not in ordered.columns or ordered.isStreaming:
        raise MisuseError("waiting takes what deliver returned for a batch; for a stream, its session and checkpoint")
    keys = [name for name in (key or ("run", "destination")) if name in ordered.columns]
    names = [*keys, *(f.name for f in FIELDS if f.name in ordered.columns)]
    return ordered.where(F.col("outcome") == "blocked").select(*[F.col(f"`{name}`") for name in names])


def _of_stream(session: SparkSession, checkpoint: str) -> DataFrame:
    state = session.read.format("statestore").option("path", checkpoint).option("stateVarName", "state").load()
    keys = state.schema["key"].dataType
    assert isinstance(keys, StructType)
    schema = StructType([*keys.fields, *FIELDS])
    names = keys.fieldNames()
    flat = state.select("key.*", F.col("value.blob").alias("__blob"))

    def explain(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [row for each in batch.to_pylist() for row in explained(each, names)]
            yield pa.RecordBatch.from_pylist(rows, schema=_arrow(batch, names))

    return flat.mapInArrow(explain, schema)


def explained(row: dict[str, Any], names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield what one key's blob holds back."""
    if row["__blob"] is None:
        return
    for held in engine_of(bytes(row["__blob"])).pending():
        told = held._asdict()
        yield {name: row[name] for name in names} | {field.name: told[field.name] for field in FIELDS}


def engine_of(blob: bytes) -> Engine:
    """Return the engine in a blob, which says all that explanations need."""
    header, _ = unpack(blob)
    rosters = () if header["roster"] is None else (Roster(header["roster"]),)
    engine, _ = restore(blob, Reading(header["by"], rosters), Policy())
    return engine


def _arrow(batch: pa.RecordBatch, names: list[str]) -> Any:
    texts = pa.list_(pa.string())
    types = {"message": pa.string(), "missing": texts, "blocker": pa.string(), "held_for": pa.int64()}
    types |= {"held_seconds": pa.float64(), "reason": pa.string()}
    keys = [(name, batch.schema.field(name).type) for name in names]
    return pa.schema(keys + [(field.name, types[field.name]) for field in FIELDS])
