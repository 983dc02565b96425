"""Traces of live endpoints, killed and started again, are behaviours of KS.tla."""

from __future__ import annotations

import os
from pathlib import Path

from support.live_fleet import Fleet
from support.live_pair import folder

from thence.lab.formal.conform import conform
from thence.tables.files.read import open_trace

SEED = int(os.environ.get("THENCE_SEED", "1"))

assert folder is not None


def test_processes_that_are_killed(folder: Path) -> None:
    print(f"seed {SEED}")
    fleet = Fleet(folder, list("abc"), 40, SEED)
    try:
        for name in fleet.names:
            fleet.start(name)
        fleet.mischief(4, 0.4)
        fleet.rest(200.0, within=200.0)
        fleet.stop()
        totals = fleet.check()
    finally:
        fleet.end()
    rows = list(open_trace([str(path) for path in sorted(folder.rglob("*.jsonl*"))]).events())
    found = conform(rows)
    assert [each.sentence for each in found if not each.conforms] == []
    assert sum(event.kind == "crash" for event in rows) == totals["crash rows"] >= 1
