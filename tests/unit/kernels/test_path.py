"""The path is a causal chain, and as short as the one `trace.explain` finds."""

from __future__ import annotations

from itertools import pairwise

import pytest
from support.tables import normal
from support.traces import Knobs, random_trace

from thence.kernels.path import shortest
from thence.model.events import parse
from thence.model.order import judge
from thence.trace.explain import path


@pytest.mark.parametrize("seed", range(15))
def test_as_short_as_by_breadth_first_search(seed: int) -> None:
    knobs = Knobs(processes=2 + seed % 7, steps=150, late=0.4, slow=0.4, labels=((None,), ("red", None))[seed % 2])
    events = random_trace(seed, knobs)
    steps = {(e.process, e.index): e for e in events}
    for violation in judge(events).violations:
        found = shortest(normal(events), violation.missing, violation.early)
        known = path(events, violation)
        assert found is not None
        assert known is not None
        assert found[0]["message"] == violation.missing
        assert found[-1] == known[-1].row()
        assert len(found) == len(known), f"seed {seed}"
        for one, two in pairwise(found):
            assert (one["process"], one["index"]) in steps
            same = one["process"] == two["process"] and one["index"] < two["index"]
            carried = one["kind"] == "send" and two["kind"] == "deliver" and one["message"] == two["message"]
            assert same or carried


def test_a_chain_through_another_process() -> None:
    events = parse("a!1>bc b?a1 b!1>c c?b1 c?a1")
    found = shortest(normal(events), "a1", "b1")
    assert found is not None
    assert [(s["process"], s["kind"], s["message"]) for s in found] == [
        ("a", "send", "a1"), ("b", "deliver", "a1"), ("b", "send", "b1"),
    ]  # fmt: skip
