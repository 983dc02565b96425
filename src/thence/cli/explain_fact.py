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

    events = [e for e in trace.events() if run is None or e.run == run]
    runs = sorted({event.run for event in events if not event.run.endswith("/hops")})
    if len(runs) != 1:
        named = ", ".join(runs[:5]) or "none"
        raise MisuseError(f"{len(runs)} runs to look in ({named}); say which with --run")
    rows = [event for event in usable([event for event in events if event.run == runs[0]])[0] if event.kind != "crash"]
    message, destination, copy, to = asked
    label = next((event.label for event in rows if event.kind == "send" and event.message == message), None)
    same = by_label(rows).get(label, [])
    if len(same) > MOST:
        raise TraceError(
            f"run {runs[0]} has {len(same)} events; at most {MOST} are looked at, so cut a slice of it first"
        )
    if not same:
        raise MisuseError(f"no message {message!r} was sent in this run")
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
