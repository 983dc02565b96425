"""Event-sourced messages that name their cause: `id`, `causation_id`, and a correlation or stream they belong to.

Law. A message waits for the one that caused it. An id that equals the causation id marks the first of a conversation
(as many frameworks write it) and waits for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Row = dict[str, Any]


def from_event(
    event: Mapping[str, Any],
    *,
    id: str = "id",
    causation: str = "causation_id",
    destination: str = "correlation_id",
    sender: str = "source",
    time: str = "time",
) -> Row:
    """Return the arrival of one message; the parameters are the names of its fields."""
    own, cause = event.get(id), event.get(causation)
    causes = cause if isinstance(cause, list | tuple) else [cause]
    return {
        "run": None,
        "destination": event.get(destination),
        "message": None if own is None else str(own),
        "sender": event.get(sender),
        "time": event.get(time),
        "depends_on": [str(each) for each in causes if each is not None and each != own],
    }
