"""An excerpt of a trace, taken by Spark: the few rows that one picture takes, from a table of any size.

*Invariant.* `excerpt_frame(frame, excerpt)` holds exactly the rows that `thence.tables.explain.excerpt.excerpt_rows`
keeps of the same events. The ranges of indexes and the messages whose sends are needed are broadcast; no other row
passes through the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from thence.core.model.events import Event
from thence.tables.contract.row_validity import event_of
from thence.tables.engines.spark.read_events import read_events
from thence.tables.engines.spark.session import local_session
from thence.tables.explain.excerpt import Excerpt, message_excerpt, places_of, ranges_around
from thence.tables.explain.scene import Finding, Origin, RowId
from thence.tables.files.read import Trace

EventOrigin = tuple[Event, Origin | None]
"""An event, and where it was read."""
LIMIT = 200_000
"""Rows of an excerpt that are brought to the driver."""


def excerpt_frame(frame: DataFrame, excerpt: Excerpt) -> DataFrame:
    """Return the rows of an excerpt; `frame` has the columns of the trace table that the excerpt speaks of."""
    kept = _in_ranges(frame, excerpt).where(reduce(and_, _conditions(excerpt), F.lit(True)))
    needed = kept.where(F.col("kind").isin("receive", "deliver")).select("run", "message").distinct()
    inside = kept.select("run", "process", "index").distinct().withColumn("inside", F.lit(True))
    sends = needed.withColumn("kind", F.lit("send")).withColumn("needed", F.lit(True))
    marked = frame.join(F.broadcast(inside), ["run", "process", "index"], "left").join(
        F.broadcast(sends), ["run", "message", "kind"], "left"
    )
    return marked.where(F.col("inside") | F.col("needed")).select(*frame.columns)


def _in_ranges(frame: DataFrame, excerpt: Excerpt) -> DataFrame:
    if excerpt.index_ranges is None:
        return frame
    rows = [(each.process, each.first, each.last) for each in excerpt.index_ranges]
    near = frame.sparkSession.createDataFrame(rows, "of string, first bigint, last bigint")
    met = (F.col("process") == F.col("of")) & F.col("index").between(F.col("first"), F.col("last"))
    return frame.join(F.broadcast(near), met, "left_semi")


def _conditions(excerpt: Excerpt) -> list[Column]:
    found = []
    if excerpt.run is not None:
        found.append(F.col("run") == excerpt.run)
    if excerpt.processes is not None:
        found.append(F.col("process").isin(*sorted(excerpt.processes)))
    if excerpt.times is not None:
        found.append(F.col("time").between(*excerpt.times))
    if excerpt.orders is not None:
        found.append(F.col("order").between(*excerpt.orders))
    return found


def read_frame(trace: Trace, *, cores: int) -> DataFrame:
    """Return the events of a trace, all columns of the trace table, with where each was read."""
    frame = read_events(local_session(cores=cores), trace.files, trace.columns, whole=trace.whole)
    return frame.where(F.col("reason").isNull()).drop("reason")


def first_events(frame: DataFrame, limit: int) -> list[EventOrigin]:
    """Bring the first rows of an excerpt, by `order`, to the driver: at most `limit`, each with where it was read."""
    first = frame.orderBy("run", "order", "process", "index").limit(limit)
    places = {"file", "line"} <= set(frame.columns)
    found: list[EventOrigin] = []
    for row in first.toLocalIterator():
        event = event_of(row.asDict(recursive=True))
        if isinstance(event, Event):
            known = places and row["file"] is not None and row["line"] is not None
            found.append((event, (row["file"], row["line"]) if known else None))
    return found


def rows_about(frame: DataFrame, message: str) -> list[EventOrigin]:
    """Return the rows around everything that happened to a message, in the first run that sends it."""
    about = [event for event, _ in _about(frame, [(None, message)])]
    return first_events(excerpt_frame(frame, message_excerpt(about, message)), LIMIT)


def rows_around(frame: DataFrame, findings: Sequence[tuple[str, Finding]]) -> list[EventOrigin]:
    """Return the rows around some findings, in one job for each run that has any."""
    about = [event for event, _ in _about(frame, [(run, m) for run, each in findings for m in each.messages()])]
    found: list[EventOrigin] = []
    for run in dict.fromkeys(run for run, _ in findings):
        own = [event for event in about if event.run == run]
        places = [place for of, each in findings if of == run for place in places_of(own, each)]
        found += first_events(excerpt_frame(frame, Excerpt(run, index_ranges=ranges_around(places))), LIMIT)
    return found


def _about(frame: DataFrame, messages: Sequence[tuple[str | None, str]]) -> list[EventOrigin]:
    """Return the rows of some messages, of any run where none is named."""
    if not messages:
        return []
    asked = frame.sparkSession.createDataFrame(list(messages), "of string, asked string").distinct()
    met = (F.col("message") == F.col("asked")) & (F.col("of").isNull() | (F.col("run") == F.col("of")))
    return first_events(frame.join(F.broadcast(asked), met, "left_semi"), LIMIT)


def with_origins(rows: Sequence[EventOrigin]) -> tuple[list[Event], dict[str, dict[RowId, Origin]]]:
    """Return events, and for each run the origin of each of its rows."""
    origins: dict[str, dict[RowId, Origin]] = {}
    for event, place in rows:
        if place is not None:
            origins.setdefault(event.run, {}).setdefault((event.process, event.index), place)
    return [event for event, _ in rows], origins
