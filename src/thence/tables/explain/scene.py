"""A scene: rows of one run in an order in which causes come first, and what was found in them.

Invariant: a scene is data, and every picture is drawn from one: the text diagram (`trace.diagram`) and the space-time
page (`show.spacetime`). A row stands in a scene once and unchanged. Rows that the definition cannot use come last and
are marked. What a finding speaks of are rows of the scene, named by process and index; what it says is its sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from thence.core.model.events import Event, order_of
from thence.core.model.order import Copied, Violation, by_run, usable
from thence.errors import TraceError
from thence.tables.explain.causality import causal_order
from thence.tables.explain.sentence import PathStep, sentence

RowId = tuple[str, int]
"""A row of a run: its process and its index."""

Origin = tuple[str, int]
"""Where a row was read: the file, and the line (in Parquet the row), counted from 1."""

What = Literal["violation", "undelivered", "duplicate", "misdelivered", "quarantine", "failure", "span", "orphan"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about rows of a run; `path` proves a violation, from the send of missing to that of early."""

    what: What
    sentence: str
    destination: str | None = None
    message: str | None = None
    """The message that is missing, doubled or misplaced."""
    early: str | None = None
    path: tuple[PathStep, ...] | None = None
    rows: tuple[RowId, ...] = ()
    """Rows that a path does not name: of a row set aside, that row."""
    number: int | None = None
    """The number that an audit gave this violation, from 1. A slice of the trace keeps it."""

    @property
    def violation(self) -> bool:
        """Return whether it says that something was delivered too early."""
        return self.early is not None and self.message is not None

    def messages(self) -> tuple[str, ...]:
        """Return the messages it speaks of: the early one first."""
        return tuple(message for message in (self.early, self.message) if message is not None)


@dataclass(frozen=True, slots=True)
class Scene:
    """Rows of one run, causes first, and what was found in them."""

    run: str
    events: Sequence[Event]
    findings: Sequence[Finding] = ()
    verdict: str | None = None
    aside: frozenset[RowId] = frozenset()
    """Rows that the definition cannot use."""
    origins: Mapping[RowId, Origin] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def showing(self, finding: Finding) -> Scene:
        """Return the scene with one finding and only the rows that show it."""
        kept = shown_by(self.events, finding)
        return Scene(self.run, kept, (finding,), self.verdict, self.aside, self.origins, self.notes)


def shown_by(events: Iterable[Event], finding: Finding) -> list[Event]:
    """Return the rows that show a finding, causes first: its path, the sends, and what its destination delivered."""
    rows = list(events)
    named = {(step.process, step.index) for step in finding.path or ()} | set(finding.rows)
    messages = set(finding.messages())
    kept = [e for e in rows if (e.process, e.index) in named or (e.kind == "send" and e.message in messages)]
    there = sorted((e for e in rows if e.process == finding.destination), key=lambda e: e.index)
    for message in finding.messages():
        delivered = [e for e in there if e.kind == "deliver" and e.message == message]
        kept += delivered[:1] if finding.violation else delivered
    return causal_order(list(dict.fromkeys(kept)))


def scene_of(
    events: Sequence[Event],
    findings: Sequence[Finding] = (),
    *,
    verdict: str | None = None,
    origins: Mapping[RowId, Origin] | None = None,
) -> Scene:
    """Return the scene of the rows of one run, which may come in any order."""
    good, rejected = usable(events)
    notes: list[str] = []
    try:
        ordered = causal_order(good)
    except TraceError as error:  # labels each have their order, and the rows of all of them have none
        ordered = order_of(good)
        notes.append(str(error))
    rest = [each.event for each in rejected]
    places = {(event.process, event.index) for event in ordered}
    aside = frozenset((event.process, event.index) for event in rest) - places
    rows = ordered + list({(e.process, e.index): e for e in rest if (e.process, e.index) in aside}.values())
    run = events[0].run if events else "run"
    return Scene(run, rows, tuple(findings), verdict, aside, origins or {}, tuple(notes))


def scenes_of(
    events: Iterable[Event],
    findings: Mapping[str, Sequence[Finding]] | None = None,
    verdicts: Mapping[str, str] | None = None,
    origins: Mapping[str, Mapping[RowId, Origin]] | None = None,
) -> list[Scene]:
    """Return a scene for each run of a table, in order of appearance."""
    return [
        scene_of(
            rows, (findings or {}).get(run, ()), verdict=(verdicts or {}).get(run), origins=(origins or {}).get(run)
        )
        for run, rows in by_run(events).items()
    ]


def violated(
    violation: Violation, path: Sequence[PathStep] | None, *, never: bool = False, number: int | None = None
) -> Finding:
    """Return the finding that a delivery came too early.

    `never`: the missing message was not delivered later either. `number`: the violation's number in its audit.
    """
    text = sentence(path, violation, never=never)
    proof = None if path is None else tuple(path)
    return Finding("violation", text, violation.destination, violation.missing, violation.early, proof, number=number)


def copied(what: What, copy: Copied) -> Finding:
    """Return the finding that a delivery is missing, doubled or misplaced."""
    text = {
        "undelivered": f"{copy.destination} never delivered {copy.message}",
        "duplicate": f"{copy.destination} delivered {copy.message} again",
        "misdelivered": f"{copy.destination} delivered {copy.message}, which is not addressed to it",
    }[what]
    return Finding(what, text, copy.destination, copy.message)


def set_aside_finding(reason: str, *, place: str, row: RowId | None = None) -> Finding:
    """Return the finding that a row could not be used; `place` says where it stood."""
    return Finding("quarantine", f"{place}: {reason}", rows=() if row is None else (row,))
