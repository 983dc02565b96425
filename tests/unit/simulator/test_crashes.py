"""Crashes: the protocols made for them keep their promise to whoever lives; a failure prints its scenario and seed."""

from __future__ import annotations

import pytest
from support.some import some

from thence.core.protocols.registry import REGISTRY
from thence.lab.simulator import Result, Scenario, simulate

MADE_FOR_IT = [name for name, entry in REGISTRY.items() if "failure detector" in entry.needs]


def broken(result: Result) -> list[str]:
    """Return where order, validity or uniform agreement fails among the living."""
    judgement = result.judge()
    down = set(result.outcome.crashed)
    delivered = {event.message for event in result.events if event.kind == "deliver"}
    sender = {event.message: event.process for event in result.events if event.kind == "send"}
    wrong = [str(each) for each in (*judgement.violations, *judgement.duplicates, *judgement.misdelivered)]
    for missing in judgement.undelivered:
        if missing.destination in down:
            continue
        if missing.message in delivered or sender[missing.message] not in down:
            wrong.append(str(missing))
    return wrong


@pytest.mark.parametrize("protocol", MADE_FOR_IT)
@pytest.mark.parametrize("groups", ["", "ab|cd|e"])
def test_the_living_agree(protocol: str, groups: str) -> None:
    lost = 0
    for seed in range(12):
        options = (("groups", groups),) if groups else ()
        scenario = Scenario(
            protocol=protocol,
            processes=5,
            messages=40,
            crashes=seed % 4,
            options=options,
            seed=seed,
            delay="adversarial",
        )
        result = simulate(scenario, trace=True)
        assert not broken(result), f"{broken(result)[0]} in {scenario}"
        lost += result.outcome.lost
    assert lost > 0


def test_a_protocol_that_is_not_made_for_it_may_wait_for_ever() -> None:
    outcomes = [simulate(Scenario(processes=5, messages=200, crashes=2, seed=seed)).outcome for seed in range(6)]
    assert any(outcome.stuck for outcome in outcomes)
    assert not any(outcome.deadlock for outcome in outcomes)


def test_whole_groups_are_addressed() -> None:
    scenario = Scenario(protocol="a-causal", processes=6, messages=60, options=(("groups", "abc|d|ef"),))
    allowed = ({"a", "b", "c"}, {"d"}, {"e", "f"})
    for event in some(each for each in simulate(scenario, trace=True).events if each.kind == "send"):
        to = set(event.destinations or ())
        assert all(group <= to or not group & to for group in allowed)
