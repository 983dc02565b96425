"""OpenTelemetry spans (OTLP, JSON and protobuf) as arrivals: a span waits for its parent and for the spans it links to.

Invariant: one row per span: message `trace/span`, sender the service, destination the trace, so that each trace is put
in order alone. A link to another trace is then kept in `links` and not waited for, since nothing of that trace ever
comes to this destination; with a named `destination` all spans come to one, and such links are waited for too.

A parent may never come: it was not sampled, or its service exports nowhere. `orphans` names those parents among spans
seen together and no longer waits for them, so that their children come out, in order among themselves. In a stream the
policy `release` does the same once it has waited long enough, and names the parent in `missing`.

An export that cannot be read gives one row, of kind `unreadable`, whose note says why. Timestamps never order anything
here; `skews` looks at them, for children that seem to start before their parents. Between two services one constant
offset o of the clocks must explain all pairs: each parent at A with a child at B says o >= parent.start - child.start,
each parent at B with a child at A says o <= child.start - parent.start. If some o satisfies all, early children are
skew, and the least |o| is reported; if none does, or both spans are of one service, the recorded parents contradict the
clocks: a violation.

References: OpenTelemetry protocol specification 1.x, "JSON Protobuf encoding" (ids are hex, 64-bit numbers texts) and
`trace/v1/trace.proto`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from thence.core.model.plain import Fields
from thence.errors import MisuseError, PeerError
from thence.tables.sources.arrival import Arrival

_NANOSECONDS = 1e9
NO_EXPORT = "not an OTLP export in JSON"


class SpanRow(Arrival):
    """The arrival of a span."""

    name: str | None
    trace: str | None
    links: list[str]
    """spans of other traces that it names and does not wait for"""


class _Span(NamedTuple):
    service: str | None
    trace: str
    span: str
    parent: str
    links: Sequence[tuple[str, str]]
    start: int | None
    name: str | None


def from_spans(export: Fields | str | bytes, *, destination: str | None = None) -> Iterator[SpanRow]:
    """Yield the arrivals of one OTLP export: a line of the file exporter, or a request body, JSON or protobuf.

    Protobuf needs the package opentelemetry-proto, which the extra `otlp` brings.

    Args:
        export: a line or a body, as text, bytes or parsed JSON.
        destination: the destination of every span; the trace id if not given.
    """
    try:
        spans = list(_spans(export))
    except PeerError as error:
        yield _unreadable(str(error), destination)
        return
    for span in spans:
        causes = [f"{span.trace}/{span.parent}"] if span.parent else []
        linked = [link for link in span.links if link != (span.trace, span.span)]
        waited = [f"{trace}/{one}" for trace, one in linked if destination or trace == span.trace]
        known = bool(span.trace and span.span)
        yield {
            "run": None,
            "destination": destination or span.trace or None,
            "message": f"{span.trace}/{span.span}" if known else None,
            "sender": span.service,
            "time": None if span.start is None else span.start / _NANOSECONDS,
            "depends_on": [*dict.fromkeys(causes + waited)],
            "kind": "span" if known else "unreadable",
            "note": None if known else "no trace id or no span id",
            "name": span.name,
            "trace": span.trace or None,
            "links": [f"{trace}/{one}" for trace, one in linked if not destination and trace != span.trace],
        }


def _unreadable(why: str, destination: str | None) -> SpanRow:
    return {
        "run": None, "destination": destination, "message": None, "sender": None, "time": None, "depends_on": [],
        "kind": "unreadable", "note": why, "name": None, "trace": None, "links": [],
    }  # fmt: skip


def orphans(rows: Iterable[SpanRow]) -> tuple[list[SpanRow], dict[str, list[str]]]:
    """Return the spans without causes that are not among them, and those causes with the spans that named them.

    Args:
        rows: what `from_spans` yielded, of one or several exports.
    """
    spans = list(rows)
    known = {row["message"] for row in spans}
    missing: dict[str, list[str]] = {}
    out = []
    for row in spans:
        for cause in row["depends_on"]:
            if cause not in known and row["message"] is not None:
                missing.setdefault(cause, []).append(row["message"])
        gone = [cause for cause in row["depends_on"] if cause not in known]
        kept = [cause for cause in row["depends_on"] if cause in known]
        note = f"orphan: {', '.join(gone)} never came" if gone else row["note"]
        out.append(SpanRow({**row, "depends_on": kept, "note": note}))
    return out, missing


def _spans(export: Fields | str | bytes) -> Iterator[_Span]:
    if isinstance(export, bytes) and export.lstrip()[:1] != b"{":
        return _from_protobuf(export)
    try:
        parsed = json.loads(export) if isinstance(export, str | bytes) else export
    except (ValueError, RecursionError):
        raise PeerError(NO_EXPORT) from None
    try:
        return iter(list(_from_json(parsed)))
    except (AttributeError, TypeError):
        raise PeerError(NO_EXPORT) from None


def _from_json(export: Fields) -> Iterator[_Span]:
    for resource in export.get("resourceSpans") or ():
        attributes = (resource.get("resource") or {}).get("attributes") or ()
        texts = {each.get("key"): (each.get("value") or {}).get("stringValue") for each in attributes}
        for scope in resource.get("scopeSpans") or ():
            for span in scope.get("spans") or ():
                yield _Span(
                    texts.get("service.name"),
                    named(span.get("traceId")),
                    named(span.get("spanId")),
                    named(span.get("parentSpanId")),
                    [(named(link.get("traceId")), named(link.get("spanId"))) for link in span.get("links") or ()],
                    _number(span.get("startTimeUnixNano")),
                    span.get("name"),
                )


def _number(value: object) -> int | None:
    try:
        return None if value is None else int(str(value))
    except ValueError:
        return None


def named(value: object) -> str:
    """Return an id as lower-case hex; None for an id of zeros, as the specification has it."""
    found = str(value or "").lower()
    return found if found.strip("0") else ""


def _from_protobuf(data: bytes) -> Iterator[_Span]:
    for resource in _request(data).resource_spans:
        service = next((a.value.string_value for a in resource.resource.attributes if a.key == "service.name"), None)
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield _Span(
                    service,
                    named(span.trace_id.hex()),
                    named(span.span_id.hex()),
                    named(span.parent_span_id.hex()),
                    [(named(link.trace_id.hex()), named(link.span_id.hex())) for link in span.links],
                    span.start_time_unix_nano or None,
                    span.name,
                )


def _request(data: bytes) -> Any:
    try:
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    except ImportError:
        raise MisuseError("OTLP in protobuf needs opentelemetry-proto: pip install 'thence[otlp]'") from None
    try:
        return ExportTraceServiceRequest.FromString(data)
    except DecodeError as error:
        raise PeerError(f"not an OTLP export: {error}") from None


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
