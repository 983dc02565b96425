"""Spans in JSON and protobuf: parents, links, orphans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.some import some

from thence import Orderer
from thence.sources import from_spans, orphans, skews

FILE = Path(__file__).parents[2] / "data" / "sources" / "otlp.jsonl"
TRACE = "5b8efff798038103d269b633813fc60c"


def exports() -> list[dict[str, Any]]:
    return [json.loads(line) for line in FILE.read_text().splitlines()[1:]]


def protobuf(export: dict[str, Any]) -> bytes:
    """Write an export as protobuf, field by field."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    out = ExportTraceServiceRequest()
    for resource in export["resourceSpans"]:
        told = out.resource_spans.add()
        attribute = told.resource.attributes.add()
        attribute.key = "service.name"
        attribute.value.string_value = resource["resource"]["attributes"][0]["value"]["stringValue"]
        for span in resource["scopeSpans"][0]["spans"]:
            one = told.scope_spans.add().spans.add()
            one.trace_id, one.span_id = bytes.fromhex(span["traceId"]), bytes.fromhex(span["spanId"])
            one.parent_span_id, one.name = bytes.fromhex(span["parentSpanId"]), span["name"]
            one.start_time_unix_nano = int(span["startTimeUnixNano"])
            for link in span.get("links", ()):
                new = one.links.add()
                new.trace_id, new.span_id = bytes.fromhex(link["traceId"]), bytes.fromhex(link["spanId"])
    data: bytes = out.SerializeToString()
    return data


@pytest.mark.parametrize("destination", [None, "sink"])
def test_protobuf_gives_the_rows_of_json(destination: str | None) -> None:
    for export in some(exports()):
        rows = list(from_spans(export, destination=destination))
        assert rows == list(from_spans(json.dumps(export), destination=destination))
        assert rows == list(from_spans(protobuf(export), destination=destination))


def test_links_into_another_trace_are_waited_for_where_both_traces_come() -> None:
    alone = [row for export in exports() for row in from_spans(export)]
    (job,) = [row for row in alone if row["name"] == "job"]
    assert (job["depends_on"], job["links"]) == ([], [f"{TRACE}/eee19b7ec3c1b175"])
    assert {row["outcome"] for row in Orderer("depends_on").deliver(alone) if row["name"] == "job"} == {"delivered"}
    sink = [row for export in reversed(exports()) for row in from_spans(export, destination="sink")]
    names = [row["name"] for row in Orderer("depends_on").deliver(sink)]
    assert names.index("job") > names.index("call")


def test_an_orphan_is_named_and_its_children_keep_their_order() -> None:
    rows = [row for export in exports() for row in from_spans(export) if row["name"] != "page"]
    told, missing = orphans(rows)
    assert missing == {f"{TRACE}/eee19b7ec3c1b174": [f"{TRACE}/eee19b7ec3c1b175"],
                       f"{TRACE}/dead000000000001": [f"{TRACE}/eee19b7ec3c1b177"]}  # fmt: skip
    out = list(Orderer("depends_on").deliver(told))
    assert {row["outcome"] for row in out} == {"delivered"}
    names = [row["name"] for row in out]
    assert names.index("call") < names.index("query")
    assert [row["note"] for row in out if row["name"] == "late"] == [f"orphan: {TRACE}/dead000000000001 never came"]


def test_in_a_stream_a_policy_lets_orphans_go_and_names_them() -> None:
    rows = [row for export in exports() for row in from_spans(export) if row["name"] != "page"]
    out = list(Orderer("depends_on", key=["destination"], policy="release", after_rows=1).deliver(rows))
    names = [row["name"] for row in out]
    assert names.index("call") < names.index("query")
    (call,) = [row for row in out if row["name"] == "call"]
    assert (call["outcome"], call["missing"]) == ("released", [f"{TRACE}/eee19b7ec3c1b174"])


def test_skew_is_told_and_no_export_is_set_aside_with_a_note() -> None:
    (found,) = skews([row for export in exports() for row in from_spans(export)])
    assert (found.parent, found.child, found.offset) == ("api", "db", 1.5)
    for broken in ("{", "", "[1]", '{"resourceSpans": 5}', '{"resourceSpans": [{"scopeSpans": 1}]}', b"\xff\xff\xff"):
        (row,) = from_spans(broken, destination="sink")
        assert (row["message"], row["kind"], row["destination"]) == (None, "unreadable", "sink")
        assert "not an OTLP export" in str(row["note"])
    assert list(from_spans("{}")) == []
    (row,) = from_spans(
        {"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "nameless", "startTimeUnixNano": "soon"}]}]}]}
    )
    assert (row["message"], row["note"]) == (None, "no trace id or no span id")
