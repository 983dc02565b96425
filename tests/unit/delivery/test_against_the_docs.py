"""The Orderer gives what docs/explanation/delivery-rule.md says, as does an orderer written from that page alone."""

from __future__ import annotations

import os
from random import Random

import pytest
from support.naive_orderer import BYS, Naive, arrivals, policies, told

from thence import Orderer

SETS = int(os.environ.get("THENCE_SETS", "1500"))
FIRST = int(os.environ.get("THENCE_SEED", "0"))


def compared(seed: int) -> set[str]:
    random = Random(seed)
    by = random.choice(BYS)
    rows, chosen = arrivals(by, random), random.choice(policies(random))
    naive = Naive(by, **chosen)
    for row in rows:
        naive.push(row)
    wanted = [told(said["row"], {"reason": ""} | said) for said in naive.finish()]
    found = [told(said, {**said, "reason": said["reason"]}) for said in Orderer(by=by, **chosen).deliver(rows)]  # type: ignore[arg-type]
    assert found == wanted, f"seed {seed}: by {by}, {chosen}, {rows}"
    return {said["outcome"] for said in found}


def test_outcomes_order_and_sentences_are_those_of_the_page() -> None:
    print(f"seeds {FIRST} to {FIRST + SETS - 1}")
    seen: set[str] = set()
    for seed in range(FIRST, FIRST + SETS):
        seen |= compared(seed)
    assert seen == {"delivered", "released", "late", "duplicate", "quarantined", "blocked"}


@pytest.mark.soak
def test_the_same_at_length() -> None:
    for seed in range(1_000_000, 1_020_000):
        compared(seed)
