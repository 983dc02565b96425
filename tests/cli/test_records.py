"""Spans, CloudEvents and Debezium's records in files: recognised by deliver, audit and show, without a program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import thence
from thence.cli import main
from thence.errors import TraceError
from thence.tables.files.formats import detect

EXAMPLES = Path(__file__).parents[2] / "examples" / "sources" / "data"
EVENT = {"specversion": "1.0", "source": "/shop", "type": "t", "correlationid": "c-1"}
EVENTS = [
    {**EVENT, "id": "p-2", "causationid": "o-1", "data": {"x": 1}},
    {**EVENT, "id": "o-1", "data": [1]},
    {**EVENT, "id": "s-3", "causationid": "p-2"},
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def audited(*names: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any], str]:
    code = main(["audit", *names, "--json", "said.json"])
    return code, json.loads(Path("said.json").read_text()), capsys.readouterr().out


def span(number: int, parent: int | None, service: str, start: float) -> dict[str, Any]:
    own = {"traceId": "ab" * 16, "spanId": f"{number:016x}", "startTimeUnixNano": str(int(start * 1e9)), "name": "x"}
    own |= {} if parent is None else {"parentSpanId": f"{parent:016x}"}
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [own]}]}]}


def test_orphans_and_skews_are_part_of_the_audit_of_spans(capsys: pytest.CaptureFixture[str]) -> None:
    code, said, text = audited(str(EXAMPLES / "spans.jsonl"), capsys=capsys)
    assert (code, said["verdict"], said["quarantine"]) == (1, "unknown", [])
    assert [row["cause"] for row in said["orphans"]] == ["5b8efff798038103d269b633813fc60c/dead000000000001"]
    (skew,) = said["skews"]
    assert (skew["parent"], skew["child"], skew["offset"], skew["violation"]) == ("api", "db", 1.5, False)
    assert "the clock of db is 1.5 s behind" in text
    assert "kind is missing" not in text


def test_clocks_that_contradict_parents_are_a_violation(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [span(1, None, "a", 10), span(2, 1, "a", 9)]
    Path("spans.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, said, text = audited("spans.json", capsys=capsys)
    assert (code, said["verdict"], said["skews"][0]["violation"]) == (1, "violated", True)
    assert "no difference of the clocks explains it" in text
    Path("spans.json").write_text("".join(json.dumps(line) + "\n" for line in (lines[0], span(2, 1, "a", 11))))
    assert audited("spans.json", capsys=capsys)[:2][0] == 0


def test_runs_pages_and_explain_carry_the_verdict_on_spans(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [span(1, None, "a", 10), span(2, 1, "a", 9)]
    Path("spans.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    child, parent = f"{'ab' * 16}/{2:016x}", f"{'ab' * 16}/{1:016x}"
    sentence = f"{child} of a starts before its parent {parent} of a"
    code, said, _ = audited("spans.json", "--page", "audit.html", capsys=capsys)
    assert (code, [run["verdict"] for run in said["runs"]]) == (1, ["violated"])
    assert main(["show", "spans.json"]) == 0
    for page in ("audit.html", "spans.html"):
        text = Path(page).read_text()
        assert "<h2>Not causal: 1 finding</h2>" in text
        assert sentence in text
    capsys.readouterr()
    assert main(["explain", "spans.json", "--json", "why.json"]) == 1
    assert sentence in capsys.readouterr().out.replace("\n", " ")
    assert [(row["parent"], row["child"]) for row in json.loads(Path("why.json").read_text())["spans"]] == [
        (parent, child)
    ]


def test_orphans_make_their_run_unknown_in_the_audit_and_on_its_page(capsys: pytest.CaptureFixture[str]) -> None:
    Path("spans.json").write_text(json.dumps(span(2, 1, "a", 9)) + "\n")
    _, said, _ = audited("spans.json", "--page", "audit.html", capsys=capsys)
    assert [run["verdict"] for run in said["runs"]] == [said["verdict"]] == ["unknown"]
    assert "<h2>Unknown: 1 finding</h2>" in Path("audit.html").read_text()


@pytest.mark.parametrize("form", ["lines", "one object over lines", "array", "protobuf", "unnamed protobuf"])
def test_spans_in_every_form_are_delivered(form: str) -> None:
    exports = [span(2, 1, "b", 2), span(1, None, "a", 1)]
    together = {"resourceSpans": [each for export in exports for each in export["resourceSpans"]]}
    name, more = "spans.json", list[str]()
    if form == "lines":
        Path(name).write_text("".join(json.dumps(each) + "\n" for each in exports))
    elif form == "array":
        Path(name).write_text(json.dumps(exports))
    elif "protobuf" in form:
        request = ExportTraceServiceRequest()
        for export in exports:
            ((resource,),) = (export["resourceSpans"],)
            made = request.resource_spans.add()
            made.resource.attributes.add(key="service.name").value.string_value = "a"
            (own,) = resource["scopeSpans"][0]["spans"]
            made.scope_spans.add().spans.add(
                trace_id=bytes.fromhex(own["traceId"]), span_id=bytes.fromhex(own["spanId"]),
                parent_span_id=bytes.fromhex(own.get("parentSpanId", "")),
            )  # fmt: skip
        name = "spans.pb" if form == "protobuf" else "blob"
        more = [] if form == "protobuf" else ["--from", "otlp"]
        Path(name).write_bytes(request.SerializeToString())
    else:
        Path(name).write_text(json.dumps(together, indent=2))
    assert main(["deliver", name, "--out", "out", *more]) == 0
    found = pq.read_table("out").to_pylist()
    assert [(row["message"][-1], row["position"]) for row in found] == [("1", 1), ("2", 2)]
    assert main(["show", name, *more, "--out", "page.html"]) == 0
    assert main(["audit", name, *more]) == 0


def test_cloudevents_before_their_causes_are_violations(capsys: pytest.CaptureFixture[str]) -> None:
    Path("e.json").write_text("".join(json.dumps(each) + "\n" for each in EVENTS))
    code, said, text = audited("e.json", capsys=capsys)
    assert (code, said["verdict"], said["orphans"]) == (1, "violated", [])
    assert [(row["early"], row["missing"]) for row in said["violations"]] == [("p-2", "o-1")]
    assert "log of c-1 delivered p-2 before o-1" in text
    assert main(["show", "e.json", "--out", "page.html"]) == 0
    assert "s-3" in Path("page.html").read_text()
    assert main(["deliver", "e.json", "--out", "e.jsonl"]) == 0
    rows = [json.loads(line) for line in Path("e.jsonl").read_text().splitlines()]
    assert [row["message"] for row in rows] == ["o-1", "p-2", "s-3"]
    assert json.loads(rows[1]["data"]) == {"x": 1}, "values of several forms are JSON texts"
    code, said, _ = audited("e.jsonl", capsys=capsys)
    assert code == 1, "what was delivered is a table of arrivals, no trace"
    assert thence.deliver(Path("e.json")).column("message").to_pylist() == ["o-1", "p-2", "s-3"]
    Path("e.json").write_text(json.dumps([EVENTS[1], EVENTS[0], EVENTS[2]]))  # a batch, as the specification has it
    assert audited("e.json", capsys=capsys)[1]["verdict"] == "causal"


def test_columns_that_are_named_are_read_as_columns() -> None:
    Path("e.json").write_text("".join(json.dumps(each) + "\n" for each in EVENTS))
    assert detect(Path("e.json"), records=False) == "jsonl"
    assert main(["deliver", "e.json", "--id", "id", "--causes", "causationid", "--out", "e.csv"]) == 0
    assert Path("e.csv").read_text().splitlines()[1].startswith('"1.0","/shop","t","c-1","o-1"')


@pytest.mark.parametrize("frame", [False, True])
def test_changes_are_delivered_transaction_by_transaction(frame: bool, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [json.loads(line) for line in (EXAMPLES / "changes.jsonl").read_text().splitlines()]
    if frame:  # as kcat -J prints them
        lines = [{**each, "payload": json.dumps(each.pop("value"))} for each in lines]
    Path("c.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    assert main(["deliver", "c.jsonl", "--out", "out.jsonl"]) == 0
    rows = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    ends = [row["position"] for row in rows if row["kind"] == "end"]
    assert ends
    assert None not in ends
    assert any("value" in row and json.loads(row["value"]).get("op") == "c" for row in rows if row["kind"] == "create")
    aside = [row for row in rows if row["outcome"] == "quarantined"]
    assert all(row["reason"] == row["note"] for row in aside if row["note"])
    _, said, _ = audited("c.jsonl", capsys=capsys)
    assert said["events"]
    assert main(["show", "c.jsonl", "--out", "page.html"]) == 0
    assert Path("page.html").stat().st_size > 0
    assert not [row for row in said["quarantine"] if "heartbeat" in row["reason"]]


def test_what_is_no_such_record_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.json").write_text('{"resourceSpans": [\n')
    with pytest.raises(TraceError, match="not JSON"):
        thence.deliver(Path("x.json"))
    assert main(["deliver", "x.json", "--from", "jaeger", "--out", "o"]) == 2
    assert "no format 'jaeger'" in capsys.readouterr().err
    assert main(["audit", str(EXAMPLES / "spans.jsonl"), "--engine", "spark"]) == 2
    assert "are audited in this process" in capsys.readouterr().err


@pytest.mark.parametrize("more", [{}, {"event_count": None, "data_collections": None, "ts_ms": 1}])
def test_changes_are_recognised_by_the_record_that_begins_a_transaction(
    more: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    change = {
        "op": "c", "before": None, "after": {"id": 1}, "source": {"name": "shop", "schema": "public", "table": "t"},
        "transaction": {"id": "5:1", "total_order": 1, "data_collection_order": 1},
    }  # fmt: skip
    lines = [{"status": "BEGIN", "id": "5:1", **more}, change, {"status": "END", "id": "5:1", "event_count": 1}]
    Path("changes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert detect(Path("changes.jsonl")) == "debezium"
    assert audited("changes.jsonl", capsys=capsys)[:2][0] == 0


@pytest.mark.parametrize("count", [5, 200])
def test_a_file_that_is_no_trace_is_told_of_from(count: int, capsys: pytest.CaptureFixture[str]) -> None:
    Path("rows.jsonl").write_text('{"a": 1}\n' * count)
    assert main(["audit", "rows.jsonl"]) != 0
    told = capsys.readouterr()
    assert "--from otlp, cloudevents or debezium" in " ".join((told.out + told.err).split())
