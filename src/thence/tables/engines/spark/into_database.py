"""Whole transactions of a stream into a relational database, in the order of commits: a `foreachBatch` writer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from thence.errors import MisuseError
from thence.tables.delivery.checkpoint_terms import refuse_earlier
from thence.tables.engines.spark.into_table import delivery_key
from thence.tables.engines.spark.sources.changes import check_commit_order

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from thence.tables.sinks.micro_batches import MicroBatchSink
    from thence.tables.sinks.sql_sink import OnRefusal
    from thence.tables.sinks.target import TargetTables


def into_database(
    ordered: DataFrame,
    url: str,
    tables: TargetTables,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    trigger: Mapping[str, bool | str] | None = None,
    positions: str = "thence_positions",
    open_changes: str = "thence_open_changes",
    refused: OnRefusal = "stop",
    dead_letters: str = "thence_dead_letters",
) -> StreamingQuery | None:
    """Apply each source transaction in one target transaction, with its position; foreign keys stay on.

        arrivals = from_changes(records)                       # a stream of Debezium's topics
        ordered = deliver(arrivals, by="depends_on", key=["destination"])
        query = into_database(ordered, "postgresql+psycopg://...", ["customer", "orders"], checkpoint="cp/shop")

    A crash repeats nothing and loses nothing: what is not whole at the end of a micro-batch is kept in the target. The
    driver reads each micro-batch, so bound its size (`maxOffsetsPerTrigger`). A stream is started and its query
    returned; a batch is written at once.

    Raises `MisuseError` if the frame does not come from `deliver` with `key=["destination"]` over `from_changes` with
    `order="commit"`.

    Args:
        ordered: what `deliver` returned for `from_changes(records, order="commit")`.
        url: of SQLAlchemy, for the target; the driver of Spark connects.
        tables: names of the source's tables, or a mapping from them to the target's, as in `thence.sinks.sql`.
        checkpoint: the checkpoint folder of a stream.
        trigger: the trigger of a stream, as in `{"availableNow": True}`; by default it goes on until it is stopped.
        positions: the table that says how far the target is; it is created if missing.
        open_changes: the table of changes whose transaction has not ended; it is created if missing.
        refused: what happens if the target refuses a row: `stop` or `dead-letter`, as in `thence.sinks.sql`.
        dead_letters: the table of refused transactions.
    """
    from thence.tables.sinks.micro_batches import CHANGE_COLUMNS

    lacking = [name for name in (*CHANGE_COLUMNS, "outcome", "position") if name not in ordered.columns]
    if delivery_key(ordered) != ["destination"] or lacking:
        missing = f"; it lacks {', '.join(lacking)}" if lacking else ""
        raise MisuseError(
            "into_database takes from_changes(...) of records with topic, partition and offset, delivered with "
            f"key=['destination']{missing}"
        )
    names: dict[str, Any] = {"since": check_commit_order(ordered, "into_database")}
    names |= {"positions": positions, "open_changes": open_changes, "dead_letters": dead_letters, "refused": refused}
    write = BatchWriter(url, tables, names)
    if not ordered.isStreaming:
        write(ordered, 0)
        return None
    if checkpoint is None:
        raise MisuseError("a stream needs checkpoint=, a permanent folder, in which Spark notes what was read")
    refuse_earlier(checkpoint)
    writer = ordered.writeStream.option("checkpointLocation", os.fspath(checkpoint))
    if trigger:
        writer = writer.trigger(**trigger)  # type: ignore[arg-type]
    return writer.foreachBatch(write).start()


class BatchWriter:
    """Writes micro-batches; it connects when the first comes, since Connect sends it to the server."""

    def __init__(self, url: str, tables: TargetTables, names: dict[str, Any]) -> None:
        """Note where to, without connecting."""
        self.url, self.tables, self.names = url, tables, names
        self._sink: MicroBatchSink | None = None

    def __call__(self, batch: DataFrame, _: int) -> None:
        """Write a micro-batch; after an error the next one reconnects."""
        from thence.tables.sinks.micro_batches import STAGED

        columns = [name for name in (*STAGED, "outcome", "position") if name in batch.columns]
        placed = batch.where(F.col("position").isNotNull()).select(*columns)
        # Sorted here: Spark would run the stateful step a second time to sample the order.
        rows = placed.toArrow().sort_by([("destination", "ascending"), ("position", "ascending")]).to_pylist()
        sink = self._connected()
        try:
            sink.write(rows)
        except BaseException:
            self._sink = None
            sink.close()
            raise

    def _connected(self) -> MicroBatchSink:
        if self._sink is None:
            import sqlalchemy

            from thence.tables.sinks.micro_batches import MicroBatchSink

            self._sink = MicroBatchSink(sqlalchemy.create_engine(self.url), self.tables, **self.names)
        return self._sink

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sink": None}
