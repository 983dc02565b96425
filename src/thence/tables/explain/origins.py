"""The events of a trace together with where each was read: file, and line or row.

Law. The events are those of `Trace.events`, in the same order; what cannot be used is quarantined on the way.
"""

from __future__ import annotations

from collections import defaultdict

from thence.core.model.events import Event
from thence.tables.explain.scene import Origin, Row
from thence.tables.files.read import Trace
from thence.tables.files.source import Quarantined


def events_with_origins(trace: Trace) -> tuple[list[Event], dict[str, dict[Row, Origin]]]:
    """Return all events, and for each run the origin of each of its rows."""
    events: list[Event] = []
    origins: dict[str, dict[Row, Origin]] = defaultdict(dict)
    for file, found in trace.located():
        if isinstance(found, Quarantined):
            trace.quarantine.append(found)
            continue
        line, event = found
        events.append(event)
        origins[event.run].setdefault((event.process, event.index), (file, line))
    return events, dict(origins)
