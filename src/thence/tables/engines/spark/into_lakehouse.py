"""Whole transactions of a stream into Delta or Iceberg tables: versions of rows, and a position up to which they count.

A lakehouse commits one table at a time. So no row is overwritten: each change is added to its table as a version, by a
MERGE on its position in the order of commits, and the position of the last transaction that is whole is written last,
into a table of its own. `committed_tables` reads that position first, and then the newest versions up to it.

*Invariant.* Versions are only added, and a position is committed after all versions up to it are there. So a reader of
`committed_tables` sees the tables as they were after some commit of the source, all of them after the same one,
whenever the writer is cut off. A change has the same position whenever its micro-batch runs, so running it again adds
nothing. That is so because positions follow the order of commits, and the checkpoint goes on counting: batches, which
count from 1 each time, are refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Literal

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from thence.errors import MisuseError
from thence.tables.engines.spark.into_table import create_table, delivery_key
from thence.tables.engines.spark.sources.changes import check_commit_order

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

SOURCE, POSITION, ROW_KEY, OPERATION = "thence_source", "thence_position", "thence_key", "thence_op"
ADDED = {SOURCE: "string", POSITION: "bigint", ROW_KEY: "string", OPERATION: "string"}
"""Columns of a version beside those of the row."""
RECORD_COLUMNS = ("value", "key", "partition", "destination", "message", "transaction", "kind", "note", "position")
CHANGES = ("create", "update", "delete", "truncate")
UNAVAILABLE = ('"__debezium_unavailable_value"', '"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="')
"""Of text, and of bytes."""


def into_lakehouse(
    ordered: DataFrame,
    tables: Mapping[str, str | None],
    *,
    positions: str,
    columns: Mapping[str, str] | None = None,
    format: Literal["delta", "iceberg"] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    trigger: Mapping[str, bool | str] | None = None,
) -> StreamingQuery:
    """Write changes as versions of rows, of which `committed_tables` shows whole transactions only.

        ordered = deliver(from_changes(records), by="depends_on", key=["destination"])
        into_lakehouse(ordered, {"orders": "lake.orders"}, positions="lake.positions",
                       columns={"orders": "id bigint, total int"}, format="delta", checkpoint="cp/shop")

    The stream is started and its query returned. The query fails at a change that it cannot apply: of a table or with a
    column that is not there, without a record key, of a snapshot, or released by a policy.

    Raises `MisuseError` if the frame is not a stream from `deliver` with `key=["destination"]` over `from_changes`.

    Args:
        ordered: what `deliver` returned for `from_changes(records, order="commit")`; the records are JSON, with keys.
        tables: the table of versions for each table of the source, named with or without its schema; None leaves a
            table out.
        positions: the table that says up to which position each source is whole.
        columns: for tables of versions that are missing: the columns of the source's table, as in DDL of Spark.
        format: create missing tables in this format.
        checkpoint: the checkpoint folder, which must stay as long as the tables do: it counts the positions.
        trigger: the trigger of the stream, as in `{"availableNow": True}`; by default it goes on until it is stopped.
    """
    lacking = [name for name in RECORD_COLUMNS if name not in ordered.columns]
    if delivery_key(ordered) != ["destination"] or lacking:
        missing = f"; it lacks {', '.join(lacking)}" if lacking else ""
        raise MisuseError(
            "into_lakehouse takes from_changes(...) of records with value and key, delivered with "
            f"key=['destination']{missing}"
        )
    check_commit_order(ordered, "into_lakehouse")
    targets = [table for table in tables.values() if table is not None]
    if len(set(targets)) < len(targets):
        raise MisuseError(
            "tables= names a table twice; each table of the source needs its own, since keys may be equal"
        )
    if not ordered.isStreaming or checkpoint is None:
        raise MisuseError(
            "into_lakehouse takes a stream, with checkpoint=, a folder that stays: it counts the positions. "
            "trigger={'availableNow': True} ends a stream with what is there"
        )
    _create(ordered.sparkSession, tables, positions, columns or {}, format)
    writer = ordered.writeStream.option("checkpointLocation", os.fspath(checkpoint))
    if trigger:
        writer = writer.trigger(**trigger)  # type: ignore[arg-type]
    return writer.foreachBatch(batch_writer(dict(tables), positions)).start()


def committed_tables(spark: SparkSession, tables: Iterable[str], *, positions: str) -> dict[str, DataFrame]:
    """Return the rows of tables that `into_lakehouse` writes, all of them after the same commit of their source.

        shop = committed_tables(spark, ["lake.customer", "lake.orders"], positions="lake.positions")
        shop["lake.orders"].join(shop["lake.customer"], ...)

    Args:
        spark: the session that reads.
        tables: names of tables of versions.
        positions: the table that says up to which position each source is whole.
    """
    # Read before any table of versions: these then have at least the versions up to it.
    spark.sql(f"REFRESH TABLE {positions}")
    ends = spark.table(positions).groupBy(SOURCE).agg(F.max(POSITION).alias(POSITION))
    whole = {row[SOURCE]: row[POSITION] for row in ends.collect()}
    reached = (F.col(SOURCE).eqNullSafe(source) & (F.col(POSITION) <= place) for source, place in whole.items())
    seen = reduce(Column.__or__, reached, F.lit(False))
    names = list(tables)
    for name in names:
        spark.sql(f"REFRESH TABLE {name}")  # Iceberg's catalogs keep tables for 30 seconds: older than the position
    return {name: _newest(spark.table(name).where(seen)) for name in names}


def _newest(versions: DataFrame) -> DataFrame:
    """Return the newest version of each row, without rows that were deleted or truncated."""
    truncated = versions.where(F.col(OPERATION) == "truncate")
    emptied = truncated.groupBy(SOURCE).agg(F.max(POSITION).alias("thence_emptied"))
    kept = versions.join(F.broadcast(emptied), SOURCE, "left")
    kept = kept.where(F.col(POSITION) > F.coalesce("thence_emptied", F.lit(-1)))
    newest_first = Window.partitionBy(SOURCE, ROW_KEY).orderBy(F.col(POSITION).desc())
    newest = kept.withColumn("thence_age", F.row_number().over(newest_first)).where("thence_age = 1")
    return newest.where(F.col(OPERATION) != "delete").drop(*ADDED, "thence_age", "thence_emptied")


def _create(
    spark: SparkSession,
    tables: Mapping[str, str | None],
    positions: str,
    columns: Mapping[str, str],
    format: str | None,
) -> None:
    """Create the tables that are missing."""
    added = [f"{name} {kind}" for name, kind in ADDED.items()]
    for source, table in tables.items():
        if table is not None:
            fields = [columns.get(source, ""), *added]
            create_table(spark, table, fields, format if source in columns else None, "format= and columns=")
    create_table(spark, positions, [f"{SOURCE} string", f"{POSITION} bigint"], format, "format=")


# -- a micro-batch -----------------------------------------------------------------------------------------------------


def batch_writer(tables: Mapping[str, str | None], positions: str) -> Callable[[DataFrame, int], None]:
    """Return what writes a micro-batch; Connect sends it to the server."""

    def write(batch: DataFrame, _: int) -> None:
        spark = batch.sparkSession
        placed = batch.where(F.col("position").isNotNull() & (F.col("kind") != "begin"))
        rows = placed.select(*_read(list(tables))).persist()  # the stateful step behind it should run once
        try:
            groups = rows.groupBy("table", "ends").agg(F.min(POSITION).alias("first")).collect()
            for source, place in ((row["table"], row["first"]) for row in groups if row["table"] is not None):
                table = tables[source]
                if table is not None:
                    _add_versions(spark, table, rows.where(F.col("table") == source), place)
            if not any(row["ends"] for row in groups):
                return  # an empty commit would be added otherwise
            ends = rows.where("ends").groupBy(SOURCE).agg(F.max(POSITION).alias(POSITION))
            spark.sql(  # last: from here on readers see the transactions that end in this micro-batch
                f"MERGE INTO {positions} t USING {{ends}} s ON t.{SOURCE} <=> s.{SOURCE} "
                f"WHEN MATCHED AND s.{POSITION} > t.{POSITION} THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
                ends=ends,
            )
        finally:
            rows.unpersist()

    return write


def _add_versions(spark: SparkSession, table: str, changes: DataFrame, first: int) -> None:
    """Add the changes of a table that are not there yet; `first` is the least of their positions."""
    fields = [field for field in spark.table(table).schema.fields if field.name not in ADDED]
    unknown = F.array_except(F.json_object_keys("after"), F.array(*(F.lit(field.name) for field in fields)))
    text = F.concat(F.lit(f"into_lakehouse: table {table} lacks the column "), F.array_join(unknown, ", "),
                    F.lit(" of the source; add it, spelled like this"))  # fmt: skip
    after = F.when(F.size(unknown) > 0, F.raise_error(text)).otherwise(F.col("after"))
    # A value that does not fit its column ends the query: it would be null otherwise.
    row = F.from_json(after, StructType(fields), {"mode": "FAILFAST"})
    versions = changes.withColumn("row", row).select(*(F.col("row")[field.name].alias(field.name) for field in fields),
                                                     *ADDED)  # fmt: skip
    spark.sql(
        f"MERGE INTO {table} t USING {{versions}} s "
        f"ON t.{SOURCE} <=> s.{SOURCE} AND t.{POSITION} = s.{POSITION} AND t.{POSITION} >= {int(first)} "
        "WHEN NOT MATCHED THEN INSERT *",
        versions=versions,
    )


def _read(names: list[str]) -> list[Column]:
    """Return what is written of a delivered record: its table, the row after it, and the columns of a version."""
    value, kind = F.col("value").cast("string"), F.col("kind")
    body = F.coalesce(F.get_json_object(value, "$.payload"), value)  # Kafka Connect's converter may add the schema
    key = F.col("key").cast("string")
    # A column of the key may be called payload. "$" writes the key as JSON is written here, with or without a schema.
    enveloped = F.get_json_object(key, "$.schema.type").isNotNull()
    plain_key = F.when(enveloped, F.get_json_object(key, "$.payload")).otherwise(F.get_json_object(key, "$"))
    space = [F.get_json_object(body, f"$.source.{name}") for name in ("schema", "db", "table")]
    spellings = [F.concat_ws(".", space[0], space[2]), F.concat_ws(".", space[1], space[2]), space[2]]
    table = F.coalesce(*(F.when(each.isin(names), each) for each in spellings))
    changed, ends = kind.isin(*CHANGES), kind == "end"
    wrong = (
        F.when(F.col("outcome") != "delivered", "a policy released it without its causes; deliver without a policy")
        .when(kind.isin("snapshot", "incremental"), "it is a row of a snapshot; load the snapshot before the stream")
        .when(changed & table.isNull(), f"tables= does not name its table, but {', '.join(names)}; None leaves it out")
        .when(changed & (kind != "truncate") & key.isNull(), "its record has no key, which names the row")
        .when(changed & (value.contains(UNAVAILABLE[0]) | value.contains(UNAVAILABLE[1])),
              "a large value is left out; set REPLICA IDENTITY FULL, or the like")
        .when(ends & (F.col("partition") > 0), "the transaction topic has several partitions; commit order needs one")
    )  # fmt: skip
    text = F.concat(F.lit("into_lakehouse cannot apply "), F.col("message"), F.lit(" of "), spellings[0], F.lit(": "))
    return [
        F.when(changed, table).alias("table"),
        F.get_json_object(body, "$.after").alias("after"),
        F.col("destination").alias(SOURCE),
        F.col("position").alias(POSITION),
        F.coalesce(plain_key, key).alias(ROW_KEY),
        # An END at or before since= has a note. It waits for nothing, so it may stand amid another transaction.
        (ends & F.col("note").isNull()).alias("ends"),
        F.when(wrong.isNotNull(), F.raise_error(F.concat(text, wrong))).otherwise(kind).alias(OPERATION),
    ]
