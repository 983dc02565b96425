"""`thence.stamp`: the minimal causes of each copy, computed afterwards in this process.

    arrivals = thence.stamp(events)                    # depends_on: the last causes of each copy at its destination
    arrivals = thence.stamp(events, roster=[...])      # and the same as a wire stamp

*Invariant.* One row per copy, with the columns of `STAMPED`: arrival is the index of its `receive` row there, else
of its first `deliver` row, else null; stamp is null without a roster. `thence.tables.delivery.minimal_stamps` says what
the causes are. Runs are independent. The rows of a run are those that `thence.spark.stamp` makes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from thence.core.model.events import Event
from thence.core.model.order import by_run
from thence.core.model.plain import Fields, Row
from thence.core.model.roster import Roster
from thence.errors import Argument, MisuseError
from thence.tables.contract.columns import EVENT_COLUMNS, JUDGED_COLUMNS, names_of, renamed
from thence.tables.delivery.minimal_stamps import from_causes, stamp_run
from thence.tables.explain.causality import with_order
from thence.tables.files.event_input import input_events
from thence.tables.files.inputs import DictTable, FileNames, InputTable, TraceInput, trace_input
from thence.tables.files.read import open_trace

if TYPE_CHECKING:
    import pyarrow as pa

STAMPED = {
    "run": "string",
    "destination": "string",
    "arrival": "long",
    "message": "string",
    "sender": "string",
    "label": "string",
    "depends_on": "array<string>",
    "stamp": "binary",
}
"""The columns of stamped copies, and their types as Spark SQL writes them."""
MESSAGES = ("message", "destinations", "depends_on")
"""Columns of a table of messages that name their causes."""
RUN = "run"
"""The run of messages without a run."""


def stamp(
    events: TraceInput,
    *,
    roster: Roster | Iterable[str] | None = None,
    columns: Mapping[str, str] | None = None,
    kinds: Mapping[str, str] | None = None,
) -> Any:
    """Return one row for each copy of a message, with its last causes at its destination.

    What comes out is of the kind that went in; a list of dicts for events, a pyarrow Table for files.

    Args:
        events: a trace (it has `kind`), or a table of messages with `message, destinations, depends_on` and perhaps
            `sender` and `run`.
        roster: the processes in order of position; with it, the column `stamp` has stamps in the wire format.
        columns: the trace's own names for the columns of the contract, as in `{"process": "pid"}`.
        kinds: the trace's own values of `kind`, as in `{"PRODUCED": "send"}`.
    """
    names = roster if roster is None or isinstance(roster, Roster) else Roster(roster)
    given = trace_input(events, columns, kinds)
    if isinstance(given, InputTable):
        return given.made(_arrow(_of_table(given, names, columns, kinds)))
    if isinstance(given, FileNames):
        return _arrow(stamped(open_trace(given.names, columns=columns, kinds=kinds).events(JUDGED_COLUMNS), names))
    return stamped(given, names)


def is_trace(
    names: Collection[str], roster: object, columns: Mapping[str, str] | None, kinds: Mapping[str, str] | None
) -> bool:
    """Return whether a table of these columns is a trace or holds messages that name their causes; reject others.

    Arguments that apply only to a trace are rejected for messages.
    """
    if (columns or {}).get("kind", "kind") in names:
        return True
    if not set(MESSAGES) <= set(names):
        raise MisuseError(
            f"columns {', '.join(names)}: neither a trace (run, process, index, kind, ...) nor messages with "
            f"{', '.join(MESSAGES)}"
        )
    if roster is not None:
        raise MisuseError(
            Argument("roster"), " goes with a trace; explicit causes stay explicit (", Argument("by", "depends_on"), ")"
        )
    if columns or kinds:
        raise MisuseError(f"{'columns' if columns else 'kinds'}= goes with a trace; rename the columns of messages")
    return False


def _of_table(
    table: InputTable, roster: Roster | None, columns: Mapping[str, str] | None, kinds: Mapping[str, str] | None
) -> list[Row]:
    if is_trace(table.names, roster, columns, kinds):
        own = renamed(EVENT_COLUMNS, columns, kinds)
        events, _ = input_events(table, [column for column in own if column.name in names_of(JUDGED_COLUMNS)])
        return stamped(events, roster)
    rows = table.rows if isinstance(table, DictTable) else table.arrow([*MESSAGES, "sender", "run"]).to_pylist()
    return _stamped_messages(rows)


def stamped(events: Iterable[Event], roster: Roster | None = None) -> list[Row]:
    """Return the copies of a trace of any number of runs."""
    return [row for _, rows in sorted(by_run(events).items()) for row in stamped_run(rows, roster)]


def stamped_run(events: Sequence[Event], roster: Roster | None = None) -> list[Row]:
    """Return the copies of one run."""
    if all(event.order is not None for event in events):
        ordered = sorted(events, key=lambda event: event.order or 0)
    else:
        ordered = list(with_order(events))
    arrived: dict[tuple[str, str], int] = {}
    for kind in ("deliver", "receive"):
        arrived |= {(e.process, e.message or ""): e.index for e in reversed(ordered) if e.kind == kind}
    copies = stamp_run(ordered, roster)
    return [_row(copy._asdict(), arrived.get((copy.destination, copy.message))) for copy in copies]


def _stamped_messages(rows: Sequence[Fields]) -> list[Row]:
    """Return the copies of messages that name their causes, run by run."""
    runs: dict[str, list[Fields]] = {}
    for row in rows:
        runs.setdefault(row.get("run", RUN), []).append(row)
    return [row for run, each in runs.items() for row in messages_of_run(run, each)]


def messages_of_run(run: str, rows: Sequence[Fields]) -> list[Row]:
    """Return the copies of the messages of one run."""
    goes_to = {row["message"]: row.get("destinations") or () for row in rows}
    causes = {row["message"]: row.get("depends_on") or () for row in rows}
    senders = {row["message"]: row.get("sender") for row in rows}
    return [
        _row({"run": run, "destination": d, "message": m, "sender": senders[m], "depends_on": last}, None)
        for m, d, last in from_causes(goes_to, causes)
    ]


def _row(values: Row, arrival: int | None) -> Row:
    found = values | {"arrival": arrival, "depends_on": list(values["depends_on"])}
    return {name: found.get(name) for name in STAMPED}


def _arrow(rows: list[Row]) -> pa.Table:
    import pyarrow as pa

    from thence.tables.contract.spark_to_arrow_types import schema_of_types

    return pa.Table.from_pylist(rows, schema_of_types(STAMPED))
