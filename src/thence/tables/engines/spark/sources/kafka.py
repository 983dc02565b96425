"""Kafka through Spark's connector: the options in one place, and the headers as columns of arrivals.

    arrivals = from_kafka(read_kafka(spark, kafka_options("broker:9092", ["events"])), destination="billing")
    ordered = deliver(arrivals, by="depends_on")

Invariant: one query reads all partitions whose messages may depend on each other. Key, value, topic, partition and
offset stay as columns. `arrival` follows the offsets: within a partition it is their order, between partitions any
order will do, and this one is the same at every reading.

The connector is `org.apache.spark:spark-sql-kafka-0-10_2.13` of your Spark version, on the class path of the session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from thence.errors import MisuseError
from thence.tables.sources.headers import CAUSES, MESSAGE, NO_LIST, SENDER, STAMP


def kafka_options(
    bootstrap: str,
    topics: Iterable[str],
    *,
    starting: str = "earliest",
    most_per_batch: int | None = None,
    client: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return options for Spark's Kafka reader: headers included, committed records only.

    Args:
        bootstrap: the brokers, as in `host:9092,other:9092`.
        topics: those whose messages may depend on each other.
        starting: `earliest`, `latest`, or offsets as JSON.
        most_per_batch: the most records in a micro-batch; no limit if not given.
        client: settings of Kafka's own client, as in `{"security.protocol": "SSL"}`.
    """
    names = list(topics)
    if not names:
        raise MisuseError("no topics; name those whose messages may depend on each other")
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": ",".join(names),
        "startingOffsets": starting,
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
        "failOnDataLoss": "true",
    }
    if most_per_batch is not None:
        options["maxOffsetsPerTrigger"] = str(most_per_batch)
    return options | {f"kafka.{name}": value for name, value in (client or {}).items()}


def read_kafka(session: SparkSession, options: Mapping[str, str], *, stream: bool = False) -> DataFrame:
    """Return the records as Spark's Kafka connector gives them.

    Args:
        session: the session that reads; it needs the connector's package.
        options: what `kafka_options` returned.
        stream: read a stream rather than a batch.
    """
    reader = session.readStream if stream else session.read
    known = dict(options) if stream else {key: value for key, value in options.items() if key != "maxOffsetsPerTrigger"}
    return reader.format("kafka").options(**known).load()


def from_kafka(records: DataFrame, *, destination: str) -> DataFrame:
    """Return records with the headers of `CausalProducer` as arrivals; other columns are kept.

    Args:
        records: what `read_kafka` returned.
        destination: the consumer whose order is wanted.
    """
    missing = [name for name in ("headers", "topic", "partition", "offset") if name not in records.columns]
    if missing:
        raise MisuseError(f"no column {', '.join(missing)}; read with kafka_options, which asks for headers")
    causes, message = header(CAUSES).cast("string"), header(MESSAGE).cast("string")
    listed = F.from_json(causes, "array<string>")
    readable = causes.isNull() | (listed.isNotNull() & F.ltrim(causes).startswith("["))
    place = F.concat_ws("/", "topic", F.col("partition").cast("string"), F.col("offset").cast("string"))
    name = F.when(F.length(message) > 0, message).otherwise(place)
    return records.select(
        "*",
        F.lit(None).cast("string").alias("run"),
        F.lit(destination).alias("destination"),
        F.when(readable, name).alias("message"),
        header(SENDER).cast("string").alias("sender"),
        F.col("timestamp").cast("double").alias("time"),
        F.when(readable, F.coalesce(listed, F.array().cast("array<string>")))
        .otherwise(F.array().cast("array<string>"))
        .alias("depends_on"),
        header(STAMP + destination).alias("stamp"),
        arrival().alias("arrival"),
        F.when(~readable, F.lit(NO_LIST)).alias("note"),
    )


def arrival() -> Column:
    """Return a position among the arrivals, from where a record lies; twenty bits part the partitions."""
    partition = F.pmod(F.xxhash64("topic", "partition"), F.lit(1 << 20))
    return F.shiftleft(F.col("offset").cast("long"), 20) + partition


def header(name: str) -> Column:
    """Return the last header of a name, or null."""
    found = F.filter(F.col("headers"), lambda each: each["key"] == name)
    return F.try_element_at(found, F.lit(-1))["value"]
