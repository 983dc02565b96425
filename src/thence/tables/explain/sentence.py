"""Why a delivery came too early: the causal path as data, then as a sentence; `explain.diagram` draws it.

Invariant: a path is a real chain of rows of the trace from the send of `missing` to the send of `early`: from one
row to the next, either both are of one process and `index` grows, or the first is the send of the message
that the second delivers. It has the fewest messages any such chain has; steps within a process cost nothing,
so only the rows where the chain turns are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby

from thence.core.model.escape import visible
from thence.core.model.order import Violation

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
