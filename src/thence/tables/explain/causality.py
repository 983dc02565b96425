"""Rows of a run in an order in which causes come first, and vector clocks over them, for events as objects.

Invariant: rows of one process follow each other by `index`, and a delivery or receipt follows the send of its message.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from thence.core.model.events import Event, order_of
from thence.core.model.order import by_run, usable
from thence.errors import TraceError


def causal_order(events: Sequence[Event]) -> list[Event]:
    """Return rows of one run in an order in which causes come first: the one they say, if it is one."""
    recorded = order_of(events)
    if _causes_first(recorded):
        return recorded
    rows: dict[str, list[tuple[int, int, Event]]] = defaultdict(list)
    for rank, event in enumerate(recorded):
        rows[event.process].append((event.index, rank, event))
    for own in rows.values():
        own.sort(key=lambda row: row[:2], reverse=True)
    ready = [(own[-1][1], process) for process, own in rows.items()]
    heapq.heapify(ready)
    sent: set[str | None] = set()
    waiting: dict[str | None, list[tuple[int, str]]] = defaultdict(list)
    found: list[Event] = []
    while ready:
        rank, process = heapq.heappop(ready)
        event = rows[process][-1][2]
        if event.kind in ("deliver", "receive") and event.message not in sent:
            waiting[event.message].append((rank, process))
            continue
        found.append(event)
        rows[process].pop()
        if rows[process]:
            heapq.heappush(ready, (rows[process][-1][1], process))
        if event.kind == "send":
            sent.add(event.message)
            for each in waiting.pop(event.message, ()):
                heapq.heappush(ready, each)
    if len(found) < len(recorded):
        stuck = [own[-1][2] for own in rows.values() if own]
        named = ", ".join(f"{e.process} {e.index} ({e.kind} {e.message})" for e in stuck[:5])
        raise TraceError(f"no order puts every cause first: these rows wait for their cause: {named}")
    return found


def with_order(events: Iterable[Event]) -> list[Event]:
    """Return rows of any number of runs, by name, each run in a causal order that `order` then says.

    Rows that the definition cannot use come after the others of their run.
    """
    found: list[Event] = []
    for _, rows in sorted(by_run(events).items()):
        good, rejected = usable(rows)
        ordered = [*causal_order(good), *(each.event for each in rejected)]
        found += [replace(event, order=place) for place, event in enumerate(ordered)]
    return found


def _causes_first(events: Sequence[Event]) -> bool:
    last: dict[str, int] = {}
    sent: set[str | None] = set()
    for event in events:
        if event.index <= last.get(event.process, 0):
            return False
        last[event.process] = event.index
        if event.kind == "send":
            sent.add(event.message)
        elif event.kind in ("deliver", "receive") and event.message not in sent:
            return False
    return True


def vector_clocks(events: Iterable[Event]) -> Iterator[dict[str, int]]:
    """Yield the vector clock of each row, all rows counted, for rows in causal order."""
    clocks: dict[str, dict[str, int]] = defaultdict(dict)
    stamps: dict[str | None, dict[str, int]] = {}
    for event in events:
        clock = clocks[event.process]
        if event.kind == "deliver":
            for process, count in stamps[event.message].items():
                if count > clock.get(process, 0):
                    clock[process] = count
        clock[event.process] = clock.get(event.process, 0) + 1
        now = dict(clock)
        if event.kind == "send":
            stamps[event.message] = now
        yield now
