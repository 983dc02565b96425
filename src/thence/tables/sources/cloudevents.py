"""CloudEvents as arrivals: structured or as headers, with causation, correlation and W3C trace context.

Invariant: the message is the event's `id`, since `causationid` names an id and no source: within one destination ids
must be unique over all sources. It waits for its `causationid`. Its destination is the `correlationid`, else the trace
of its `traceparent`, else its own id. Trace and span are kept as columns: a trace context names no event, so it orders
nothing.

References: CloudEvents 1.0.2, "Required attributes", "Kafka protocol binding" (headers `ce_id` and so on, the content
type's `application/cloudevents`), extension "Correlation" (`correlationid`, `causationid`), extension "Distributed
tracing" (`traceparent`); W3C Trace Context, "traceparent header".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from thence.core.model.plain import Fields
from thence.tables.sources.arrival import Arrival, text_of_id
from thence.tables.sources.causation import from_event

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?")
_ZERO = re.compile("0+")
PREFIXES = ("ce_", "ce-", "cloudEvents:", "cloudEvents_")
"""of attributes among headers: Kafka, HTTP, AMQP"""


class CloudEvent(Arrival):
    """The arrival of a CloudEvent."""

    type: str | None
    trace: str | None
    span: str | None


def from_cloudevent(event: Fields | str | bytes) -> CloudEvent:
    """Return the arrival of one CloudEvent.

    Args:
        event: its JSON text in structured mode, or a mapping of its attributes.
    """
    try:
        attributes = json.loads(event) if isinstance(event, str | bytes) else event
    except (ValueError, RecursionError) as error:
        return _row({}, f"not JSON: {error}")
    if not isinstance(attributes, Mapping):
        return _row({}, f"a {type(attributes).__name__}; an object with id and source is accepted")
    missing = [name for name in ("id", "source", "specversion", "type") if text_of_id(attributes.get(name)) is None]
    return _row(attributes, f"no {', no '.join(missing)}: not a CloudEvent" if missing else None)


def from_headers(headers: Mapping[str, object] | Iterable[tuple[str, object]]) -> CloudEvent:
    """Return the arrival of an event whose attributes are headers, as the binary mode of Kafka and HTTP has it.

    Args:
        headers: names and values, as a mapping or as pairs.
    """
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    found: dict[str, object] = {}
    for name, value in pairs:
        prefix = next((each for each in PREFIXES if name.lower().startswith(each.lower())), "")
        if prefix or name == "traceparent":
            found[name[len(prefix) :].lower()] = value.decode() if isinstance(value, bytes) else value
    return from_cloudevent(found)


def trace_and_span(traceparent: object) -> tuple[str | None, str | None]:
    """Return trace and span of a `traceparent`; what is not one, or is all zeros, names nothing."""
    found = _TRACEPARENT.fullmatch(str(traceparent or ""))
    if found is None or _ZERO.fullmatch(found[1]) or _ZERO.fullmatch(found[2]):
        return None, None
    return found[1], found[2]


def _row(attributes: Fields, why: str | None) -> CloudEvent:
    trace, span = trace_and_span(attributes.get("traceparent"))
    correlated = {**attributes, "correlationid": text_of_id(attributes.get("correlationid")) or trace}
    known = from_event(correlated, causation="causationid", destination="correlationid")
    if why is not None:
        known |= {"message": None, "depends_on": [], "kind": "unreadable", "note": why}
    return {**known, "type": text_of_id(attributes.get("type")), "trace": trace, "span": span}
