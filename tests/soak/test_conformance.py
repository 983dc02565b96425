"""The conformance suite at length: more seeds and processes, longer runs (THENCE_RUNS says how many)."""

from __future__ import annotations

import os

import pytest
from conformance.test_protocols import MINIMAL, PROTOCOLS, assert_minimal, may_address_itself
from support.definition import needless
from support.walk import walk

from thence.protocols import REGISTRY

RUNS = int(os.environ.get("THENCE_RUNS", "1500"))
FIRST = int(os.environ.get("THENCE_SEED", "100000"))


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", PROTOCOLS)
def test_long_conformance(name: str) -> None:
    messages = 0
    for seed in range(FIRST, FIRST + RUNS):
        long = seed % 50 == 0
        run = walk(
            name,
            2 + seed % 9,
            300 if long else 8 + seed % 40,
            seed,
            fifo="fifo" in REGISTRY[name].needs or seed % 2 == 0,
            self_addressed=may_address_itself(name) and seed % 3 == 0,
            duplicates=seed % 4 == 0,
            twins=0.02,
            wire=seed % 5 == 0,
        )
        run.check(deadlock=name == "bounded")
        messages += sum(event.kind == "send" for event in run.events)
        if not long:
            if REGISTRY[name].waits == "causes only" and REGISTRY[name].guarantee == "causal":
                assert not needless(run.events), f"needless waiting in {run}"
            if name in MINIMAL:
                assert_minimal(run)
    print(f"{name}: {RUNS} runs from seed {FIRST}, {messages} messages, 0 failures")
