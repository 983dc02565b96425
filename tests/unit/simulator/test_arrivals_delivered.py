"""The arrivals of a run, put in order by `thence.Orderer`, come out as the run itself delivered them."""

from __future__ import annotations

import pytest

from thence import Orderer
from thence.core.protocols.registry import REGISTRY
from thence.lab.simulator import Scenario, simulate

RECEIVE_ONLY = [name for name, entry in REGISTRY.items() if entry.receive_only]


@pytest.mark.parametrize("protocol", RECEIVE_ONLY)
def test_the_same_deliveries(protocol: str) -> None:
    needs = REGISTRY[protocol].needs
    fanout = "broadcast" if "broadcast only" in needs else "unicast" if "unicast only" in needs else "uniform"
    scenario = Scenario(protocol=protocol, processes=5, messages=80, fanout=fanout, delay="adversarial", duplicates=0.1)
    result = simulate(scenario, trace=True, arrivals=True)
    assert result.arrivals is not None
    names = ("run", "destination", "arrival", "message", "sender", "stamp")
    rows = [dict(zip(names, row, strict=True)) for row in result.arrivals.rows]
    out = list(Orderer(by="stamp", roster=scenario.roster).deliver(rows))
    delivered = [(row["destination"], row["message"]) for row in out if row["outcome"] == "delivered"]
    assert delivered == [(event.process, event.message) for event in result.events if event.kind == "deliver"]
