"""Records that name their causes as events of a trace, so that they are judged and drawn like one.

*Invariant.* Spans: each trace is a run, each service a process; a child is a message from its parent's service. Rows
come causes first, so that nothing is violated by their order: spans are exported as they end. What can be wrong is what
they say: parents that never came (`orphans`), and clocks (`skews`).

Events and changes: each destination is a run, and the log of it a process that delivers them in the order of the file.
Each message is sent by a process of its own, which has delivered its causes before and nothing else: so exactly the
causes that are named come before it. A cause that is not in the file is an orphan and is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from thence.core.model.events import Event
from thence.core.model.plain import Row
from thence.core.model.verdict import Verdict
from thence.tables.files.jsonl import Located
from thence.tables.files.record_files import BENIGN
from thence.tables.files.source import Quarantined
from thence.tables.sources import Skew, orphans, skews

NO_SERVICE = "unknown service"


class EarlySpan(NamedTuple):
    """A span that starts before its parent, where no constant difference of two clocks explains it."""

    run: str
    parent: str
    child: str
    parent_service: str
    child_service: str

    @property
    def sentence(self) -> str:
        """Return what is said of it in words."""
        return (
            f"{self.child} of {self.child_service} starts before its parent {self.parent} of {self.parent_service}, "
            "and no difference of the clocks explains it"
        )


class Orphan(NamedTuple):
    """A record whose cause is not among those of its run."""

    run: str
    cause: str
    message: str

    @property
    def sentence(self) -> str:
        """Return what is said of it in words."""
        return f"{self.message} names {self.cause}, which is not among the records"


@dataclass(slots=True)
class RecordAudit:
    """Findings about records beside the verdict on their order."""

    records: int = 0
    orphans: list[dict[str, object]] = field(default_factory=list)
    """Causes that are named and not there, with the records that name them."""
    skews: list[Skew] = field(default_factory=list)
    """Spans that start before their parents, by pairs of services."""
    early: list[EarlySpan] = field(default_factory=list)
    """The spans of those skews that are violations."""
    without_cause: list[Orphan] = field(default_factory=list)
    """The orphans, one for each record that names one."""

    @property
    def verdict(self) -> str:
        """Violated if no difference of clocks explains the spans, unknown if causes are not there, else causal."""
        if any(skew.violation for skew in self.skews):
            return "violated"
        return "unknown" if self.orphans else "causal"

    def run_verdicts(self) -> dict[str, Verdict]:
        """Return the runs that are not causal by these findings, each with its verdict."""
        unknown: dict[str, Verdict] = {each.run: "unknown" for each in self.without_cause}
        return unknown | {each.run: "violated" for each in self.early}

    def skew_rows(self) -> list[dict[str, object]]:
        """Return the skews as JSON has them."""
        return [
            {"parent": each.parent, "child": each.child, "offset": each.offset, "violation": each.violation,
             "pairs": [list(pair) for pair in each.pairs]}
            for each in self.skews
        ]  # fmt: skip


def record_events(path: str, form: str, rows: Sequence[Row]) -> tuple[list[Located], RecordAudit]:
    """Return the events of records, the unusable records, and notes on all of them."""
    refused: list[Located] = [
        Quarantined(path, number, str(row["note"]), left={"run": row["destination"]} if row["destination"] else {})
        for number, row in enumerate(rows, 1)
        if row["message"] is None and row["kind"] not in BENIGN
    ]
    known = [(number, row) for number, row in enumerate(rows, 1) if row["message"] is not None]
    without_cause = list(_without_cause([row for _, row in known]))
    named_by: dict[str, list[str]] = defaultdict(list)
    for each in without_cause:
        named_by[each.cause].append(each.message)
    orphaned: list[dict[str, object]] = [{"cause": cause, "named_by": names} for cause, names in named_by.items()]
    found = RecordAudit(len(known), orphaned, without_cause=without_cause)
    if form == "otlp":
        found.skews = skews([row for _, row in known])  # type: ignore[misc]
        runs = {str(row["message"]): str(row["destination"]) for _, row in known}
        found.early = [
            EarlySpan(runs[child], parent, child, skew.parent, skew.child)
            for skew in found.skews
            if skew.violation
            for parent, child in skew.pairs
        ]
        return [*_span_events(known), *refused], found
    return [*_log_events(known), *refused], found


def _without_cause(rows: Sequence[Row]) -> Iterator[Orphan]:
    """Yield the records that name causes which do not come to their destination."""
    by_place: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        by_place[row["destination"]].append(row)
    for place, own in by_place.items():
        for cause, names in orphans(own)[1].items():  # type: ignore[arg-type]
            yield from (Orphan(str(place), cause, name) for name in names)


class _Rows:
    """The rows of a run as they come: each process counts its own."""

    def __init__(self, run: str) -> None:
        self.run, self.last = run, defaultdict[str, int](int)

    def row(self, process: str, kind: Any, message: str | None = None, **more: Any) -> Event:
        """Return the next row of a process."""
        self.last[process] += 1
        return Event(self.run, process, self.last[process], kind, message, **more)


def _span_events(spans: Sequence[tuple[int, Row]]) -> Iterator[Located]:
    runs: dict[str, dict[str, tuple[int, Row]]] = defaultdict(dict)
    for number, row in spans:
        runs[str(row["destination"])].setdefault(str(row["message"]), (number, row))
    for run, own in runs.items():
        rows = _Rows(run)
        for number, row in _causes_first(own):
            message, service = str(row["message"]), str(row["sender"] or NO_SERVICE)
            parent = next((own[cause][1] for cause in row["depends_on"] if cause in own), None)
            if parent is None:
                yield number, rows.row(service, "internal", time=row["time"])
                continue
            sender = str(parent["sender"] or NO_SERVICE)
            yield number, rows.row(sender, "send", message, destinations=(service,), time=row["time"])
            yield number, rows.row(service, "deliver", message, time=row["time"])


def _causes_first(own: Mapping[str, tuple[int, Row]]) -> Iterator[tuple[int, Row]]:
    """Yield spans behind their causes, the earliest first; spans in a cycle come last."""
    waits = {name: {c for c in row["depends_on"] if c in own and c != name} for name, (_, row) in own.items()}
    effects: dict[str, list[str]] = defaultdict(list)
    for name, causes in waits.items():
        for cause in causes:
            effects[cause].append(name)
    ready = sorted((name for name, causes in waits.items() if not causes), key=lambda name: _start(own[name][1]))
    done: set[str] = set()
    while ready:
        name = ready.pop(0)
        done.add(name)
        yield own[name]
        for effect in effects[name]:
            waits[effect].discard(name)
            if not waits[effect]:
                ready.append(effect)
    yield from (own[name] for name in own if name not in done)


def _start(row: Row) -> float:
    return float("inf") if row["time"] is None else float(row["time"])


def _log_events(records: Iterable[tuple[int, Row]]) -> Iterator[Located]:
    runs: dict[str, list[tuple[int, Row]]] = defaultdict(list)
    for number, row in records:
        runs[str(row["destination"])].append((number, row))
    for run, own in runs.items():
        rows, log = _Rows(run), f"log of {run}"
        first = {str(row["message"]): row for _, row in reversed(own)}
        named: dict[str, list[str]] = defaultdict(list)
        for message, row in first.items():
            for cause in row["depends_on"]:
                if cause in first:
                    named[cause].append(message)
        sent: set[str] = set()
        for number, row in own:
            message = str(row["message"])
            if message not in sent:
                sent.add(message)
                for cause in row["depends_on"]:
                    if cause in first:
                        yield number, rows.row(message, "deliver", cause)
                yield number, rows.row(message, "send", message, destinations=(log, *named[message]))
            yield number, rows.row(log, "deliver", message, time=row["time"])
