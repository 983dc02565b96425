"""Children that seem to start before their parents: clock skew, or clocks that the recorded parents contradict.

Invariant: Between two services one constant offset o of the clocks must explain all pairs: each parent at A with a
child at B says o >= parent.start - child.start, each parent at B with a child at A says o <= child.start -
parent.start. If some o satisfies all, early children are skew, and the least |o| is reported; if none does, or both
spans are of one service, the recorded parents contradict the clocks: a violation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from thence.tables.sources.otlp import SpanRow


@dataclass(frozen=True, slots=True)
class Skew:
    """Children of `parent` at `child` that start before their parents, and what that means."""

    parent: str
    child: str
    pairs: tuple[tuple[str, str], ...]
    """(parent message, child message)"""
    offset: float | None
    """seconds to add to the clock of `child`; None for a violation"""

    @property
    def violation(self) -> bool:
        """Whether no constant difference of the clocks explains it."""
        return self.offset is None


def skews(rows: Iterable[SpanRow]) -> list[Skew]:
    """Distinguish clock skew from contradictions, for each pair of services with early children.

    Args:
        rows: what `from_spans` yielded, of one or several exports.
    """
    known = {row["message"]: row for row in rows if row["message"] and row["time"] is not None}
    leads: dict[tuple[str, str], list[tuple[float, str, str]]] = defaultdict(list)
    for row in known.values():
        for cause in row["depends_on"]:
            if cause in known:
                parent = known[cause]
                pair = str(parent["sender"]), str(row["sender"])
                leads[pair].append(((parent["time"] or 0) - (row["time"] or 0), cause, str(row["message"])))
    found = []
    for (one, two), early in sorted(leads.items()):
        pairs = tuple((cause, message) for lead, cause, message in early if lead > 0)
        if pairs:
            low = max(lead for lead, _, _ in early)
            high = min((-lead for lead, _, _ in leads.get((two, one), ())), default=low)
            found.append(Skew(one, two, pairs, low if one != two and low <= high else None))
    return found
