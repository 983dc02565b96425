"""Whole transactions of a stream into Delta or Iceberg tables: versions of rows, and a position up to which they count.

A lakehouse commits one table at a time. So no row is overwritten: each change is added to its table as a version, by a
MERGE on its position in the order of commits, and the position of the last transaction that is whole is written last,
into a table of its own. `committed_tables` reads that position first, and then the newest versions up to it.

*Invariant.* Versions are only added, and a position is committed after all versions up to it are there. So a reader of
`committed_tables` sees the tables as they were after some commit of the source, all of them after the same one,
whenever the writer is cut off. A change has the same position whenever its micro-batch runs, so running it again adds
nothing. That is so because positions follow the order of commits, and the checkpoint goes on counting: batches, which
count from 1 each time, are refused.

*Streams.* Another checkpoint counts from 1 again. So versions name their stream, by the id that Spark keeps in the
checkpoint, and the table of positions has a row for each stream of a source: the positions between `thence_begin` and
`thence_position` count, of its versions only. A stream follows another one only if it reads behind the commit at which
that one stands, and closes its row before it writes. Both then change one row, which Delta and Iceberg refuse to do at
once; so the earlier one, if it still runs, either has committed before or fails.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from thence.errors import MisuseError
from thence.tables.delivery.checkpoint_terms import refuse_earlier
from thence.tables.engines.spark.into_table import create_table, delivery_key
from thence.tables.engines.spark.sources.changes import check_commit_order
from thence.tables.sources.commits import LogPosition, since_mark

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

SOURCE, STREAM, POSITION = "thence_source", "thence_stream", "thence_position"
ROW_KEY, OPERATION = "thence_key", "thence_op"
ADDED = {SOURCE: "string", STREAM: "string", POSITION: "bigint", ROW_KEY: "string", OPERATION: "string"}
"""Columns of a version beside those of the row."""
BEGIN, PLACE, NUMBER, CLOSED = "thence_begin", "thence_since", "thence_number", "thence_closed"
POSITIONS = {
    SOURCE: "string", NUMBER: "bigint", STREAM: "string", BEGIN: "bigint", POSITION: "bigint", PLACE: "string",
    CLOSED: "boolean",
}  # fmt: skip
"""Columns of the table of positions: `thence_since` is the last whole transaction, as `since=` takes it."""
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
    column that is not there, without a record key, of a snapshot, or released by a policy. It fails too if another
    checkpoint has filled the tables, unless it goes on where that one stands: `from_changes(..., since=...)`.

    Raises `MisuseError` if the frame is not a stream from `deliver` with `key=["destination"]` over `from_changes`.

    Args:
        ordered: what `deliver` returned for `from_changes(records, order="commit")`; the records are JSON, with keys.
        tables: the table of versions for each table of the source, named with or without its schema; None leaves a
            table out.
        positions: the table that says up to which position each source is whole.
        columns: for tables of versions that are missing: the columns of the source's table, as in DDL of Spark.
        format: create missing tables in this format.
        checkpoint: the checkpoint folder, which counts the positions. With a new one, pass to `from_changes` the
            `since=` that the table of positions says, or empty that table.
        trigger: the trigger of the stream, as in `{"availableNow": True}`; by default it goes on until it is stopped.
    """
    lacking = [name for name in RECORD_COLUMNS if name not in ordered.columns]
    if delivery_key(ordered) != ["destination"] or lacking:
        missing = f"; it lacks {', '.join(lacking)}" if lacking else ""
        raise MisuseError(
            "into_lakehouse takes from_changes(...) of records with value and key, delivered with "
            f"key=['destination']{missing}"
        )
    since = check_commit_order(ordered, "into_lakehouse")
    if since is not None and since_mark(since).log == "offset":
        raise MisuseError(
            f"since={since!r} is a place in the transaction topic, and a change does not say whether its transaction "
            "lies before it; for into_lakehouse pass the place in the database's log: an LSN or a GTID"
        )
    targets = [table for table in tables.values() if table is not None]
    if len(set(targets)) < len(targets):
        raise MisuseError(
            "tables= names a table twice; each table of the source needs its own, since keys may be equal"
        )
    if not ordered.isStreaming or checkpoint is None:
        raise MisuseError(
            "into_lakehouse takes a stream, with checkpoint=, a permanent folder, in which the positions are counted. "
            "trigger={'availableNow': True} ends a stream with what is there"
        )
    refuse_earlier(checkpoint)
    _create(ordered.sparkSession, tables, positions, columns or {}, format)
    writer = ordered.writeStream.option("checkpointLocation", os.fspath(checkpoint))
    if trigger:
        writer = writer.trigger(**trigger)  # type: ignore[arg-type]
    folder = os.fspath(checkpoint)
    return writer.foreachBatch(
        batch_writer(dict(tables), positions, lambda spark: stream_id(spark, folder), since)
    ).start()


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
    ends = (
        spark.table(positions).groupBy(SOURCE, STREAM).agg(F.max(BEGIN).alias(BEGIN), F.max(POSITION).alias(POSITION))
    )
    seen = reduce(Column.__or__, (_reached(row) for row in ends.collect()), F.lit(False))
    names = list(tables)
    for name in names:
        spark.sql(f"REFRESH TABLE {name}")  # Iceberg's catalogs keep tables for 30 seconds: older than the position
    return {name: _newest(spark.table(name).where(seen)) for name in names}


def _reached(row: Row) -> Column:
    """Return which versions a row of the table of positions makes visible, with those that were loaded by hand."""
    within = F.col(STREAM).eqNullSafe(row[STREAM]) & F.col(POSITION).between(row[BEGIN] + 1, row[POSITION])
    return F.col(SOURCE).eqNullSafe(row[SOURCE]) & (within | (F.col(POSITION) == 0))


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
    create_table(spark, positions, [f"{name} {kind}" for name, kind in POSITIONS.items()], format, "format=")


# -- a micro-batch -----------------------------------------------------------------------------------------------------


def batch_writer(
    tables: Mapping[str, str | None],
    positions: str,
    stream_of: Callable[[SparkSession], str],
    since: int | str | None = None,
) -> Callable[[DataFrame, int], None]:
    """Return the function that writes a micro-batch; Connect sends it to the server."""

    def write(batch: DataFrame, _: int) -> None:
        spark = batch.sparkSession
        placed = batch.where(F.col("position").isNotNull() & (F.col("kind") != "begin"))
        rows = placed.select(*_read(list(tables))).persist()  # the stateful step behind it should run once
        try:
            place = F.min(POSITION).alias("first"), F.max(F.struct(POSITION, "id")).alias("last")
            groups = rows.where(F.col("table").isNotNull() | F.col("ends")).groupBy(SOURCE, "table", "ends").agg(*place)
            found = groups.collect()
            stream = stream_of(spark) if found else ""
            begins = {
                source: claimed(spark, positions, source, stream, since) for source in {row[SOURCE] for row in found}
            }
            for row in found:
                table = tables[row["table"]] if row["table"] is not None else None
                if table is not None:
                    begin = begins[row[SOURCE]]
                    own = (F.col("table") == row["table"]) & F.col(SOURCE).eqNullSafe(row[SOURCE])
                    moved = {STREAM: F.lit(stream), POSITION: F.col(POSITION) + begin}
                    _add_versions(spark, table, rows.where(own).withColumns(moved), row["first"] + begin)
            for row in found:  # last: from here on readers see the transactions that end in this micro-batch
                if row["ends"]:
                    position, transaction_id = row["last"]
                    reached = {POSITION: begins[row[SOURCE]] + position, PLACE: transaction_id}
                    _merge(spark, positions, {SOURCE: row[SOURCE], STREAM: stream, **reached},
                           f"WHEN MATCHED AND s.{POSITION} > t.{POSITION} AND NOT t.{CLOSED} THEN UPDATE SET "
                           f"{POSITION} = s.{POSITION}, {PLACE} = s.{PLACE}")  # fmt: skip
        finally:
            rows.unpersist()

    return write


def stream_id(spark: SparkSession, checkpoint: str) -> str:
    """Return the id that Spark gave to a stream when it made the checkpoint, and keeps there."""
    return str(json.loads(spark.read.text(f"{checkpoint}/metadata").collect()[0][0])["id"])


def claimed(spark: SparkSession, positions: str, source: str | None, stream: str, since: int | str | None) -> int:
    """Return behind which position a stream writes; refuse it if what it reads does not follow what is committed."""
    streams = _streams(spark, positions, source)
    if all(row[STREAM] != stream for row in streams):
        number, begin = 1, 0
        if streams:
            number, begin = streams[-1][NUMBER] + 1, _closed(spark, positions, streams[-1], since)
        own = {SOURCE: source, NUMBER: number, STREAM: stream, BEGIN: begin, POSITION: begin,
               PLACE: None if since is None else str(since), CLOSED: False}  # fmt: skip
        _merge(spark, positions, own, "WHEN NOT MATCHED THEN INSERT *", NUMBER)
        streams = _streams(spark, positions, source)
    last = [row for row in streams if row[NUMBER] == streams[-1][NUMBER]]
    if len(last) > 1 or last[0][STREAM] != stream or last[0][CLOSED]:
        raise MisuseError(
            f"into_lakehouse: a stream with another checkpoint goes on with {source} in {positions}, and one at a time "
            "may write. Stop this one"
        )
    return int(last[0][BEGIN])


def _closed(spark: SparkSession, positions: str, newest: Row, since: int | str | None) -> int:
    """Close the row of the newest stream, if `since` says where it stands; return its position, which is final then."""
    place, position = newest[PLACE], newest[POSITION]
    if place is None if since is None else since_mark(since) == _place_in_log(place):
        _merge(spark, positions, {name: newest[name] for name in (SOURCE, STREAM, POSITION)},
               f"WHEN MATCHED AND t.{POSITION} = s.{POSITION} THEN UPDATE SET {CLOSED} = true")  # fmt: skip
        newest = _streams(spark, positions, newest[SOURCE])[-1]
        if newest[CLOSED] and newest[POSITION] == position:
            return int(position)
        place = newest[PLACE]
    follow = f"Or stop its stream, and pass since={place!r} to from_changes. " if _place_in_log(place) else ""
    raise MisuseError(
        f"into_lakehouse: another checkpoint has written {newest[SOURCE]} into {positions}, up to {place}; with what "
        f"this one reads, changes would be lost or count twice. Continue with that checkpoint. {follow}Or delete the "
        f"rows of {positions}, and read the source from its first record"
    )


def _place_in_log(place: str | None) -> LogPosition | None:
    """Return where a database stands, if it has one log: of several, one place does not say what was read."""
    try:
        mark = None if place is None else since_mark(place)
    except MisuseError:
        return None
    return mark if mark is not None and mark.log in ("lsn", "sql server") else None


def _streams(spark: SparkSession, positions: str, source: str | None) -> list[Row]:
    """Return what the streams of a source have written, the newest last."""
    spark.sql(f"REFRESH TABLE {positions}")
    rows = spark.table(positions).where(F.col(SOURCE).eqNullSafe(F.lit(source))).collect()
    return sorted(rows, key=lambda row: (row[NUMBER], row[STREAM]))


def _merge(spark: SparkSession, positions: str, row: Mapping[str, Any], action: str, on: str = STREAM) -> None:
    """Merge one row into the table of positions."""
    schema = ", ".join(f"{name} {POSITIONS[name]}" for name in row)
    spark.sql(
        f"MERGE INTO {positions} t USING {{row}} s ON t.{SOURCE} <=> s.{SOURCE} AND t.{on} = s.{on} {action}",
        row=spark.createDataFrame([tuple(row.values())], schema),
    )


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
        f"ON t.{SOURCE} <=> s.{SOURCE} AND t.{STREAM} = s.{STREAM} AND t.{POSITION} = s.{POSITION} "
        f"AND t.{POSITION} >= {int(first)} "
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
        F.get_json_object(body, "$.id").alias("id"),
        F.coalesce(plain_key, key).alias(ROW_KEY),
        # An END at or before since= has a note. It waits for nothing, so it may stand amid another transaction.
        (ends & F.col("note").isNull()).alias("ends"),
        F.when(wrong.isNotNull(), F.raise_error(F.concat(text, wrong))).otherwise(kind).alias(OPERATION),
    ]
