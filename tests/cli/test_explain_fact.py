"""`thence explain --fact`: the sentence, the fixed points, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from thence.cli import main
from thence.model.events import parse
from thence.trace.jsonl import write_jsonl

RUN = parse("a!1>bc a!2>d d?a2 d!1>b b?a1 b?d1 b!1>c c?a1 c?b1 c!1>b")


def explain(trace: Path, *words: str) -> int:
    return main(["explain", str(trace), *words])


def test_why_a_fact_is_on_a_copy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, said = tmp_path / "trace.jsonl", tmp_path / "said.json"
    write_jsonl(RUN, trace)
    assert explain(trace, "--fact", "a1", "b", "d1", "b", "--json", str(said)) == 0
    shown = capsys.readouterr().out
    assert 'the copy of d1 to b carries "b is a destination of a1"' in " ".join(shown.split())
    assert "FP2: d1 takes over, at d 2" in shown
    row = json.loads(said.read_text())
    assert row["needed"] is True
    assert [each["kind"] for each in row["fixed_points"]] == ["FP2", "FP1"]
    assert explain(trace, "--fact", "a1", "b", "b1", "c") == 0
    assert "need not carry" in capsys.readouterr().out


def test_what_cannot_be_asked_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.jsonl"
    write_jsonl([*RUN, *(replace(event, run="other") for event in RUN)], trace)
    assert explain(trace, "--fact", "a1", "b", "d1", "b") == 2
    assert "say which with --run" in capsys.readouterr().err
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
