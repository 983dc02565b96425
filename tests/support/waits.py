"""The judge of needless waiting, by definition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from thence.core.model.events import Event
from thence.core.model.order import Copied, Execution, by_label, usable


def needless(events: Iterable[Event]) -> list[Copied]:
    """Return each copy that was held although every cause of it was there.

    By definition: once a copy has been received and the last message addressed to that process that causally precedes
    it has been delivered, nothing but other deliveries may stand between that row and its own delivery.
    """
    good, _ = usable(events)
    found: list[Copied] = []
    for part in by_label(good).values():
        execution = Execution(part)
        addressed: dict[str, list[str]] = defaultdict(list)
        for sent, origin in execution.send.items():
            for destination in execution.events[origin].destinations or ():
                addressed[destination].append(sent)
        rows: dict[str, list[Event]] = defaultdict(list)
        for event in part:
            rows[event.process].append(event)
        for process, own in rows.items():
            own.sort(key=lambda event: event.index)
            received = {e.message: place for place, e in enumerate(own) if e.kind == "receive"}
            delivered = {e.message: place for place, e in enumerate(own) if e.kind == "deliver"}
            for message, place in delivered.items():
                if message is None or message not in received:
                    continue
                causes = [m for m in addressed[process] if execution.precedes(m, message)]
                if any(delivered.get(cause, place) > place for cause in causes):
                    continue
                enabled = max([received[message], *(delivered[c] for c in causes if c in delivered)])
                if any(event.kind != "deliver" for event in own[enabled + 1 : place]):
                    found.append(Copied(own[place].run, message, process))
    return found
