"""Minimal stamps afterwards: from a trace, or from explicit causes, for destinations that see only part of the traffic.

    arrivals = stamp(events)                      # depends_on: the last causes of each copy at its destination
    arrivals = stamp(events, roster=[...])        # and the same as a wire stamp

Invariant: one row per copy: run, destination, arrival (the index of its `receive` row there, else of its first
`deliver` row, else null), message, sender, label, depends_on, stamp (null without a roster). See
`thence.tables.delivery.minimal_stamps` for what the causes are. Runs are worked on apart, each in one task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from thence.core.model.events import Event
from thence.core.model.roster import Roster
from thence.tables.contract.row_validity import event_of
from thence.tables.contract.spark_to_arrow_types import ddl_of_types, schema_of_types
from thence.tables.engines.local.stamp import RUN, STAMPED, is_trace, messages_of_run, stamped_run
from thence.tables.engines.spark.event_columns import in_our_names
from thence.tables.engines.spark.workers import check_frame

STAMPED_DDL = ddl_of_types(STAMPED)
_ARROW = schema_of_types(STAMPED)


def stamp(
    events: DataFrame,
    *,
    roster: Roster | Iterable[str] | None = None,
    columns: Mapping[str, str] | None = None,
    kinds: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return one row for each copy of a message, with its last causes at its destination.

    Args:
        events: a trace (it has `kind`), or messages with `message, destinations, depends_on` and perhaps `sender` and
            `run`.
        roster: the processes in order of position; with it, the column `stamp` has stamps in the wire format.
        columns: the trace's own names for the columns of the contract, as in `{"process": "pid"}`.
        kinds: the trace's own values of `kind`, as in `{"PRODUCED": "send"}`.
    """
    check_frame(events, "stamp")
    trace = is_trace(events.columns, roster, columns, kinds)
    if columns or kinds:
        events = in_our_names(events, columns, kinds)
    names = roster if roster is None or isinstance(roster, Roster) else Roster(roster)
    table = events if "run" in events.columns else events.withColumn("run", F.lit(RUN))
    return table.groupBy("run").applyInArrow(_of_trace(names) if trace else _of_causes(), STAMPED_DDL)


def _of_trace(roster: Roster | None) -> Callable[[pa.Table], pa.Table]:
    def stamped(table: pa.Table) -> pa.Table:
        events = [event for row in table.to_pylist() if isinstance(event := event_of(row), Event)]
        return pa.Table.from_pylist(stamped_run(events, roster), schema=_ARROW)

    return stamped


def _of_causes() -> Callable[[pa.Table], pa.Table]:
    def stamped(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        return pa.Table.from_pylist(messages_of_run(rows[0]["run"], rows), schema=_ARROW)

    return stamped
