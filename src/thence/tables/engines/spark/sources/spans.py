"""OTLP spans as a DataFrame of arrivals, their orphans, and their clocks.

Invariant: Row for row what `thence.sources.from_spans` gives; `orphans` and `skews` are those of the plain form, as
joins. JSON is read by expressions, protobuf by the plain function in the workers. An export that cannot be read gives
one row of kind `unreadable`, and no row is lost without a word.
"""

from __future__ import annotations

from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from thence.core.model.plain import Field
from thence.errors import MisuseError
from thence.tables.engines.spark.sources.together import ARRIVAL
from thence.tables.sources.otlp import NO_EXPORT
from thence.tables.sources.otlp import from_spans as plain

SPAN = StructType(
    [
        *ARRIVAL.fields,
        StructField("name", StringType()),
        StructField("trace", StringType()),
        StructField("links", ArrayType(StringType())),
    ]
)
_RESOURCES = (
    "array<struct<"
    "resource struct<attributes array<struct<key string, value struct<stringValue string>>>>, "
    "scopeSpans array<struct<spans array<struct<traceId string, spanId string, parentSpanId string, name string, "
    "startTimeUnixNano string, links array<struct<traceId string, spanId string>>>>>>>>"
)
_EXPORT = f"resourceSpans {_RESOURCES}, __corrupt string"


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
    if value not in records.columns:
        raise MisuseError(f"no column {value!r}; the table has {', '.join(records.columns)}")
    rest = [f"`{name}`" for name in records.columns if name != value]
    if format == "protobuf":
        return _by_function(records, value, rest, destination)
    text = F.col(f"`{value}`").cast("string")
    export = F.from_json(text, _EXPORT, {"columnNameOfCorruptRecord": "__corrupt"})
    readable = F.coalesce(F.ltrim(text).startswith("{") & export["__corrupt"].isNull(), F.lit(False))
    # An export that cannot be read is one of one span without ids.
    nothing = F.from_json(F.lit('[{"scopeSpans": [{"spans": [{}]}]}]'), _RESOURCES)
    found = F.when(readable, export["resourceSpans"]).otherwise(nothing)
    exports = records.select(*rest, F.when(~readable, F.lit(NO_EXPORT)).alias("__why"), found.alias("__resources"))
    resources = exports.select(*rest, "__why", F.explode("__resources").alias("__resource"))
    attributes = F.filter(F.col("__resource.resource.attributes"), lambda each: each["key"] == "service.name")
    service = F.try_element_at(attributes, F.lit(1))["value"]["stringValue"]
    scopes = resources.select(
        *rest, "__why", service.alias("sender"), F.explode("__resource.scopeSpans").alias("__scope")
    )
    spans = scopes.select(*rest, "__why", "sender", F.explode("__scope.spans").alias("__span"))
    return _rows(spans, rest, destination)


def _by_function(records: DataFrame, value: str, rest: list[str], destination: str | None) -> DataFrame:
    def read(data: bytes | None) -> list[tuple[Field, ...]]:
        rows = plain(b"\xff" if data is None else bytes(data), destination=destination)  # null is not an export
        return [tuple(row[name] for name in SPAN.names) for row in rows]  # type: ignore[literal-required]

    spans = F.udf(read, ArrayType(SPAN), useArrow=False)(F.col(f"`{value}`"))  # else Spark reads type hints, and warns
    return records.select(*rest, F.explode(spans).alias("__row")).select(*rest, "__row.*")


def _rows(spans: DataFrame, rest: list[str], destination: str | None) -> DataFrame:
    trace, own, parent = (_id(F.col(f"__span.{name}")) for name in ("traceId", "spanId", "parentSpanId"))
    links = F.transform(
        F.coalesce(F.col("__span.links"), F.array().cast("array<struct<traceId string, spanId string>>")),
        lambda link: F.struct(_id(link["traceId"]).alias("t"), _id(link["spanId"]).alias("s")),
    )
    linked = F.filter(links, lambda link: ~((link["t"] == trace) & (link["s"] == own)))
    here = F.lit(True) if destination else None
    waited = F.filter(linked, lambda link: here if here is not None else link["t"] == trace)
    apart = F.filter(linked, lambda link: F.lit(False) if here is not None else link["t"] != trace)
    parents = F.when(parent != "", F.array(F.concat_ws("/", trace, parent))).otherwise(F.array().cast("array<string>"))
    known = (trace != "") & (own != "")
    return spans.select(
        *rest,
        F.lit(None).cast("string").alias("run"),
        (F.lit(destination) if destination else F.nullif(trace, F.lit(""))).alias("destination"),
        F.when(known, F.concat_ws("/", trace, own)).alias("message"),
        "sender",
        (F.col("__span.startTimeUnixNano").try_cast("decimal(38,0)").cast("double") / 1e9).alias("time"),
        F.array_distinct(F.concat(parents, F.transform(waited, _name))).alias("depends_on"),
        F.when(known, F.lit("span")).otherwise(F.lit("unreadable")).alias("kind"),
        F.when(~known, F.coalesce("__why", F.lit("no trace id or no span id"))).alias("note"),
        F.col("__span.name").alias("name"),
        F.nullif(trace, F.lit("")).alias("trace"),
        F.transform(apart, _name).alias("links"),
    )


def _id(value: Column) -> Column:
    """Return an id as lower-case hex; one of zeros, or none, is the empty text."""
    found = F.lower(F.coalesce(value, F.lit("")))
    return F.when(F.regexp_replace(found, "0", "") == "", F.lit("")).otherwise(found)


def _name(link: Column) -> Column:
    return F.concat_ws("/", link["t"], link["s"])


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
