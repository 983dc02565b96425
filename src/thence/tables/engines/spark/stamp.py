"""Minimal stamps afterwards: from a trace, or from explicit causes, for destinations that see only part of the traffic.

    arrivals = stamp(events)                      # depends_on: the last causes of each copy at its destination
    arrivals = stamp(events, roster=[...])        # and the same as a wire stamp

Law. One row per copy: run, destination, arrival (the index of its `receive` row there, else of its first `deliver` row,
else null), message, sender, label, depends_on, stamp (null without a roster). See
`thence.tables.delivery.minimal_stamps` for what the causes are. Runs are worked on apart, each in one task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from thence.core.model.events import Event
from thence.core.model.roster import Roster
from thence.errors import MisuseError
from thence.tables.contract.row_validity import event_of
from thence.tables.delivery.minimal_stamps import from_causes, from_events
from thence.tables.explain.causality import with_order

SCHEMA = (
    "run string, destination string, arrival long, message string, sender string, label string, "
    "depends_on array<string>, stamp binary"
)
_ARROW = pa.schema(
    [
        ("run", pa.string()),
        ("destination", pa.string()),
        ("arrival", pa.int64()),
        ("message", pa.string()),
        ("sender", pa.string()),
        ("label", pa.string()),
        ("depends_on", pa.list_(pa.string())),
        ("stamp", pa.binary()),
    ]
)


def stamp(events: DataFrame, *, roster: Roster | Iterable[str] | None = None, run: str = "run") -> DataFrame:
    """Stamp a trace (it has `kind`), or messages with `message, destinations, depends_on` and perhaps `sender`."""
    names = roster if roster is None or isinstance(roster, Roster) else Roster(roster)
    columns = set(events.columns)
    table = events if run in columns else events.withColumn(run, F.lit("run"))
    if "kind" in columns:
        return table.groupBy(run).applyInArrow(_of_trace(names), SCHEMA)
    if {"message", "destinations", "depends_on"} <= columns:
        if roster is not None:
            raise MisuseError("roster= goes with a trace; explicit causes stay explicit (by='depends_on')")
        return table.groupBy(run).applyInArrow(_of_causes(run), SCHEMA)
    raise MisuseError(
        f"columns {', '.join(events.columns)}: neither a trace (run, process, index, kind, ...) nor messages with "
        "message, destinations and depends_on"
    )


def _of_trace(roster: Roster | None) -> Callable[[pa.Table], pa.Table]:
    def stamped(table: pa.Table) -> pa.Table:
        events = [event for row in table.to_pylist() if isinstance(event := event_of(row), Event)]
        if all(event.order is not None for event in events):
            events.sort(key=lambda event: event.order or 0)
        else:
            events = list(with_order(events))
        arrived: dict[tuple[str, str], int] = {}
        for kind in ("deliver", "receive"):
            first = {(e.process, e.message or ""): e.index for e in reversed(events) if e.kind == kind}
            arrived |= first
        rows = [s._asdict() | {"arrival": arrived.get((s.destination, s.message))} for s in from_events(events, roster)]
        return pa.Table.from_pylist(rows, schema=_ARROW)

    return stamped


def _of_causes(run: str) -> Callable[[pa.Table], pa.Table]:
    def stamped(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        goes_to = {row["message"]: row["destinations"] or () for row in rows}
        causes = {row["message"]: row["depends_on"] or () for row in rows}
        senders = {row["message"]: row.get("sender") for row in rows}
        name = rows[0][run]
        made = [
            {"run": name, "destination": d, "message": m, "sender": senders[m], "depends_on": list(last)}
            for m, d, last in from_causes(goes_to, causes)
        ]
        return pa.Table.from_pylist(made, schema=_ARROW)

    return stamped
