"""Thousands of random runs, spoilt ones and wrong orders among them: arrays say what the definition says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.definition import DefinitionFindings
from support.results import check_paths, told
from support.traces import changed, random_trace

from thence.auditing.arrays import audit_table
from thence.auditing.local import LocalAuditResult
from thence.auditing.tables import of_events
from thence.model.events import Event, order_of

RESULT = Path(__file__).resolve().parents[3] / "benchmarks" / "soak" / "results" / "audit.json"
RUNS, STEP = 4000, 200


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("start", range(200_000, 220_000, RUNS))
def test_soak(start: int) -> None:
    judged = proved = violations = 0
    for first in range(start, start + RUNS, STEP):
        made = ((random_trace(seed), seed) for seed in range(first, first + STEP))
        runs = [rows for events, seed in made if events and (rows := changed(events, seed))]
        events = [event for rows in runs for event in rows]
        known = LocalAuditResult(DefinitionFindings(events), "local", "definition")
        by_run: dict[str, list[Event]] = {}
        for event in events:
            by_run.setdefault(event.run, []).append(event)
        ordered = {run: order_of(own) for run, own in by_run.items()}
        for chunk_rows in (25, 10**6):
            found = audit_table(of_events(events), cores=2, chunk_rows=chunk_rows)
            assert told(found) == told(known), f"seeds from {first}, chunks of {chunk_rows}"
            proved += check_paths(found, ordered)
        judged += 2 * len(by_run)
        violations += 2 * len(known.violations)
    assert proved == violations
    _keep(f"seeds {start} to {start + RUNS - 1}", judged, violations)


def _keep(seeds: str, judged: int, proved: int) -> None:
    results = json.loads(RESULT.read_text()) if RESULT.is_file() else {}
    results[seeds] = {"judgements": judged, "violations, each proved by a shortest path": proved, "wrong": 0}
    RESULT.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")
