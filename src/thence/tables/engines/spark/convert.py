"""Events of a trace, read, ordered and sorted by Spark, for writing.

    with events_to_write(spark, trace, by_order=True) as (count, events): ...

Invariant: the events are those that `thence convert` writes in this process, in the same order: as they are read;
sorted by `order` where several files are asked for; and where the first has no `order`, run by run in the order that
`tables.explain.causality.with_order` derives. They come to the driver a partition at a time. What cannot be used is
quarantined.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from thence.core.model.events import Event
from thence.errors import TraceError
from thence.tables.contract.columns import EVENT_COLUMNS, ddl, names_of
from thence.tables.contract.row_validity import event_of, readable
from thence.tables.contract.spark_to_arrow_types import arrow_schema
from thence.tables.engines.spark.read_events import read_events
from thence.tables.explain.causality import with_order
from thence.tables.files.checked_batches import columns_of
from thence.tables.files.read import Trace
from thence.tables.files.source import Quarantined

_NAMES = list(names_of(EVENT_COLUMNS))
_READ = "place as it is read"


@contextmanager
def events_to_write(
    spark: SparkSession, trace: Trace, *, by_order: bool = False, around: str | None = None
) -> Iterator[tuple[int, Iterator[Event]]]:
    """Yield the number of events, and the events; `around` leaves those runs only that send a message."""
    read = (
        read_events(spark, trace.files, trace.columns, whole=trace.whole)
        .withColumn(_READ, F.monotonically_increasing_id())
        .persist()
    )
    try:
        trace.quarantine += map(_refused, read.where("reason IS NOT NULL").orderBy(_READ).toLocalIterator())
        frame = read.where("reason IS NULL")
        if around is not None:
            frame = _sending(frame, around)
        yield frame.count(), _events(_sorted(frame, by_order=by_order))
    finally:
        read.unpersist()


def _sorted(frame: DataFrame, *, by_order: bool) -> DataFrame:
    first = frame.orderBy(_READ).select("order").head()
    if first is not None and first["order"] is None:
        ordered = frame.select(_NAMES).groupBy("run").applyInArrow(_with_order, ddl(EVENT_COLUMNS, nullable=True))
        return ordered.orderBy(*(("order", "run") if by_order else ("run", "order")))
    if by_order and frame.where("`order` IS NULL").limit(1).count():
        raise TraceError(
            "some rows have an `order` and others none: several files are cut by it; rows that all have one, or none, "
            "are accepted, or one file"
        )
    return frame.orderBy("order", _READ) if by_order else frame


def _with_order(rows: pa.Table) -> pa.Table:
    """Give the rows of one run an order."""
    events = with_order(_event(row) for row in rows.to_pylist())
    return pa.table(columns_of(events), schema=arrow_schema(EVENT_COLUMNS, nullable=True))


def _sending(frame: DataFrame, message: str) -> DataFrame:
    sent = (F.col("kind") == "send") & (F.col("message") == message)
    return frame.join(F.broadcast(frame.where(sent).select("run").distinct()), "run", "left_semi")


def _events(frame: DataFrame) -> Iterator[Event]:
    for row in frame.select(_NAMES).toLocalIterator(prefetchPartitions=True):
        yield _event(row.asDict(recursive=True))


def _event(row: dict[str, object]) -> Event:
    found = event_of(row)
    assert isinstance(found, Event), found  # the readers have checked every row
    return found


def _refused(row: object) -> Quarantined:
    fields = row.asDict(recursive=True)  # type: ignore[attr-defined]
    return Quarantined(fields["file"], fields["line"], fields["reason"], left=readable({n: fields[n] for n in _NAMES}))
