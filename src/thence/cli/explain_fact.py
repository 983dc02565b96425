"""`thence explain --fact`: why a fact is, or need not be, on a copy of a recorded run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from thence.cli._common import console, finish, write_json
from thence.errors import MisuseError, TraceError
from thence.model.escape import visible_lines

if TYPE_CHECKING:
    from thence.trace.read import Trace

MOST = 5000
"""events of a run: everything is worked out by definition, with the past of every event at hand"""


def why_on_copy(trace: Trace, asked: tuple[str, str, str, str], run: str | None, json_file: str | None) -> None:
    """Read one run, and say why the copy must, or need not, carry the fact."""
    from thence.model.fixed_points import FixedPoints
    from thence.model.order import by_label, usable

    events = list(trace.events())
    chosen = _one_run(sorted({event.run for event in events if not event.run.endswith("/hops")}), run)
    rows = [event for event in usable([event for event in events if event.run == chosen])[0] if event.kind != "crash"]
    message, destination, copy, to = asked
    labels = {event.message: event.label for event in rows if event.kind == "send"}
    if labels.get(message) != labels.get(copy) and copy in labels and message in labels:
        raise MisuseError(
            f"{message} is sent under label {labels[message]!r} and {copy} under {labels[copy]!r}: two orders, neither "
            "says anything of the other"
        )
    same = by_label(rows).get(labels.get(message, labels.get(copy)), [])
    if len(same) > MOST:
        raise TraceError(
            f"run {chosen} has {len(same)} events; at most {MOST} are looked at, so cut a slice of it first: "
            f"thence convert TRACE --around {message}"
        )
    found = FixedPoints(same)
    why = found.why((message, destination), (copy, to))
    points = found.fixed_points(message, destination)
    out = console(json_file)
    out.print(visible_lines(why.sentence()))
    for point in points:
        what = "delivered there" if point.kind == "FP1" else f"{point.event.message} takes over"
        out.print(visible_lines(f"{point.kind}: {what}, at {point.event.process} {point.event.index}"))
    where = [{"kind": p.kind, "process": p.event.process, "index": p.event.index} for p in points]
    path = [{"process": e.process, "index": e.index, "kind": e.kind, "message": e.message} for e in why.path]
    write_json(json_file, {"needed": why.needed, "sentence": why.sentence(), "path": path, "fixed_points": where})
    finish(0)


def _one_run(runs: list[str], wanted: str | None) -> str:
    """Return the run to look in, or say which there are."""
    named = ", ".join(runs[:5]) + (f" and {len(runs) - 5} more" if len(runs) > 5 else "") or "none"
    if wanted is not None and wanted not in runs:
        raise MisuseError(f"no run {wanted!r}; there are {named}")
    if wanted is None and len(runs) != 1:
        raise MisuseError(f"{len(runs)} runs to look in ({named}); say which with --run")
    return wanted or runs[0]
