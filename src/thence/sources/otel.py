"""OpenTelemetry spans (OTLP JSON) as arrivals: a span waits for its parent and for the spans it links to.

Law. One row per span: message `trace/span`, depends_on parent and links, sender the service, destination the trace, so
that each trace is put in order alone; name a sink as destination where links lead from trace to trace.

Time-stamps never order anything here. But a child that seems to start before its parent is worth a word: `skews`
tells clock skew from a real violation. Between two services one constant offset o of the clocks must explain all pairs:
each parent at A with a child at B says o >= parent.start - child.start, each parent at B with a child at A says
o <= child.start - parent.start. If some o satisfies all, early children are skew, and the least |o| is reported; if
none does, or both spans are of one service, the recorded parents contradict the clocks: a violation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]


def from_spans(export: Mapping[str, Any], *, destination: str | None = None) -> Iterator[Row]:
    """Yield the arrivals of one OTLP JSON export (a line of a file exporter, or a request body)."""
    for service, span in _spans(export):
        trace = span.get("traceId")
        causes = [f"{trace}/{span['parentSpanId']}"] if span.get("parentSpanId") else []
        causes += [f"{link.get('traceId')}/{link.get('spanId')}" for link in span.get("links") or ()]
        start = span.get("startTimeUnixNano")
        known = trace and span.get("spanId")
        yield {
            "run": None,
            "destination": destination or trace,
            "message": f"{trace}/{span['spanId']}" if known else None,
            "sender": service,
            "time": None if start is None else int(start) / 1e9,
            "depends_on": list(dict.fromkeys(causes)),
            "name": span.get("name"),
        }


def _spans(export: Mapping[str, Any]) -> Iterator[tuple[str | None, Mapping[str, Any]]]:
    for resource in export.get("resourceSpans") or ():
        attributes = (resource.get("resource") or {}).get("attributes") or ()
        told = {each.get("key"): (each.get("value") or {}).get("stringValue") for each in attributes}
        for scope in resource.get("scopeSpans") or ():
            for span in scope.get("spans") or ():
                yield told.get("service.name"), span


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


def skews(rows: Iterable[Row]) -> list[Skew]:
    """Tell clock skew from contradictions among rows of `from_spans`."""
    known = {row["message"]: row for row in rows if row["message"] and row["time"] is not None}
    leads: dict[tuple[str, str], list[tuple[float, str, str]]] = defaultdict(list)
    for row in known.values():
        for cause in row["depends_on"]:
            if cause in known:
                parent = known[cause]
                pair = str(parent["sender"]), str(row["sender"])
                leads[pair].append((parent["time"] - row["time"], cause, row["message"]))
    found = []
    for (one, two), early in sorted(leads.items()):
        pairs = tuple((cause, message) for lead, cause, message in early if lead > 0)
        if pairs:
            low = max(lead for lead, _, _ in early)
            high = min((-lead for lead, _, _ in leads.get((two, one), ())), default=low)
            found.append(Skew(one, two, pairs, low if one != two and low <= high else None))
    return found
