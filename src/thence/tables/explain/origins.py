"""The events of a trace together with where each was read: file, and line or row.

*Invariant.* Events come in the order of `Trace.events`; rows that cannot be used are added to the trace's quarantine.
An excerpt is filtered on Arrow batches, and only its own rows become objects: a page around one violation of millions
of rows costs a few passes over the files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import reduce
from typing import TYPE_CHECKING

from thence.core.model.events import Event
from thence.tables.contract.row_validity import event_of
from thence.tables.explain.excerpt import Excerpt, IndexRange, message_excerpt, places_of, ranges_around
from thence.tables.explain.scene import Finding, Origin, RowId
from thence.tables.files.read import Trace
from thence.tables.files.source import Quarantined

if TYPE_CHECKING:
    import pyarrow as pa

Origins = dict[str, dict[RowId, Origin]]
"""For each run the origin of each of its rows."""


def events_with_origins(trace: Trace) -> tuple[list[Event], Origins]:
    """Return all events, and where each was read."""
    events: list[Event] = []
    origins: Origins = defaultdict(dict)
    for file, found in trace.located():
        if isinstance(found, Quarantined):
            trace.quarantine.append(found)
            continue
        line, event = found
        events.append(event)
        origins[event.run].setdefault((event.process, event.index), (file, line))
    return events, dict(origins)


def events_around(trace: Trace, run: str, finding: Finding) -> tuple[list[Event], Origins]:
    """Return the events that `violation_page` shows of a finding, and where each was read."""
    about = _rows(trace, lambda batch: _about(batch, finding.messages()), quarantine=True)
    places = places_of([event for _, event in about if event.run == run], finding)
    return _excerpt(trace, Excerpt(run, index_ranges=ranges_around(places)))


def events_about(trace: Trace, message: str) -> tuple[list[Event], Origins]:
    """Return the events around everything that happened to a message, and where each was read."""
    about = _rows(trace, lambda batch: _about(batch, [message]), quarantine=True)
    return _excerpt(trace, message_excerpt([event for _, event in about], message))


OriginEvent = tuple[Origin, Event]


def _excerpt(trace: Trace, excerpt: Excerpt) -> tuple[list[Event], Origins]:
    """Return the rows in ranges of indexes of one run, and the sends of what they receive or deliver."""
    import pyarrow.compute as pc

    run, ranges = excerpt.run, excerpt.index_ranges or ()

    def own(batch: pa.RecordBatch) -> pa.Array:
        return pc.and_(pc.equal(batch.column("run"), run), _in_ranges(batch, ranges))

    kept = _rows(trace, own)
    places = {(event.process, event.index) for _, event in kept}
    needed = {e.message for _, e in kept if e.kind in ("receive", "deliver") and e.message is not None}

    def sends(batch: pa.RecordBatch) -> pa.Array:
        sent = pc.and_(pc.equal(batch.column("run"), run), pc.equal(batch.column("kind"), "send"))
        return pc.and_(sent, _about(batch, needed))

    kept += [each for each in _rows(trace, sends) if (each[1].process, each[1].index) not in places]
    origins: Origins = {}
    for origin, event in kept:
        origins.setdefault(event.run, {}).setdefault((event.process, event.index), origin)
    return [event for _, event in kept], origins


def _rows(trace: Trace, test: Callable[[pa.RecordBatch], pa.Array], *, quarantine: bool = False) -> list[OriginEvent]:
    """Return the usable rows that pass a test on batches; with `quarantine`, note the unusable ones."""
    import pyarrow.compute as pc

    before = len(trace.quarantine)
    found: list[OriginEvent] = []
    refused: list[Quarantined] = []
    for batch in trace.batches():
        good = pc.is_null(batch.column("reason"))
        for row in batch.filter(pc.and_(good, pc.fill_null(test(batch), False))).to_pylist():
            event = event_of(row)
            if isinstance(event, Event):
                found.append(((row["file"], row["line"]), event))
        if quarantine and not before:
            rest = batch.filter(pc.invert(good)).select(["file", "line", "reason"]).to_pylist()
            refused += [Quarantined(row["file"], row["line"], row["reason"]) for row in rest]
    trace.quarantine += refused
    return found


def _about(batch: pa.RecordBatch, messages: Iterable[str]) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.is_in(batch.column("message"), value_set=pa.array(sorted(messages), pa.string()))


def _in_ranges(batch: pa.RecordBatch, ranges: Iterable[IndexRange]) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    process, index = batch.column("process"), batch.column("index")
    none = pa.array([False] * len(batch), pa.bool_())
    met = (
        pc.and_(
            pc.equal(process, each.process),
            pc.and_(pc.greater_equal(index, each.first), pc.less_equal(index, each.last)),
        )
        for each in ranges
    )
    return reduce(pc.or_, met, none)
