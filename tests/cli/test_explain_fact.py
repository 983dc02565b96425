"""`thence explain --fact`: the sentence, the fixed points, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.pages import run_page

from thence.cli import explain_fact, main
from thence.core.model.events import parse
from thence.tables.files.jsonl import write_jsonl
from thence.tables.files.read import open_trace

RUN = parse("a!1>bc a!2>d d?a2 d!1>b b?a1 b?d1 b!1>c c?a1 c?b1 c!1>b")


def explain(trace: Path, *words: str) -> int:
    return main(["explain", str(trace), *words])


def test_why_a_fact_is_on_a_copy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, said = tmp_path / "trace.jsonl", tmp_path / "said.json"
    write_jsonl(RUN, trace)
    assert explain(trace, "--fact", "a1", "b", "d1", "b", "--json", str(said)) == 0
    shown = capsys.readouterr().out
    assert 'the copy of d1 to b must carry "b is a destination of a1"' in " ".join(shown.split())
    assert "FP2: d1 takes over, at d 2" in shown
    row = json.loads(said.read_text())
    assert (row["needed"], row["carried"], row["rows_missing"]) == (True, None, False)
    assert [each["kind"] for each in row["fixed_points"]] == ["FP2", "FP1"]
    assert "on each causal path it ends at: d 2, b 1, c 2" in shown
    assert [(each["process"], each["index"], each["message"]) for each in row["endpoints"]] == [
        ("d", 2, "d1"), ("b", 1, "a1"), ("c", 2, "b1"),
    ]  # fmt: skip
    assert explain(trace, "--fact", "a1", "b", "b1", "c") == 0
    assert "need not carry" in capsys.readouterr().out


def test_what_cannot_be_asked_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.jsonl"
    write_jsonl([*RUN, *(replace(event, run="other") for event in RUN)], trace)
    assert explain(trace, "--fact", "a1", "b", "d1", "b") == 2
    assert "choose one with --run" in capsys.readouterr().err
    assert explain(trace, "--run", "other", "--fact", "a1", "d", "d1", "b") == 2
    assert "a1 does not go to 'd'" in capsys.readouterr().err
    assert explain(trace, "--run", "nowhere", "--fact", "a1", "b", "d1", "b") == 2
    assert "no run 'nowhere'; there are other, run" in capsys.readouterr().err
    assert explain(trace, "--run", "other", "--fact", "z9", "b", "d1", "b") == 2
    assert "no message 'z9' was sent in this run; there are a1, a2, d1, b1, c1" in capsys.readouterr().err
    assert explain(trace, "--run", "other", "--fact", "a1", "b", "d1", "b") == 0
    capsys.readouterr()
    write_jsonl([replace(event, label="x" if event.message == "d1" else None) for event in RUN], trace)
    assert explain(trace, "--fact", "a1", "b", "d1", "b") == 2
    assert "two orders" in capsys.readouterr().err
    write_jsonl([replace(event, label="x") for event in RUN], trace)
    assert explain(trace, "--fact", "z9", "b", "d1", "b") == 2
    assert "no message 'z9' was sent in this run; there are a1, a2, d1, b1, c1" in capsys.readouterr().err


def test_what_has_no_facts_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, asked = tmp_path / "trace.jsonl", ("--fact", "a1", "b", "d1", "b")
    trace.write_text("")
    assert explain(trace, *asked) == 2
    assert "the trace has no events" in capsys.readouterr().err
    trace.write_text('a {"a":1}\nhello\n')
    assert explain(trace, "--format", "shiviz", *asked) == 2
    assert "a log with clocks has no deliveries to explain" in capsys.readouterr().err
    write_jsonl(RUN, trace)
    assert explain(trace, "--run", "run") == 2
    assert "--run goes with --fact" in capsys.readouterr().err


def test_a_long_run_is_refused_and_receipts_do_not_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, asked = tmp_path / "trace.jsonl", ("--fact", "a1", "b", "d1", "b")
    write_jsonl([*RUN, replace(RUN[0], process="z", kind="receive", destinations=None)], trace)
    monkeypatch.setattr(explain_fact, "MOST_EVENTS", len(RUN))
    assert explain(trace, *asked) == 0
    monkeypatch.setattr(explain_fact, "MOST_EVENTS", len(RUN) - 1)
    assert explain(trace, *asked) == 2
    assert "has 10 sends, deliveries and internal events; at most 9 are accepted" in " ".join(
        capsys.readouterr().err.split()
    )


def test_what_a_recorded_stamp_has_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`ks-hardware` carries facts that a copy need not have, `ks` none; a protocol without facts records no stamp."""
    trace, said = tmp_path / "trace.jsonl", tmp_path / "said.json"
    found: dict[tuple[str, bool, bool | None], int] = {}
    for protocol in ("ks", "ks-hardware", "rst"):
        how = ["--protocol", protocol, "--processes", "3", "--messages", "12", "--seed", "3", "--stamps", "--quiet"]
        assert main(["simulate", *how, "--trace", str(trace)]) == 0
        sends = {e.message or "": e.destinations or () for e in open_trace([str(trace)]).events() if e.kind == "send"}
        copies = [(message, to) for message, destinations in sends.items() for to in destinations]
        for fact, copy in [(fact, copy) for fact in copies for copy in copies[::3] if fact[0] != copy[0]]:
            assert explain(trace, "--fact", *fact, *copy, "--json", str(said)) == 0
            row = json.loads(said.read_text())
            key = (protocol, row["needed"], row["carried"])
            found[key] = found.get(key, 0) + 1
            shown = capsys.readouterr().out
            assert ("the stamp, as recorded, has it" in shown) == (row["carried"] is True)
            assert ("the stamp, as recorded, does not have it" in shown) == (row["carried"] is False)
    kinds = {
        ("ks", True, True), ("ks", False, False),
        ("ks-hardware", True, True), ("ks-hardware", False, False), ("ks-hardware", False, True),
        ("rst", True, None), ("rst", False, None),
    }  # fmt: skip
    assert set(found) == kinds


def test_missing_rows_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """b's delivery of a1 is not in the record, so an event of b that could matter may not be."""
    trace, said = tmp_path / "trace.jsonl", tmp_path / "said.json"
    write_jsonl([event for event in RUN if (event.process, event.message, event.kind) != ("b", "a1", "deliver")], trace)
    assert explain(trace, "--fact", "a1", "b", "d1", "b", "--json", str(said)) == 0
    assert "rows are missing or unusable" in capsys.readouterr().out
    assert json.loads(said.read_text())["rows_missing"] is True


def test_the_page_says_what_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "explanation/paper-ks98.md"
    assert run_page(page) == 2
    assert f"{explain_fact.MOST_EVENTS:,} sends" in page.read_text(encoding="utf-8")
