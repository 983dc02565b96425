"""A few million mutated stamps (2 million by default; THENCE_FUZZ sets another number)."""

from __future__ import annotations

import os
from random import Random

import pytest
from support.wire import PROTOCOLS, inputs, survives

TOTAL = int(os.environ.get("THENCE_FUZZ", "2000000"))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", PROTOCOLS)
def test_fuzz(name: str) -> None:
    seed = int(os.environ.get("THENCE_SEED", "1"))
    rng = Random(f"fuzz {name} {seed}")
    source = inputs(name, rng, 3)
    good = 0
    count = TOTAL // len(PROTOCOLS)
    for _ in range(count):
        roster, data = next(source)
        good += survives(name, data, roster)
    print(f"{name}: {count} inputs, {good} of them stamps, seed {seed}")
