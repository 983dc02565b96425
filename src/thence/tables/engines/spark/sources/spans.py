"""OTLP spans as a DataFrame of arrivals, their orphans, and their clocks.

Invariant: `thence.sources.from_spans` reads every export, in the workers; `orphans` and `skews` are those of the plain
form, as joins. An export that cannot be read gives one row of kind `unreadable`, and no row is lost without a word.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from thence.core.model.plain import Fields
from thence.errors import MisuseError
from thence.tables.engines.spark.arrow_to_spark_types import struct_of
from thence.tables.engines.spark.deliver import column
from thence.tables.engines.spark.sources.together import ARRIVAL, need_column, one_by_one
from thence.tables.sources.otlp import from_spans as plain

SPAN = StructType([*ARRIVAL.fields, *struct_of({"name": "string", "trace": "string", "links": "array<string>"})])


def from_spans(
    records: DataFrame,
    *,
    value: str = "value",
    format: Literal["json", "protobuf"] = "json",
    destination: str | None = None,
) -> DataFrame:
    """Return one arrival for each OpenTelemetry span; a record's other columns stay with its spans.

    Args:
        records: a DataFrame with one OTLP export in each row.
        value: the column with the export.
        format: `json` or `protobuf`; protobuf needs the extra `otlp`.
        destination: the destination of every span; the trace id if not given.
    """
    need_column(records, value)
    if format == "json":
        records = records.withColumn(value, column(value).cast("string"))

    def read(export: str | bytes | None) -> Iterable[Fields]:
        return plain(b"\xff" if export is None else export, destination=destination)  # null is not an export

    return one_by_one(records, [value], read, SPAN, [name for name in records.columns if name != value])


def orphans(spans: DataFrame) -> DataFrame:
    """Return the spans without causes that are not among them; `note` names those. For a batch.

    Args:
        spans: what `from_spans` returned.
    """
    if spans.isStreaming:
        raise MisuseError("orphans needs the spans together; in a stream deliver with policy='release'")
    known = spans.where("message is not null").select(F.col("message").alias("__known")).distinct()
    named = spans.where("message is not null")
    causes = named.select("destination", "message", F.explode("depends_on").alias("__cause"))
    gone = (
        causes.join(known, causes["__cause"] == known["__known"], "left_anti")
        .groupBy("destination", "message")
        .agg(F.sort_array(F.collect_set("__cause")).alias("__gone"))
        .withColumnsRenamed({"destination": "__destination", "message": "__message"})
    )
    same = spans["message"].eqNullSafe(gone["__message"]) & spans["destination"].eqNullSafe(gone["__destination"])
    joined = spans.join(gone, same, "left")
    missing = F.coalesce(F.col("__gone"), F.array().cast("array<string>"))
    note = F.concat(F.lit("orphan: "), F.array_join("__gone", ", "), F.lit(" never came"))
    return joined.select(
        *[F.col(f"`{name}`") for name in spans.columns if name not in ("depends_on", "note")],
        F.array_except("depends_on", missing).alias("depends_on"),
        F.coalesce(F.when(F.col("__gone").isNotNull(), note), F.col("note")).alias("note"),
    )


def skews(spans: DataFrame) -> DataFrame:
    """Return, for each pair of services with early children: how many, the offset that explains them, or a violation.

    Columns: parent, child, early (count), offset (seconds to add to the child's clock, or null), violation.

    Args:
        spans: what `from_spans` returned.
    """
    timed = spans.where("message is not null and time is not null")
    parents = timed.select(
        F.col("message").alias("__parent"), F.col("sender").alias("parent"), F.col("time").alias("__start")
    )
    children = timed.select(F.col("sender").alias("child"), "time", F.explode("depends_on").alias("__cause"))
    pairs = children.join(parents, F.col("__cause") == F.col("__parent"))
    lead = F.col("__start") - F.col("time")
    found = pairs.groupBy("parent", "child").agg(F.max(lead).alias("__low"), F.count_if(lead > 0).alias("early"))
    back = found.select(
        F.col("parent").alias("__child"), F.col("child").alias("__back"), (-F.col("__low")).alias("__high")
    )
    both = found.join(back, (found["parent"] == back["__back"]) & (found["child"] == back["__child"]), "left")
    skewed = (F.col("parent") != F.col("child")) & (F.col("__low") <= F.coalesce("__high", "__low"))
    return both.where("early > 0").select(
        "parent", "child", "early", F.when(skewed, F.col("__low")).alias("offset"), (~skewed).alias("violation")
    )
