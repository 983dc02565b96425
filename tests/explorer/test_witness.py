"""Failures as data: shrunk, written, read, replayed, told."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from thence.core.model.events import parse, render
from thence.core.model.order import judge
from thence.errors import TraceError
from thence.lab.explorer.coverage import Failure
from thence.lab.explorer.search import Explorer
from thence.lab.explorer.setting import CopyName, Setting, Start, Step
from thence.lab.explorer.shrink import find, shrunk
from thence.lab.explorer.witness import Impossible, Witness, loads
from thence.lab.papers.variants import setting_of

CAUSAL = frozenset({"causal order"})


def fifo_is_not_causal() -> Witness:
    _, smallest = find(Setting("fifo", 3, 4), properties=CAUSAL)
    assert smallest is not None
    assert smallest.fewest
    return smallest.witness


def test_the_smallest_execution_in_every_form() -> None:
    witness = fifo_is_not_causal()
    assert witness.notation() == "a!1>b a!2>c c?a2 c!1>b b?c1"
    assert witness.sentence() == (
        "b delivered c1 before a1, though a1 happened before c1: a sent a1, then sent a2; c delivered a2, then sent c1"
    )
    assert "<- too early: a1 is missing" in witness.diagram()
    assert judge(parse(witness.notation())).violations, "the definition agrees"
    assert render(parse(witness.notation())) == witness.notation()


def test_written_read_and_replayed() -> None:
    witness = fifo_is_not_causal()
    again = loads(witness.dumps())
    assert again == witness
    problem = again.run().problem
    assert problem is not None
    assert problem.property == "causal order"
    repaired = replace(again, setting=replace(again.setting, protocol="ks"))
    assert repaired.run().problem is None


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": "other"}', '{"format": "thence-execution-1"}'])
def test_what_is_no_execution_is_refused(text: str) -> None:
    with pytest.raises(TraceError):
        loads(text)


def test_a_step_that_cannot_be_taken_is_refused() -> None:
    witness = Witness(
        Setting("ks"), ("causal order",), Start(), (Step("receive", 0, copy=CopyName(1, 1, 1, "message")),)
    )
    with pytest.raises(Impossible):
        witness.run()
    row = json.loads(fifo_is_not_causal().dumps())
    row["steps"][0][0] = "forget"
    with pytest.raises(TraceError, match="no step 'forget'"):
        loads(json.dumps(row))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"destinations": "foo"}, "destinations 'foo'"),
        ({"crashes": -1}, "crashes -1"),
        ({"processes": 99}, "99 processes"),
        ({"processes": "3"}, "the type int is expected"),
    ],
)
def test_a_file_with_an_impossible_setting_is_at_fault(change: dict[str, object], found: str) -> None:
    row = json.loads(fifo_is_not_causal().dumps())
    row["setting"] |= change
    with pytest.raises(TraceError, match=found):
        loads(json.dumps(row))


def test_shrinking_takes_away_whatever_it_can() -> None:
    """A long failing execution comes down to the triangle's few steps."""
    setting = Setting("unordered", 3, 4, "any")
    explorer = Explorer(setting, properties=CAUSAL, first=False)
    failures = explorer.run().failures
    longest = max(failures, key=lambda failure: len(failure.steps))
    witness = shrunk(Failure(setting, longest.problem, longest.start, longest.steps), CAUSAL)
    assert len(witness.steps) < len(longest.steps)
    for place in range(len(witness.steps)):
        shorter = replace(witness, steps=witness.steps[:place] + witness.steps[place + 1 :])
        try:
            assert shorter.run().problem is None
        except Impossible:
            continue


def test_what_is_stuck_is_explained_by_what_it_waits_for() -> None:
    _, smallest = find(setting_of("bss-multicast", 3, 2, "any"))
    assert smallest is not None
    assert (
        smallest.witness.sentence() == "c never delivers a2, although nothing is in flight any more (a2 waits for a1)"
    )
