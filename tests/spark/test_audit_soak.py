"""Thousands of random runs, spoilt ones and wrong orders among them: Spark, this process and the definition agree.

What was judged is kept in benchmarks/soak/results/audit.json after every share, so that a soak which is cut off counts.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.definition import DefinitionFindings, check_paths, told
from support.soak import keep
from support.tables import frame
from support.traces import changed, random_trace

from thence.core.model.events import Event, order_of
from thence.spark import audit
from thence.tables.engines.local.audit import LocalAuditResult
from thence.tables.engines.local.chunks import audit_table
from thence.tables.judge.normal_table import of_events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.timeout(3600), pytest.mark.soak]
FIRST, SHARE, SHARES = 300_000, 500, 16
WRONG = "shares judged otherwise than by definition"
_totals = {"judgements": 0, "violations, each proved by a shortest path": 0, WRONG: 0}


@pytest.mark.parametrize("first", range(FIRST, FIRST + SHARE * SHARES, SHARE))
def test_three_judges_agree(spark: SparkSession, first: int, tmp_path: Path) -> None:
    made = ((random_trace(seed), seed) for seed in range(first, first + SHARE))
    events = [event for given, seed in made if given for event in changed(given, seed)]
    by_run: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_run[event.run].append(event)
    ordered = {run: order_of(own) for run, own in by_run.items()}
    known = LocalAuditResult(DefinitionFindings(events), "local", "definition")
    wrong = []
    if told(audit_table(of_events(events), cores=2)) != told(known):
        wrong.append(f"seeds from {first}, in this process")
    with audit(frame(spark, events, folder=tmp_path)) as found:
        if told(found) != told(known):
            wrong.append(f"seeds from {first}, on Spark")
        proved = 0 if wrong else check_paths(found, ordered)
    _totals["judgements"] += len(by_run)
    _totals["violations, each proved by a shortest path"] += proved
    _totals[WRONG] += len(wrong)
    keep("audit", "on Spark", {**_totals, "seeds": f"{FIRST} to {first + SHARE - 1}"})
    assert not wrong
    assert proved == len(known.violations)
