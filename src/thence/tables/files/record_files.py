"""Files of OpenTelemetry spans, CloudEvents and Debezium's records, read as arrivals.

*Invariant.* What a record means, `thence.tables.sources` says; this module finds the records in a file. A file holds
JSON lines, one object over several lines, or an array; OTLP also protobuf. A file is one of these by its first record
(`record_forms`), unless the caller names columns: then its objects are rows.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from thence.core.model.plain import Row
from thence.errors import TraceError
from thence.tables.files.line_reader import lines
from thence.tables.files.record_forms import unwrapped
from thence.tables.files.source import BROKEN, first_line, open_bytes
from thence.tables.sources import Record, from_changes, from_cloudevent, from_spans, orphans

BENIGN = {"tombstone", "heartbeat", "schema change", "signal", "before"}
"""Kinds of Debezium's records that are not changes, and hide none."""


def read_records(path: Path, form: str) -> list[Row]:
    """Return the arrivals of a file, in its order."""
    found = list(_records(path, form))
    if form == "otlp":
        return [dict(row) for record in found for row in from_spans(record)]
    if form == "cloudevents":
        return [dict(from_cloudevent(unwrapped(record)[0] or {})) for record in found]
    changes = [Record(*unwrapped(record)) for record in found]
    texts = [None if each.value is None else json.dumps(each.value, ensure_ascii=False) for each in changes]
    return [{**row, "value": text} for row, text in zip(from_changes(changes), texts, strict=True)]


def deliverable(rows: list[Row], form: str) -> list[Row]:
    """Return arrivals for a batch; a span no longer waits for parents that are not there, which its note names."""
    return [dict(row) for row in orphans(rows)[0]] if form == "otlp" else rows  # type: ignore[arg-type]


def _records(path: Path, form: str) -> Iterator[Any]:
    """Yield the records of a file as JSON has them, or the bytes of an export in protobuf."""
    try:
        with open_bytes(path) as stream:
            data = stream.read()
            if form == "otlp" and data.lstrip()[:1] not in (b"{", b"["):
                yield data
                return
            yield from _values(path, io.BytesIO(data))
    except BROKEN as error:
        raise TraceError(f"{path} cannot be read: {first_line(error)}") from error


def _values(path: Path, stream: io.BytesIO) -> Iterator[Any]:
    held: list[bytes] = []
    for line in lines(stream):
        if not line.data.strip():
            continue
        held.append(line.data)
        if len(held) > 1:  # an object over several lines: all lines are one text
            continue
        try:
            value = json.loads(line.data)
        except (ValueError, RecursionError):
            continue
        held.clear()
        yield from value if isinstance(value, list) else [value]
    if held:
        try:
            value = json.loads(b"\n".join(held))
        except (ValueError, RecursionError) as error:
            raise TraceError(
                f"{path}: not JSON: {first_line(error)}; JSON lines are accepted, or one object"
            ) from error
        yield from value if isinstance(value, list) else [value]
