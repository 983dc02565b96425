"""Ordered rows into a lakehouse table, each once: Delta and Iceberg, by append or by MERGE.

Invariant. A micro-batch that Spark runs again after a crash changes nothing that is in the table already. Appends leave
that to the sink of the table's format: it commits the query and the number of the micro-batch together with the rows,
and skips what it has. MERGE compares identities: a row with a position has it forever, in its delivery key. A table
that has another message there was filled from another checkpoint or batch, which counts from 1 again, and is refused:
rows would be taken for ones that are there.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from thence.errors import MisuseError
from thence.tables.delivery.checkpoint_terms import refuse_earlier
from thence.tables.engines.spark.deliver import MADE, column, is_timed

Mode = Literal["append", "merge"]
_NEWEST = "__thence_newest"
_DELTA_PATH = re.compile(r"delta\.`(.+)`", re.IGNORECASE)


def into_table(
    ordered: DataFrame,
    table: str,
    *,
    mode: Mode = "append",
    on: Iterable[str] = (),
    format: Literal["delta", "iceberg"] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    trigger: Mapping[str, bool | str] | None = None,
) -> StreamingQuery | None:
    """Write what `deliver` returned into a table of a catalog; a stream is started and its query returned.

        into_table(deliver(arrivals), "lake.ordered", format="delta", checkpoint="checkpoints/ordered")

    Raises `MisuseError` if the frame does not come from `deliver`, or the table is missing and `format` is not given.

    Args:
        ordered: what `deliver` returned.
        table: the name of the table in the catalog.
        mode: `append` adds every row, with any outcome; of a stream each row once, also across crashes, of a batch
            again if it is written again. `merge` adds rows that have a position and are not in the table yet, so that a
            batch can be written again; rows without a position (duplicates, quarantine) are left out, `split` has them.
            It fails if the table has another message at a position: another checkpoint or batch has filled it.
        on: with `merge`: keep one row for each delivery key and value of these columns, the newest by position.
        format: create the table in this format where it is missing.
        checkpoint: the checkpoint folder of a stream.
        trigger: the trigger of a stream, as in `{"availableNow": True}`; by default it goes on until it is stopped.
            A stream with `wait_seconds`, `idle_seconds` or `ttl_seconds` takes `{"once": True}` instead: under
            `availableNow` Spark would never end it.
    """
    on = list(on)
    key = delivery_key(ordered)
    _check(ordered, mode, on, checkpoint)
    if trigger and trigger.get("availableNow") and is_timed(ordered):
        raise MisuseError(
            "trigger={'availableNow': True} never ends with wait_seconds, idle_seconds or ttl_seconds: Spark goes on "
            "with empty micro-batches as long as there are timers. Pass trigger={'once': True}, which takes all that "
            "is there in one micro-batch, or no trigger"
        )
    if checkpoint is not None:
        refuse_earlier(checkpoint)
    fields = (f"{_quoted(field.name)} {field.dataType.simpleString()}" for field in ordered.schema.fields)
    create_table(ordered.sparkSession, table, fields, format, "format='delta' or format='iceberg'")
    work = _merging(table, key, on, _made(ordered)["message"]) if mode == "merge" else None
    if not ordered.isStreaming:
        if work is None:
            ordered.writeTo(table).append()
        else:
            work(ordered, 0)
        return None
    writer = ordered.writeStream.option("checkpointLocation", os.fspath(checkpoint or ""))
    if trigger:
        writer = writer.trigger(**trigger)  # type: ignore[arg-type]
    if work is not None:
        return writer.foreachBatch(work).start()
    path = _DELTA_PATH.fullmatch(table)
    if path is not None:  # Delta's sink takes such a table by its path alone
        return writer.format("delta").start(path[1])
    # without it Spark takes its default source, and refuses a Delta table of the session catalog
    return (writer if format is None else writer.format(format)).toTable(table)


def delivery_key(ordered: DataFrame) -> list[str]:
    """Return the delivery key that `deliver` noted beside its columns."""
    return list(_made(ordered)["key"])


def _made(ordered: DataFrame) -> dict[str, Any]:
    made = ordered.schema["blocker"].metadata.get(MADE) if "blocker" in ordered.columns else None
    if made is None or "position" not in ordered.columns:
        raise MisuseError(
            "this takes what deliver returned, with its columns position and blocker; "
            f"found: {', '.join(ordered.columns)}"
        )
    return dict(json.loads(made))


def _check(ordered: DataFrame, mode: str, on: list[str], checkpoint: str | os.PathLike[str] | None) -> None:
    if mode not in ("append", "merge"):
        raise MisuseError(f"mode is {mode!r}; append and merge are accepted")
    if on and mode == "append":
        raise MisuseError("on= names what a MERGE compares; pass mode='merge'")
    lacking = [name for name in on if name not in ordered.columns]
    if lacking:
        raise MisuseError(f"no column {', '.join(map(repr, lacking))} for on=; found: {', '.join(ordered.columns)}")
    if ordered.isStreaming and checkpoint is None:
        raise MisuseError(
            "a stream needs checkpoint=, a permanent folder, in which Spark notes what is in the table already"
        )


def create_table(spark: SparkSession, table: str, fields: Iterable[str], format: str | None, hint: str) -> None:
    """Create a table if it is missing; without a format, raise `MisuseError` that says to pass `hint`."""
    if format is not None:
        spark.sql(f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(fields)}) USING {format}")
        return
    try:
        spark.table(table).columns  # noqa: B018 - Connect looks for the table only now
    except AnalysisException as error:
        raise MisuseError(f"table {table} is missing; create it, or pass {hint}") from error


def _merging(table: str, key: list[str], on: list[str], message: str) -> Callable[[DataFrame, int], None]:
    """Return the function that merges a micro-batch; Connect sends it to the server."""
    identity = [*key, *(on or ["position"])]
    same = " AND ".join(f"t.{_quoted(name)} <=> s.{_quoted(name)}" for name in identity)
    newer = "WHEN MATCHED AND s.position > t.position THEN UPDATE SET * " if on else ""
    there = f"s.position = t.position AND s.{_quoted(message)} <=> t.{_quoted(message)}"
    refused = _literal(
        f"into_table: {table} has another message at a position that this writes: another checkpoint or batch has "
        "filled it, and counts from 1 too. Continue with that checkpoint, or write into an empty table"
    )
    other = f"WHEN MATCHED AND NOT ({there}) THEN UPDATE SET position = CAST(raise_error({refused}) AS BIGINT) "
    # A table name comes from the caller's code, as in spark.table(name), and may have several parts.
    statement = f"MERGE INTO {table} t USING {{batch}} s ON {same} {newer}{other}WHEN NOT MATCHED THEN INSERT *"

    def merge(batch: DataFrame, _: int) -> None:
        rows = batch.where(F.col("position").isNotNull())
        if on:  # MERGE refuses two rows of one identity
            order = Window.partitionBy(*map(column, identity)).orderBy(F.col("position").desc())
            rows = rows.withColumn(_NEWEST, F.row_number().over(order)).where(F.col(_NEWEST) == 1).drop(_NEWEST)
        rows = rows.persist()  # MERGE reads its source twice, and the stateful step behind it should run once
        try:
            batch.sparkSession.sql(statement, batch=rows)
        finally:
            rows.unpersist()

    return merge


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
