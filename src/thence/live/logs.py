"""Logs of a live endpoint, through the standard library: each record is a sentence with the facts behind it.

Invariant: every record of the logger `thence.runtime` carries `event`, one of `EVENTS`, and `facts`, which hold what
the sentence tells; `JsonFormatter` writes both, one object a line. A handler of the application's own finds them as
attributes of the record. Text from peers is escaped in records, and repeated warnings are limited.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime

log = logging.getLogger("thence.runtime")

EVENTS = {
    "started": "an endpoint runs; inputs replayed",
    "stopped": "an endpoint has stopped cleanly",
    "failed": "an endpoint has failed, and why",
    "connected": "the link to a peer is open",
    "lost": "the link to a peer has ended, and why",
    "unreachable": "the NATS servers cannot be used, and why",
    "refused": "a connection was refused, and why",
    "refuses": "a peer has refused a connection of this endpoint, and why",
    "trusted": "the processes that the failure detector trusts now",
    "buried": "a message that was tried often enough has gone to the dead letters",
    "without": "a message is delivered without causes whose senders were given up",
    "renewed": "changed certificates were read",
    "unusable": "changed certificates cannot be used yet, and why",
    "rotated": "the trace continues in a new file",
}

MINUTE = 60.0
CAUSES = 10
PEERS = 1000
_NUMBERS = re.compile(r"\d+")

LogValue = str | int | float | None | list[str]


def note(level: int, event: str, sentence: str, *, error: BaseException | None = None, **facts: LogValue) -> None:
    """Log one of `EVENTS`; with `error` its traceback too."""
    _log(level, event, sentence, facts, error)


def _log(level: int, event: str, sentence: str, facts: dict[str, LogValue], error: BaseException | None) -> None:
    escaped = {key: printable(fact) if isinstance(fact, str) else fact for key, fact in facts.items()}
    log.log(level, printable(sentence), exc_info=error, extra={"event": event, "facts": escaped})


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


def printable(text: str) -> str:
    """Return text of others so that it cannot move a terminal or forge a line: what is not printable is escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class Warnings:
    """Logs a warning once for each peer, cause and minute, with the number of suppressed repetitions.

    A cause is the sentence without its numbers. No peer has more than `CAUSES` causes in a minute, and no more than
    `PEERS` pairs of a peer and a cause are kept.
    """

    def __init__(self, process: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the name of this process, and the clock."""
        self._process, self._clock = process, clock
        self._said: dict[tuple[str, str], list[float]] = {}
        """time of the last warning, and how many were suppressed since"""

    def refuse(self, host: str, reason: str) -> None:
        """Warn that a connection from a host is refused."""
        sentence = f"{self._process} refuses a connection from {host}: {reason}"
        self.say("refused", host, sentence, host=host, reason=reason)

    def say(self, event: str, peer: str, sentence: str, /, **facts: LogValue) -> None:
        """Warn, unless that was said within the last minute."""
        now, key = self._clock(), (peer, _NUMBERS.sub("#", f"{event} {sentence}"))
        self._said = {each: last for each, last in self._said.items() if now - last[0] < 2 * MINUTE}
        if key in self._said and now - self._said[key][0] < MINUTE:
            self._said[key][1] += 1
            return
        held_back = int(self._said.pop(key, [0.0, 0])[1])
        if len(self._said) >= PEERS or sum(other == peer for other, _ in self._said) >= CAUSES:
            return
        self._said[key] = [now, 0]
        more = f" ({held_back} more like this in the last minute)" if held_back else ""
        _log(logging.WARNING, event, sentence + more, {"process": self._process, **facts}, None)
