"""A batch, a stream and plain Python give the same outcomes on the same arrivals, row for row."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest
from support.deliveries import agree, many
from support.soak import keep
from support.some import some

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS: dict[str, dict[str, Any]] = {
    "stamp": {},
    "clock": {"policy": "release", "after_rows": 40},
    "depends_on": {"policy": "release", "after_seconds": 8.0},
}
SEEDS = {"stamp": range(1, 5), "clock": range(1, 7), "depends_on": range(1, 4)}
ROUNDS = int(os.environ.get("THENCE_ROUNDS", "24"))
POLICIES: tuple[dict[str, Any], ...] = ({}, KINDS["clock"], KINDS["depends_on"])
A_ROUND = {"stamp": 16, "clock": 96, "depends_on": 48}
"""seeds of a round, for each protocol that can say its causes in this way: 96 runs"""


@pytest.mark.parametrize("by", KINDS)
def test_batch_stream_and_orderer_agree(spark: SparkSession, tmp_path: Path, by: str) -> None:
    policy, runs = KINDS[by], many(by, SEEDS[by])
    print(f"{len(runs)} runs: {runs[0].about} ... {runs[-1].about}")
    batch = agree(spark, tmp_path, by, runs, policy)
    for made in some(runs):
        mine = [r for r in batch if r["run"] == made.name]
        violations = made.judge(mine).violations
        gaps = {
            (r["destination"], made.cause(c, r["destination"])) for r in mine if r["position"] for c in r["missing"]
        }
        assert gaps <= {(v.destination, v.missing) for v in violations}, made.about
        if not policy:
            assert not violations, made.about


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("by", KINDS)
def test_they_agree_on_thousands_of_arrivals(spark: SparkSession, tmp_path: Path, by: str) -> None:
    """In rounds of 96 runs of 200 messages; each round has its seeds, and the next policy.

    THENCE_ROUNDS is the number of rounds over all three kinds (24 unless set).
    """
    started, rounds = monotonic(), ROUNDS // len(KINDS)
    outcomes: Counter[str] = Counter()
    for number in range(rounds):
        seeds = range(100 + number * A_ROUND[by], 100 + (number + 1) * A_ROUND[by])
        print(f"{by}: seeds {seeds}, {POLICIES[number % len(POLICIES)] or 'wait'}", flush=True)
        folder = tmp_path / str(number)
        folder.mkdir()
        batch = agree(spark, folder, by, many(by, seeds), POLICIES[number % len(POLICIES)])
        outcomes.update(row["outcome"] for row in batch)
    row = {
        "runs": 96 * rounds,
        "messages_a_run": 200,
        "rows": outcomes.total(),
        "outcomes": dict(sorted(outcomes.items())),
        "seeds": [100, 100 + rounds * A_ROUND[by] - 1],
        "policies": ["wait" if not policy else str(policy) for policy in POLICIES[:rounds]],
        "minutes": round((monotonic() - started) / 60, 1),
    }
    keep("deliver", by, row)
