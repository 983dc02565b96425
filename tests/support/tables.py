"""Events as normal tables, and findings as plain sets, so that an audit can be held against the definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa

from thence.core.model.events import Event
from thence.core.model.order import Judgement
from thence.tables.judge.coded_rows import KIND_CODES, NORMAL


def normal(events: Sequence[Event], *, order: bool = True) -> pa.Table:
    """Return events as a normal table."""
    columns: dict[str, list[object]] = {name: [getattr(e, name, None) for e in events] for name in NORMAL.names}
    columns["kind"] = [KIND_CODES[e.kind] for e in events]
    if not order:
        columns["order"] = [None] * len(events)
    return pa.table(columns, schema=NORMAL)


def by_definition(found: Judgement) -> dict[str, object]:
    """Return what the definition says, as counters."""
    return {
        "events": found.events,
        "messages": found.messages,
        "gaps": len(found.gaps),
        "violation": Counter((v.missing, v.destination, v.early) for v in found.violations),
        "possible": Counter((v.missing, v.destination, v.early) for v in found.possible),
        "undelivered": Counter((c.message, c.destination) for c in found.undelivered),
        "duplicate": Counter((c.message, c.destination) for c in found.duplicates),
        "misdelivered": Counter((c.message, c.destination) for c in found.misdelivered),
        "quarantine": Counter(
            (q.event.process, q.event.index, q.event.kind, q.event.message, q.reason) for q in found.quarantine
        ),
    }


def as_found(rows: list[dict[str, object]]) -> dict[str, object]:
    """Return the rows of a tagged table of one run, as counters."""
    result: dict[str, object] = {"events": 0, "messages": 0, "gaps": 0}
    picked: dict[str, Counter[tuple[object, ...]]] = {
        tag: Counter() for tag in ("violation", "possible", "undelivered", "duplicate", "misdelivered", "quarantine")
    }
    for row in rows:
        tag = str(row["tag"]).replace("absent", "violation")
        if tag == "run":
            for name in ("events", "messages", "gaps"):
                result[name] += row[name] or 0  # type: ignore[operator]
        elif tag in ("violation", "possible"):
            picked[tag][row["message"], row["destination"], row["early"]] += 1
        elif tag == "quarantine":
            picked[tag][tuple(row[name] for name in ("process", "index", "kind", "message", "reason"))] += 1
        elif tag in picked:
            picked[tag][row["message"], row["destination"]] += 1
    return result | picked
