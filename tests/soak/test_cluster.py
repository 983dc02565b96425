"""Ten million rows on a standalone cluster that gets thence in a packed environment, and loses a worker.

THENCE_ROWS (10,000,000), THENCE_WHEELS (a folder with a compiled wheel; else one is built). Rows in
benchmarks/soak/results/cluster.json. pip fetches the packages of the environment.
"""

from __future__ import annotations

import os
from pathlib import Path

from support.cluster import Walk
from support.soak import keep


def test_a_packed_environment_gives_the_answers_of_this_process_though_a_worker_is_killed(tmp_path: Path) -> None:
    rows = int(os.environ.get("THENCE_ROWS", "10_000_000"))
    found = Walk(tmp_path, rows, compiled=True).follow("A packed environment")
    said = found.pop("said")
    driver, worker = said.split("; ")
    assert "/environment/lib/" in driver
    assert "/cluster/worker-2/" in worker  # unpacked below the work folder of the worker that was not killed
    assert said.count("delivery_rule_cy.cpython") == 2  # compiled on both sides
    keep("cluster", f"packed environment, {rows:,} rows and events, one of two workers killed", found)
