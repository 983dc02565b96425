"""Why a delivery came too early: the causal path as data, then as a sentence; `trace.diagram` draws it.

Invariant: a path is a real chain of rows of the trace from the send of `missing` to the send of `early`: from one
row to the next, either both are of one process and `index` grows, or the first is the send of the message
that the second delivers. It has the fewest messages any such chain has; steps within a process cost nothing,
so only the rows where the chain turns are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby

from thence.core.model.escape import visible
from thence.core.model.events import Event
from thence.core.model.order import Violation
from thence.tables.explain.causality import Causality, CausalPosition

VERBS = {"send": "sent", "receive": "received", "deliver": "delivered", "crash": "crashed"}


@dataclass(frozen=True, slots=True)
class PathStep:
    """One row of a path."""

    process: str
    index: int
    kind: str
    message: str | None

    def row(self) -> dict[str, object]:
        """Return it as `audit --json` writes it."""
        return asdict(self)


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


def sentence(path: Sequence[PathStep] | None, violation: Violation, *, never: bool = False) -> str:
    """Return a violation and its proof in words; `never`: `missing` was not delivered later either."""
    early, missing, destination = map(visible, (violation.early, violation.missing, violation.destination))
    without = f"and never {missing}" if never else f"before {missing}"
    text = f"{destination} delivered {early} {without}, though {missing} happened before {early}"
    clauses = []
    for number, (process, steps) in enumerate(groupby(path or (), key=lambda step: step.process)):
        deeds = [f"{VERBS[step.kind]} {visible(step.message or '')}" for step in steps]
        if number or len(deeds) > 1:
            clauses.append(f"{visible(process)} {', then '.join(deeds)}")
    return f"{text}: {'; '.join(clauses)}" if clauses else text
