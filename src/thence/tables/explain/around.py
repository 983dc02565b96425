"""The part of a trace around one message: enough to see what happened to it, small enough to look at.

Invariant: the slice holds the send of the message, everything that arrived or was delivered of it, and the row
before and after each of these at its process. For every message that overtook it, or that it overtook, it
holds the causal path and the deliveries that show it. Where it holds a delivery it holds the send of that
message. Rows are unchanged and keep their order; what happened before what among them is as in the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from thence.core.model.events import Event
from thence.core.model.order import Violation, by_label, by_run, usable
from thence.errors import MisuseError
from thence.tables.explain.causality import Causality, CausalPosition
from thence.tables.explain.scene import shown_by, violated
from thence.tables.explain.sentence import shortest


def around(events: Iterable[Event], message: str) -> list[Event]:
    """Return the rows around a message, from every run that sends it."""
    found: list[Event] = []
    for rows in by_run(events).values():
        if any(event.kind == "send" and event.message == message for event in rows):
            found += _around(rows, message)
    if not found:
        raise MisuseError(f"no run of the trace sends a message {message!r}")
    return found


def _around(rows: list[Event], message: str) -> list[Event]:
    good, _ = usable(rows)
    for part in by_label(good).values():
        causality = Causality(part)
        if message in causality.send:
            kept = {(e.process, e.index) for e in _neighbours(causality, message)}
            kept |= {(e.process, e.index) for e in part if e.message == message}
            for violation in overtakings(causality, message):
                steps = shortest(causality, violation.missing, violation.early)
                kept |= {(e.process, e.index) for e in shown_by(part, violated(violation, steps))}
            kept |= {_send_of(causality, e) for e in part if (e.process, e.index) in kept}
            return [e for e in part if (e.process, e.index) in kept]
    return []


def _neighbours(causality: Causality, message: str) -> Iterator[Event]:
    for process, position in (causality.send[message], *causality.deliveries.get(message, ())):
        yield from causality.rows[process][max(position - 1, 0) : position + 2]


def _send_of(causality: Causality, event: Event) -> tuple[str, int]:
    if event.kind not in ("deliver", "receive") or event.message is None:
        return event.process, event.index
    send = causality.event(causality.send[event.message])
    return send.process, send.index


def overtakings(causality: Causality, message: str) -> list[Violation]:
    """Return each violation `message` has a part in: overtaken (as `missing`) or overtaking (as `early`)."""
    return [*_as_missing(causality, message), *_as_early(causality, message)]


def _as_missing(causality: Causality, message: str) -> Iterator[Violation]:
    start = causality.send[message]
    send = causality.event(start)
    future = causality.future(start)
    for destination in send.destinations or ():
        for other in causality.delivered(destination):
            if other == message:
                break
            if _from(causality.send[other], future):
                yield Violation(send.run, destination, other, message)
                break


def _as_early(causality: Causality, message: str) -> Iterator[Violation]:
    end = causality.send[message]
    past = causality.past(end)
    run = causality.event(end).run
    causes = [m for m, (process, position) in causality.send.items() if position <= past.get(process, -1)]
    for destination in dict.fromkeys(process for process, _ in causality.deliveries.get(message, ())):
        delivered = causality.delivered(destination)
        for missing in causes:
            if missing == message or destination not in (causality.event(causality.send[missing]).destinations or ()):
                continue
            if delivered.get(missing, delivered[message]) >= delivered[message] and not _earlier(
                causality, missing, delivered, message
            ):
                yield Violation(run, destination, message, missing)


def _earlier(causality: Causality, missing: str, delivered: dict[str, int], message: str) -> bool:
    """Tell whether another message that follows `missing` was delivered even before `message`."""
    future = causality.future(causality.send[missing])
    for other in delivered:
        if other == message:
            return False
        if other != missing and _from(causality.send[other], future):
            return True
    return False


def _from(place: CausalPosition, future: dict[str, int]) -> bool:
    process, position = place
    return process in future and future[process] <= position
