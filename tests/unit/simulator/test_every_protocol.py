"""Every registered protocol on every network it supports, judged by definition against its own guarantee."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.definition import needless
from support.some import some

from thence.core.model.order import judge
from thence.core.protocols.registry import REGISTRY
from thence.errors import MisuseError
from thence.lab.simulator import Scenario, simulate

NETWORKS: dict[str, dict[str, Any]] = {
    "exponential": {},
    "adversarial": {"delay": "adversarial"},
    "heavy-tailed": {"delay": "pareto:0.05,1.2"},
    "fifo": {"delay": "adversarial", "fifo": True},
    "lognormal links": {"delay": "lognormal:0.05,1;a>*=constant:0.3;*>b=exponential:0.4"},
    "partition": {"partitions": ("0.2-0.8:ab|cde", "0.9-1.1:a|bcde")},
    "duplicates": {"duplicates": 0.3},
    "self": {"to_self": True, "delay": "adversarial"},
    "labels": {"labels": 2},
}
TRAFFIC: dict[str, dict[str, Any]] = {
    "uniform": {"fanout": "uniform"},
    "unicast": {"fanout": "unicast"},
    "broadcast": {"fanout": "broadcast"},
    "groups": {"workload": "groups:abc/cde/ae"},
    "request-reply": {"workload": "request-reply:2"},
}
SEED = 7
RUNS = [(p, n, t) for p in REGISTRY for n in NETWORKS for t in TRAFFIC if (n, t) != ("self", "request-reply")]


def scenario_of(protocol: str, network: str, traffic: str) -> Scenario | None:
    scenario = Scenario(
        protocol=protocol,
        processes=5,
        messages=45,
        seed=SEED,
        bound=200 if protocol == "bounded" else None,
        **({"fifo": "fifo" in REGISTRY[protocol].needs} | NETWORKS[network]),
        **TRAFFIC[traffic],
    )
    try:
        scenario.check()
    except MisuseError as refusal:
        if f"protocol {protocol} needs" not in str(refusal):
            raise
        return None
    return scenario


RUNNABLE = [scenario for run in RUNS if (scenario := scenario_of(*run)) is not None]


@pytest.mark.parametrize("protocol", REGISTRY)
def test_keeps_its_promise(protocol: str) -> None:
    mine = [scenario for scenario in RUNNABLE if scenario.protocol == protocol]
    if "failure detector" not in REGISTRY[protocol].needs:
        assert len(mine) >= len(NETWORKS) - 1
    for scenario in some(mine):
        result = simulate(scenario, trace=True)
        judgement = result.judge()
        wrong = [*judgement.violations, *judgement.duplicates, *judgement.misdelivered, *judgement.quarantine]
        assert not wrong, f"{wrong[0]} in {scenario}"
        assert not judgement.gaps, f"{judgement.gaps} in {scenario}"
        assert not judgement.undelivered, f"{judgement.undelivered[0]} in {scenario}"
        assert not result.outcome.stuck, f"{result.outcome.stuck[0]} in {scenario}"
        if scenario.entry.waits == "causes only" and scenario.entry.guarantee == "causal":
            assert not needless(result.events), f"{needless(result.events)[0]} in {scenario}"


@pytest.mark.parametrize("network", ["exponential", "adversarial", "heavy-tailed", "partition", "labels"])
@pytest.mark.parametrize("liar", ["unordered", "fifo"])
def test_liars_are_caught_on_every_network_that_reorders(network: str, liar: str) -> None:
    scenario = scenario_of(liar, network, "uniform")
    assert scenario is not None
    assert judge(simulate(scenario, trace=True).events).verdict == "violated", scenario


@pytest.mark.parametrize("protocol", [p for p, e in REGISTRY.items() if e.needs])
def test_a_missing_need_is_refused_and_named(protocol: str) -> None:
    needs = set(REGISTRY[protocol].needs)
    wanting = {"broadcast only": {"fanout": "2"}, "unicast only": {"fanout": "2"}, "fifo": {"fifo": False}}
    for need in needs & set(wanting):
        with pytest.raises(MisuseError, match=f"protocol {protocol} needs .*{need}"):
            simulate(Scenario(protocol=protocol, processes=5, **wanting[need]))  # type: ignore[arg-type]


def test_every_protocol_is_measured() -> None:
    """The committed speeds have rows for all of the registry, in its order."""
    found = json.loads((Path(__file__).parents[3] / "benchmarks/sim/results/sim.json").read_text())
    for table in ("simulation", "recorded"):
        assert list(dict.fromkeys(row["protocol"] for row in found[table])) == list(REGISTRY)
