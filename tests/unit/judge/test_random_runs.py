"""Thousands of random runs, spoilt ones and wrong orders among them: arrays say what the definition says.

THENCE_RUNS sets the number of runs of each test, for a shorter soak of the uncompiled modules.
"""

from __future__ import annotations

import os

import pytest
from support.definition import DefinitionFindings, check_paths, told
from support.soak import HOW, keep
from support.traces import changed, random_trace

from thence.core.model.events import Event, order_of
from thence.tables.engines.local.audit import LocalAuditResult
from thence.tables.engines.local.chunks import audit_table
from thence.tables.judge.normal_table import of_events

EACH, STEP = 4000, 200
RUNS = int(os.environ.get("THENCE_RUNS", EACH))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("start", range(200_000, 220_000, EACH))
def test_soak(start: int) -> None:
    print(f"seeds {start} to {start + RUNS - 1}")
    judged = proved = violations = possible = 0
    wrong: list[str] = []
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
            if told(found) != told(known):
                wrong.append(f"seeds from {first}, chunks of {chunk_rows}")
            else:
                proved += check_paths(found, ordered)
        judged += 2 * len(by_run)
        violations += 2 * len(known.violations)
        possible += 2 * len(known.possible)
    _keep(f"seeds {start} to {start + RUNS - 1}, {HOW}", judged, proved, possible, len(wrong))
    assert not wrong
    assert proved == violations


def _keep(seeds: str, judged: int, proved: int, possible: int, wrong: int) -> None:
    keep(
        "audit",
        seeds,
        {
            "judgements": judged,
            "violations, each proved by a shortest path": proved,
            "possible violations": possible,
            "shares of 200 runs judged otherwise than by definition": wrong,
        },
    )
