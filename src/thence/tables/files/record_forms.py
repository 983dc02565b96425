"""Recognition of OpenTelemetry spans, CloudEvents and Debezium records among rows of a table.

Records as kcat prints them (`-J`: topic, partition, offset, key and payload) are unwrapped.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal

Form = Literal["otlp", "cloudevents", "debezium"]
PROTOBUF = (".pb", ".binpb", ".otlp")
"""How the name of a file of OTLP in protobuf ends."""
_OTLP = re.compile(r'\s*\[?\s*\{\s*"resourceSpans"\s*:')
_BOUNDARY = {"status", "id", "ts_ms", "event_count", "data_collections"}
"""The fields of a record in which Debezium says that a transaction begins or ends; converters may leave out some."""
_CLOUDEVENT = {"specversion", "id", "source", "type"}


def form_of(text: str) -> Form | None:
    """Return the kind of records in a text, recognised by the first."""
    if _OTLP.match(text):  # an export may be longer than any sample
        return "otlp"
    try:
        first, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return None
    first = first[0] if isinstance(first, list) and first else first
    value = unwrapped(first)[0]
    if not isinstance(value, dict):
        return None
    if "resourceSpans" in value:
        return "otlp"
    if value.keys() >= _CLOUDEVENT:
        return "cloudevents"
    body = value["payload"] if "schema" in value and isinstance(value.get("payload"), dict) else value
    source = body.get("source")
    change = isinstance(source, dict) and bool({"op", "ddl"} & body.keys() or "connector" in source)
    boundary = body.get("status") in ("BEGIN", "END") and "id" in body and body.keys() <= _BOUNDARY
    return "debezium" if change or boundary else None


def unwrapped(record: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Return the value of a record, its key, topic, partition and offset, which kcat's frame around it says."""
    if not isinstance(record, dict) or "topic" not in record or not record.keys() & {"value", "payload"}:
        return record, None, None, None, None
    value = record["value"] if "value" in record else record["payload"]
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            pass  # its reader says that it is not JSON
    return value, record.get("key"), record.get("topic"), record.get("partition"), record.get("offset")
