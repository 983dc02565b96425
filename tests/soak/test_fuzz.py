"""A million hostile stamps and snapshots over every protocol; THENCE_FUZZ and THENCE_SEED set number and seed."""

from __future__ import annotations

import os

import pytest
from support.hostile import Hostile, names
from support.soak import keep

TOTAL = int(os.environ.get("THENCE_FUZZ", "1000000"))
SEED = int(os.environ.get("THENCE_SEED", "1"))
SCENES = 10
"""systems in mid-run that the cases of a protocol are spread over, times four sizes"""


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", names())
def test_no_stamp_and_no_snapshot_breaks_a_member(name: str) -> None:
    each = -(-TOTAL // len(names()) // SCENES)
    worst: dict[str, float] = {}
    cases: dict[str, int] = {}
    for scene in range(SCENES):
        hostile = Hostile(name, 100 * SEED + scene, memory=500)
        while hostile.worst.cases["stamp"] + hostile.worst.cases["snapshot"] < each:
            hostile.case()
        for kind, count in hostile.worst.cases.items():
            cases[kind] = cases.get(kind, 0) + count
        for key in ("microseconds", "microseconds_per_byte", "memory_per_byte"):
            worst[key] = max(worst.get(key, 0), round(getattr(hostile.worst, key), 1))
    assert cases["stamp"] + cases["snapshot"] >= each * SCENES
    keep("hostile", name, {"seed": SEED, **cases, **{f"worst {key}": value for key, value in worst.items()}})
