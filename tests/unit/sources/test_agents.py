"""Runs of agents: samples recorded from openai-agents 0.24.0, LangGraph 1.2.22, and ag-ui-langgraph 0.0.47, each
under a scripted model (`tests/data/sources/record_ag_ui.py`)."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.pages import run, steps
from support.some import some

import thence
from thence import Orderer
from thence.errors import MisuseError
from thence.sources import AGENT_PRESETS, from_event, from_events, observed
from thence.testing import assert_causal

DATA = Path(__file__).parents[2] / "data" / "sources"


def sample(preset: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / f"{preset}.jsonl").read_text().splitlines()]


def swapped(preset: str) -> list[dict[str, Any]]:
    """Return the sample with the first tool result before everything else."""
    records = sample(preset)
    at = next(
        place for place, record in enumerate(records)
        if record.get("type") in ("function_call_output", "TOOL_CALL_RESULT") or record.get("event") == "on_tool_end"
    )  # fmt: skip
    return [records[at], *records[:at], *records[at + 1 :]]


@pytest.mark.parametrize("preset", AGENT_PRESETS)
def test_a_recorded_run_is_causal_as_it_came(preset: str) -> None:
    rows = from_events(sample(preset), preset=preset)
    assert len({row["destination"] for row in rows if row["message"]}) == 1
    named = [row["message"] for row in rows if row["message"]]
    assert len(set(named)) == len(named)
    aside = [record.get("type") for record, row in zip(sample(preset), rows, strict=True) if not row["message"]]
    assert set(aside) <= {"STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", None}  # no id, and no event that it follows
    assert [row["record"] for row in rows] == sample(preset)  # type: ignore[typeddict-item]
    assert sum(len(row["depends_on"]) for row in rows) >= 3
    assert_causal(observed(rows))


@pytest.mark.parametrize("preset", AGENT_PRESETS)
def test_a_result_before_its_call_is_found(preset: str) -> None:
    with pytest.raises(AssertionError, match="not causal: violated"):
        assert_causal(observed(from_events(swapped(preset), preset=preset)))


@pytest.mark.parametrize("preset", AGENT_PRESETS)
def test_shuffled_records_come_out_in_order(preset: str) -> None:
    rows = from_events(sample(preset), preset=preset)
    Random(1).shuffle(rows)
    ordered = list(Orderer("depends_on", key=["destination"]).deliver(rows))
    assert {row["outcome"] for row in ordered if row["message"]} == {"delivered"}
    assert_causal(observed(row for row in ordered if row["message"]))  # type: ignore[arg-type,misc]


def test_the_causes_of_each_framework() -> None:
    def causes(preset: str, end: str) -> list[list[str]]:
        rows = from_events(sample(preset), preset=preset)
        return [row["depends_on"] for row in rows if (row["message"] or "").endswith(end)]

    assert causes("openai-agents", "call_2/output") == [["call_2"]]
    assert causes("ag-ui", "call_1/result") == [["call_1/end"]]
    assert causes("ag-ui", "call_1/start") == [["m1/start"]]
    assert causes("ag-ui", "call_1/end") == [["call_1/2"]]
    assert causes("ag-ui", "r1/end") == [["r1/start"]]
    assert causes("ag-ui", "ask/2/end") == [["r1/step/ask/2/start"]]
    assert causes("ag-ui", "ask/2/start") == [["r1/start"]]
    events = sample("langgraph")
    tool = next(event for event in events if event["event"] == "on_tool_end")
    model = next(event for event in events if event["event"] == "on_chat_model_end")
    assert causes("langgraph", f"{tool['run_id']}/end") == [[f"{tool['run_id']}/start", f"{model['run_id']}/end"]]
    assert causes("langgraph", f"{tool['run_id']}/start") == [[f"{tool['parent_ids'][-1]}/start"]]


def test_results_of_two_calls_may_come_in_either_order() -> None:
    records = sample("openai-agents")
    records[3], records[4] = records[4], records[3]
    assert_causal(observed(from_events(records, preset="openai-agents")))


def test_a_record_without_an_id_is_set_aside() -> None:
    (row,) = from_events([{"role": "user", "content": "Weather?"}], preset="openai-agents")
    assert (row["message"], row["kind"]) == (None, "unreadable")
    for preset in AGENT_PRESETS:
        (odd,) = from_events(["no JSON"], preset=preset)
        assert odd["message"] is None


def test_misuse_is_said() -> None:
    with pytest.raises(MisuseError, match="reads the records of a whole run"):
        from_event({}, preset="langgraph")
    with pytest.raises(MisuseError, match="events of 2 runs"):
        from_events([{"type": "RUN_STARTED", "runId": run} for run in "ab"], preset="ag-ui")


def test_a_run_is_shown(tmp_path: Path) -> None:
    thence.show(observed(from_events(swapped("openai-agents"), preset="openai-agents")), out=str(tmp_path / "run.html"))
    assert "call_1/output" in (tmp_path / "run.html").read_text()


def test_the_page_prints_what_it_shows() -> None:
    names: dict[str, object] = {}
    for step in some(steps((Path(__file__).parents[3] / "docs" / "how-to/agents.md").read_text())):
        assert run(step, names) == step.printed
