"""`thence explain --fact`: why a copy in a recorded run must, or need not, carry a fact."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from thence.cli._common import console, finish, write_json
from thence.core.model.escape import visible_lines
from thence.core.model.message_names import HOPS
from thence.errors import MisuseError, TraceError

if TYPE_CHECKING:
    from thence.core.model.events import Event
    from thence.core.model.minimum import Fact
    from thence.tables.files.read import Trace

MOST_EVENTS = 30_000
"""events of a run that carry causality: the definitions are evaluated with the past of each event in memory"""
SHOWN_ENDPOINTS = 10
"""endpoints; all of them are in the JSON"""
CARRIED = {
    True: "the stamp, as recorded, has it",
    False: "the stamp, as recorded, does not have it",
}


def why_on_copy(trace: Trace, asked: tuple[str, str, str, str], run: str | None, json_file: str | None) -> None:
    """Explain from one run why the copy must, or need not, carry the fact."""
    from thence.core.model.fixed_points import FixedPoints
    from thence.core.model.order import gaps, usable

    events = list(trace.events())
    chosen = _one_run(sorted({event.run for event in events if not event.run.endswith(HOPS)}), run)
    rows = [event for event in events if event.run == chosen]
    good, rejected = usable(rows)
    fact, copy = asked[:2], asked[2:]
    same = _one_order([event for event in good if event.kind != "crash"], fact[0], copy[0])
    if (size := sum(event.kind != "receive" for event in same)) > MOST_EVENTS:
        raise TraceError(
            f"run {chosen} has {size} sends, deliveries and internal events; at most {MOST_EVENTS} are accepted"
        )
    found = FixedPoints(same)
    why, points, ends = found.why(fact, copy), found.fixed_points(*fact), found.endpoints(*fact)
    carried, missing = recorded(same, fact, copy), bool(rejected or gaps(rows))
    lines = [why.sentence(), *([] if carried is None else [CARRIED[carried]])]
    for point in points:
        what = "delivered there" if point.kind == "FP1" else f"{point.event.message} takes over"
        lines.append(f"{point.kind}: {what}, at {point.event.process} {point.event.index}")
    if ends:
        lines.append(f"on each causal path it ends at: {_places(ends)}")
    if missing:
        lines.append("rows are missing or unusable (`thence audit` names them); with them the answer may be another")
    out = console(json_file)
    for line in lines:
        out.print(visible_lines(line))
    result = {"needed": why.needed, "carried": carried, "sentence": why.sentence(), "path": _rows(why.path)}
    fixed = [{"kind": p.kind, "process": p.event.process, "index": p.event.index} for p in points]
    write_json(json_file, {**result, "fixed_points": fixed, "endpoints": _rows(ends), "rows_missing": missing})
    finish(0)


def recorded(events: list[Event], fact: Fact, copy: Fact) -> bool | None:
    """Return whether the stamp of a copy has a fact; None if the trace does not record that stamp."""
    for event in events:
        if (event.message, event.process) == copy and event.dependencies is not None and event.kind != "send":
            return any(fact[0] == message and fact[1] in to for message, to in event.dependencies)
    return None


def _rows(events: Iterable[Event]) -> list[dict[str, object]]:
    return [{"process": e.process, "index": e.index, "kind": e.kind, "message": e.message} for e in events]


def _places(events: list[Event]) -> str:
    more = f" and {len(events) - SHOWN_ENDPOINTS} more" if len(events) > SHOWN_ENDPOINTS else ""
    return ", ".join(f"{event.process} {event.index}" for event in events[:SHOWN_ENDPOINTS]) + more


def _one_run(runs: list[str], wanted: str | None) -> str:
    """Return the run to use, or raise an error that lists the runs."""
    if not runs:
        raise TraceError("the trace has no events; a run with sends and deliveries is accepted")
    named = ", ".join(runs[:5]) + (f" and {len(runs) - 5} more" if len(runs) > 5 else "")
    if wanted is not None and wanted not in runs:
        raise MisuseError(f"no run {wanted!r}; there are {named}")
    if wanted is None and len(runs) != 1:
        raise MisuseError(f"{len(runs)} runs ({named}); choose one with --run")
    return wanted or runs[0]


def _one_order(rows: list[Event], message: str, copy: str) -> list[Event]:
    """Return the rows of the label under which both messages are sent; reject messages of two labels."""
    from thence.core.model.fixed_points import never_sent
    from thence.core.model.order import by_label

    labels = {event.message: event.label for event in rows if event.kind == "send" and event.message is not None}
    for each in (message, copy):
        if each not in labels:
            raise never_sent(each, list(labels))
    if labels[message] != labels[copy]:
        raise MisuseError(
            f"{message} is sent under label {labels[message]!r} and {copy} under {labels[copy]!r}: two orders, neither "
            "says anything of the other"
        )
    return by_label(rows)[labels[message]]
