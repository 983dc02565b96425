"""The events of a trace together with where each was read: file, and line or row.

Law. The events are those of `Trace.events`, in the same order; what cannot be used is quarantined on the way.
"""

from __future__ import annotations

from collections import defaultdict

from thence.model.events import Event
from thence.trace.jsonl import located
from thence.trace.read import Trace
from thence.trace.scene import Origin, Row
from thence.trace.source import Quarantined, open_bytes


def events_with_origins(trace: Trace) -> tuple[list[Event], dict[str, dict[Row, Origin]]]:
    """Return all events, and for each run the origin of each of its rows."""
    events: list[Event] = []
    origins: dict[str, dict[Row, Origin]] = defaultdict(dict)
    start = 0
    for path, kind in trace.files.items():
        line = 0
        if kind == "jsonl":
            stream = open_bytes(path)
            found = located(stream, str(path), start=start)
        elif kind == "parquet":
            from thence.trace.parquet import located_rows

            found = located_rows(path)
        else:
            continue
        for each in found:
            if isinstance(each, Quarantined):
                trace.quarantine.append(each)
                continue
            line, event = each
            events.append(event)
            origins[event.run].setdefault((event.process, event.index), (str(path), line))
        start += line
    return events, dict(origins)
