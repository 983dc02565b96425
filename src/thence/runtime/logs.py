"""Logs of a live endpoint, by the standard library: each record is a sentence for people and facts for machines.

Law. Every record of the logger `thence.runtime` carries `event`, one of `EVENTS`, and `facts`, which hold what the
sentence tells; `JsonFormatter` writes both, one object a line. A handler of the application's own finds them as
attributes of the record.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

log = logging.getLogger("thence.runtime")

EVENTS = {
    "started": "an endpoint runs; inputs replayed",
    "stopped": "an endpoint has stopped cleanly",
    "failed": "an endpoint takes no part any more, and why",
    "connected": "the link to a peer is open",
    "lost": "the link to a peer has ended, and why",
    "refused": "a connection was refused, and why",
    "refuses": "a peer has refused a connection of this endpoint, and why",
    "trusted": "whom the failure detector trusts now",
    "without": "a message is delivered without causes whose senders were given up",
    "renewed": "changed certificates were read",
    "unusable": "changed certificates cannot be used yet, and why",
    "rotated": "the trace goes on in a new file",
}

Fact = str | int | float | None | list[str]


def note(level: int, event: str, sentence: str, *, error: BaseException | None = None, **facts: Fact) -> None:
    """Log one of `EVENTS`; with `error` its traceback too."""
    log.log(level, sentence, exc_info=error, extra={"event": event, "facts": facts})


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, event, sentence, and the facts by their names."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; records of other loggers have no event and no facts."""
        row = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": getattr(record, "event", None),
            "sentence": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            row["traceback"] = self.formatException(record.exc_info)
        return json.dumps(row, ensure_ascii=False, default=str)
