"""One run under one label as a graph, and the shortest causal path in it by breadth-first search: the oracle of proofs.

Rows of one process follow each other by `index`, a delivery follows the send of its message, and nothing else is a
step. `receive` rows carry nothing, so walks leave them out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from thence.core.model.events import Event
from thence.core.model.order import Violation
from thence.tables.explain.sentence import PathStep

CausalPosition = tuple[str, int]
"""A process and a position, from 0, among its rows that carry causality."""


class Causality:
    """Usable rows of one run and one label (`thence.core.model.order.usable` and `by_label` give them)."""

    def __init__(self, events: Iterable[Event]) -> None:
        """Take rows whose every delivery has its send."""
        self.rows: dict[str, list[Event]] = defaultdict(list)
        self.send: dict[str, CausalPosition] = {}
        self.deliveries: dict[str, list[CausalPosition]] = defaultdict(list)
        for event in events:
            if event.kind != "receive":
                self.rows[event.process].append(event)
        for process, rows in self.rows.items():
            rows.sort(key=lambda event: event.index)
            for position, event in enumerate(rows):
                if event.kind == "send" and event.message is not None:
                    self.send[event.message] = (process, position)
                elif event.kind == "deliver" and event.message is not None:
                    self.deliveries[event.message].append((process, position))

    def event(self, place: CausalPosition) -> Event:
        """Return the row at a place."""
        return self.rows[place[0]][place[1]]


def shortest(causality: Causality, missing: str, early: str) -> list[PathStep] | None:
    """Return the shortest path, in messages, from the send of `missing` to the send of `early`, if any.

    Breadth first over messages: after k rounds `first` holds the first position of each process that at most
    k messages lead to, so no row is scanned twice.
    """
    if missing not in causality.send or early not in causality.send:
        return None
    start, goal = causality.send[missing], causality.send[early]
    first: dict[str, int] = {start[0]: start[1]}
    scanned: dict[str, int] = {}
    came: dict[CausalPosition, tuple[CausalPosition, CausalPosition]] = {}
    turn = [start]
    while turn and first.get(goal[0], goal[1] + 1) > goal[1]:
        reached: dict[str, int] = {}
        for process, position in turn:
            rows = causality.rows[process]
            end = scanned.get(process, len(rows))
            scanned[process] = position
            for sending in range(position, end):
                event = rows[sending]
                if event.kind != "send" or event.message is None:
                    continue
                for other, there in causality.deliveries.get(event.message, ()):
                    if there < first.get(other, len(causality.rows[other])):
                        first[other] = reached[other] = there
                        came[other, there] = ((process, position), (process, sending))
        turn = list(reached.items())
    if first.get(goal[0], goal[1] + 1) > goal[1]:
        return None
    return _walk_back(causality, (goal[0], first[goal[0]]), start, goal, came)


def _walk_back(
    causality: Causality,
    entry: CausalPosition,
    start: CausalPosition,
    goal: CausalPosition,
    came: dict[CausalPosition, tuple[CausalPosition, CausalPosition]],
) -> list[PathStep]:
    places = [goal]
    while entry != start:
        places.append(entry)
        entry, sending = came[entry]
        places.append(sending)
    places.append(start)
    steps = []
    for place in dict.fromkeys(reversed(places)):
        event = causality.event(place)
        steps.append(PathStep(event.process, event.index, event.kind, event.message))
    return steps


def path(events: Iterable[Event], violation: Violation) -> list[PathStep] | None:
    """Return the path that proves a violation, from the usable rows of its run, if there is one."""
    rows = list(events)
    sends = {e.message: e for e in rows if e.kind == "send"}
    sent = sends.get(violation.missing)
    if sent is None:
        return None
    part = [e for e in rows if e.label == sent.label and (e.kind != "deliver" or e.message in sends)]
    return shortest(Causality(part), violation.missing, violation.early)
