"""A scene as text: a column for each process, time downwards.

Invariant: rows are drawn in the order of the scene. `*` marks the rows of a proof; the first deliveries of the two
messages of a violation are remarked upon. What is left out is said.
"""

from __future__ import annotations

from collections.abc import Sequence

from thence.core.model.escape import visible
from thence.core.model.events import Event
from thence.tables.explain.scene import Finding, Scene
from thence.tables.explain.sentence import VERBS


def diagram(scene: Scene, *, limit: int = 12, width: int | None = None) -> str:
    """Draw a scene and the first of its findings; where columns are wider than `width`, one row below the other."""
    finding = scene.findings[0] if scene.findings else None
    on_path = {(step.process, step.index) for step in (finding.path if finding else None) or ()}
    drawn = scene.events[:limit]
    processes = list(dict.fromkeys(event.process for event in drawn))
    cells = [f"{'*' if (event.process, event.index) in on_path else 'o'} {_deed(event)}" for event in drawn]
    widths = {p: len(visible(p)) for p in processes}
    for event, cell in zip(drawn, cells, strict=True):
        widths[event.process] = max(widths[event.process], len(cell))
    lines = [_line(processes, widths, {process: visible(process) for process in processes})]
    lines.append(_line(processes, widths, {}))
    remarks = _remarks(drawn, finding)
    for place, (event, cell) in enumerate(zip(drawn, cells, strict=True)):
        lines.append(_line(processes, widths, {event.process: cell}) + remarks.get(place, ""))
    if width is not None and max(map(len, lines)) > width:
        names = [visible(event.process) for event in drawn]
        lines = [
            f"{name.ljust(max(map(len, names)))}   {cell}{remarks.get(place, '')}"
            for place, (name, cell) in enumerate(zip(names, cells, strict=True))
        ]
    if len(scene.events) > limit:
        lines.append(f"... and {len(scene.events) - limit} more")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _line(processes: Sequence[str], widths: dict[str, int], cells: dict[str, str]) -> str:
    return "   ".join(cells.get(process, "|").ljust(widths[process]) for process in processes)


def _deed(event: Event) -> str:
    text = VERBS.get(event.kind, event.kind)
    if event.message is not None:
        text += f" {visible(event.message)}"
    if event.kind == "send" and event.destinations is not None:
        names = [visible(name) for name in event.destinations]
        text += f" to {', '.join(names) or 'no process'}" if len(names) <= 3 else f" to {len(names)} processes"
    return text


def _remarks(events: Sequence[Event], finding: Finding | None) -> dict[int, str]:
    """Return what to say beside the first delivery of each of a violation's two messages."""
    if finding is None or not finding.violation:
        return {}
    there = [
        (event.message, place)
        for place, event in enumerate(events)
        if event.kind == "deliver" and event.process == finding.destination
    ]
    first = dict(reversed(there))
    remarks = {
        finding.early: f"   <- too early: {visible(finding.message or '')} is missing",
        finding.message: "   <- too late",
    }
    return {first[message]: text for message, text in remarks.items() if message in first}
