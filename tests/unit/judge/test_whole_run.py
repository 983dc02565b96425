"""The array twin of the judge finds what the definition finds."""

from __future__ import annotations

import pytest
from support.tables import as_found, by_definition, normal
from support.traces import Knobs, random_trace, spoil

from thence.core.model.events import parse
from thence.core.model.order import judge
from thence.tables.judge.whole_run import judge_run as judge_arrays

BATCH = 100


@pytest.mark.parametrize("start", range(0, 500, BATCH))
def test_equal_to_the_definition(start: int) -> None:
    for seed in range(start, start + BATCH):
        block = [None, 1, 3][seed % 3]
        events = random_trace(seed)
        if not events:
            continue
        found = judge_arrays(events[0].run, normal(events), block=block).to_pylist()
        assert as_found(found) == by_definition(judge(events)), f"seed {seed}"


@pytest.mark.parametrize("start", range(0, 500, BATCH))
def test_equal_on_spoilt_rows(start: int) -> None:
    for seed in range(start, start + BATCH):
        events = spoil(random_trace(seed), seed)
        if not events:
            continue
        found = judge_arrays(events[0].run, normal(events)).to_pylist()
        assert as_found(found) == by_definition(judge(events)), f"seed {seed}"


def test_many_lost_messages_each_have_the_first_early_one() -> None:
    """Queues of open questions: several senders, every other message lost, and what comes late answers many at once."""
    text = [f"{s}!{n}>x" for n in range(1, 41) for s in "ab"] + [f"x?{s}{n}" for n in range(2, 41, 3) for s in "ab"]
    text += ["c!1>x", "c?a40", "c!2>x", "x?c2", "x?c1"]
    events = parse(" ".join(text).replace("a!40>x", "a!40>xc"))
    wanted = by_definition(judge(events))
    for block in (None, 1):
        assert as_found(judge_arrays(events[0].run, normal(events), block=block).to_pylist()) == wanted
    assert len(judge(events).violations) > 50


@pytest.mark.parametrize("seed", range(20))
def test_the_order_is_derived_where_there_is_none(seed: int) -> None:
    from random import Random

    events = random_trace(seed, Knobs(processes=6, steps=200, late=0.3))
    Random(seed).shuffle(events)
    found = judge_arrays(events[0].run, normal(events, order=False)).to_pylist()
    assert as_found(found) == by_definition(judge(events)), f"seed {seed}"
