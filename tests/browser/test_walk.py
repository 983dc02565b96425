"""The steps from a recorded run to a violation and its cause; and 100,000 events."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
from playwright.sync_api import Page
from support.recorded import read_events

from thence.cli import main
from thence.core.model.events import Event
from thence.core.model.order import Execution, judge
from thence.lab.simulator import Scenario, simulate
from thence.show.spacetime import spacetime_page
from thence.tables.engines.local.audit import audit_events
from thence.tables.explain.scene import scene_of, violated
from thence.tables.judge.result import violation_of

Open = Callable[..., Page]
ROOT = Path(__file__).parents[2]


def test_the_steps_to_a_violation(open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    simulated = "simulate --protocol unordered --processes 5 --messages 60 --seed 3 --trace late.jsonl"
    for line in (simulated, "show late.jsonl"):
        assert main(line.split()) == 0
    events = read_events(tmp_path / "late.jsonl")
    judged = judge(events)
    first = min(judged.violations, key=lambda v: (v.destination, v.missing))

    opened = open_page(tmp_path / "late.html")  # 1. choose the first entry
    opened.click("#findings li:first-child button")
    brief = opened.inner_text("#findings li:first-child").split()
    assert brief == f"1 {first.early} before {first.missing} at {first.destination}".split()
    assert f"{first.destination} delivered {first.early} before {first.missing}" in opened.inner_text("#proof")
    found = opened.evaluate("thence.query.finding()")  # 2. the picture moves there
    view = opened.evaluate("thence.query.view()")
    assert all(view["from"] <= event <= view["to"] for event in found["path"])
    cause = opened.locator("#proof ol li button").first  # 3. the cause
    execution = Execution([e for e in events if e.kind != "receive"])
    sender = execution.events[execution.send[first.missing]]
    assert cause.inner_text() == f"{sender.process} sent {first.missing}"
    cause.click()
    lit = opened.evaluate("thence.query.lit()")
    effects = {
        (e.process, e.index)
        for place, e in enumerate(execution.events)
        if execution.before(execution.send[first.missing], place)
    }
    assert {(e["process"], e["index"]) for e in lit["future"]} == effects
    early = next(e for e in events if (e.process, e.kind, e.message) == (first.destination, "deliver", first.early))
    assert (early.process, early.index) in effects


def large() -> list[Event]:
    scenario = Scenario(protocol="unordered", processes=64, messages=20_000, fanout="2", seed=1, run="large")
    return simulate(scenario, trace=True).events


def test_a_hundred_thousand_events(open_page: Open) -> None:
    events = large()
    assert len(events) == 100_000
    with audit_events(events) as audit:
        proved = list(islice(audit.proved(60), 60))
    findings = [violated(violation_of(row), path) for row, path in proved]
    assert findings
    opened = open_page(spacetime_page([scene_of(events, findings, verdict="violated")], title="large"))
    first = opened.evaluate("performance.getEntriesByName('thence-first-picture')[0].startTime")
    print(f"first picture after {first:.0f} ms")
    (drawn,) = opened.evaluate("thence.query.drawn()")
    assert drawn["thinned"] == 100_000
    assert "100,000 events are in the window" in opened.inner_text("#thinned")
    opened.evaluate("thence.query.frames()")
    opened.evaluate(
        """async () => { for (let k = 0; k < 40; k++) {
             thence.show(30000 + 100 * k, 31500 + 100 * k);
             await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0))); } }"""
    )
    frames = sorted(opened.evaluate("thence.query.frames()"))
    print(f"p95 of {len(frames)} frames: {frames[int(0.95 * len(frames))]:.1f} ms")
    (drawn,) = opened.evaluate("thence.query.drawn()")
    assert drawn["thinned"] == 0
    assert 0 < drawn["arrows"] <= 2000
    assert opened.is_hidden("#thinned")
    opened.evaluate("thence.chooseFinding(0)")
    found = opened.evaluate("thence.query.finding()")
    assert len(found["path"]) == len(findings[0].path or ())
    place = {(e.process, e.index): i for i, e in enumerate(events)}
    assert found["path"] == [place[step.process, step.index] for step in findings[0].path or ()]
