"""Preparation and replay of one run and label, shared by Spark's tasks and this process.

Invariant: Preparing gives the profile of the traffic and its usable rows, causes first, cut to the sample; a protocol
that fails is a row with its error. Both depend on their rows, and on a few numbers of the whole run (its head), alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypedDict

from thence.core.model.events import Event
from thence.core.model.order import RejectedRow, usable
from thence.core.model.plain import Fields
from thence.core.model.roster import Roster
from thence.errors import TraceError
from thence.tables.costing.replay import Cost, prefix, replay_run
from thence.tables.costing.traffic import Hidden, Profile, profile
from thence.tables.explain.causality import causal_order


class ProcessTotals(TypedDict, total=False):
    """The part of a run's summary from one label and process; of a name in `destinations`, the name alone."""

    label: str | None
    name: str
    rows: int
    gap: int | None
    """the first index that the process leaves out, on any of its parts"""
    crashes: int
    deliveries: int


class Head(NamedTuple):
    """The processes that take each row of a run, and facts about its rows over all labels."""

    roster: Roster
    gaps: dict[str, int]
    """by process that leaves out an index, the first"""
    crashes: int
    deliveries: int
    """under this label"""


def head_of(totals: Iterable[ProcessTotals], label: str | None) -> Head:
    """Read a head: one each for each label and process with its numbers, and one for each name in `destinations`."""
    totals = [each for each in totals if each.get("name")]
    gaps: dict[str, int] = {}
    for each in totals:
        if (gap := each.get("gap")) is not None:
            gaps[each["name"]] = min(gap, gaps.get(each["name"], gap))
    deliveries = sum(each.get("deliveries") or 0 for each in totals if each.get("label") == label)
    crashes = sum(each.get("crashes") or 0 for each in totals)
    return Head(Roster(sorted({each["name"] for each in totals})), gaps, crashes, deliveries)


def prepare(rows: Iterable[Event | str], head: Head, sample: int) -> tuple[Profile, list[Event]]:
    """Return the profile of one run and label, and its usable rows, causes first, cut to the sample.

    A text among the rows says why one could not be read.
    """
    read = list(rows)
    events = [event for event in read if isinstance(event, Event)]
    refused = [reason for reason in read if isinstance(reason, str)]
    good, rejected = usable(events)
    try:
        ordered = causal_order(good)
    except TraceError as error:
        ordered, refused = [], [*refused, str(error)]
    kept, cut = prefix(ordered, sample)
    doubts = dict.fromkeys(head.roster, 0) if refused else dict(head.gaps)
    for each in rejected:
        process, index = each.event.process, max(each.event.index, 0)
        doubts[process] = min(index, doubts.get(process, index))
    hidden = Hidden(doubts, len(refused) + len(rejected), len(head.gaps), _hidden(len(head.gaps), refused, rejected))
    sampled = cut or head.deliveries > sample
    return profile(kept, head.roster, crashes=head.crashes, hidden=hidden, sampled=sampled), kept


def _hidden(gaps: int, refused: list[str], rejected: list[RejectedRow]) -> str | None:
    """Describe the missing or unusable rows that could hide a violation."""
    if refused or rejected:
        first = refused[0] if refused else rejected[0].reason
        return f"{len(refused) + len(rejected)} rows cannot be used: {first}"
    return f"{gaps} processes leave out an index" if gaps else None


def replayed(rows: Sequence[Event], protocol: str, roster: Roster, options: Fields) -> Cost:
    """Replay rows of one run and label through a protocol; if it fails, return a row with the error."""
    try:
        return replay_run(rows, protocol, roster, options=options)
    except Exception as error:  # a failing protocol must not cost the figures of the others
        return Cost.none(protocol, "failed", f"{type(error).__name__}: {error}")
