"""A FastStream service on a real broker: two topics, a slow and a failing handler, kills, both clients."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from support.broker import Broker

EXAMPLE = Path(__file__).parents[2] / "examples" / "faststream" / "shop.py"


def example() -> Any:
    spec = importlib.util.spec_from_file_location("faststream_shop", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("client", ["confluent", "aiokafka"])
def test_killed_services_lose_nothing_and_keep_effects_behind_their_causes(kafka: Broker, client: str) -> None:
    found = example().main(kafka.address, client, kills=2, each=40)
    assert (found["orders"], found["payments"], found["refused by the foreign key"]) == (80, 80, 0)
    assert found["failed attempts"] > 0


def test_two_services_of_one_group_share_the_partitions_and_know_of_each_other(kafka: Broker) -> None:
    """A cause that the other process handles is met by what `known` finds in the target, which is asked again."""
    for run in ("two", "again", "last"):  # on a loaded machine one may have handled all before the other has joined
        kafka.make(**{f"orders-{run}": 4, f"payments-{run}": 4})
        found = example().main(kafka.address, kills=1, each=120, services=2, run=run)
        assert (found["orders"], found["payments"], found["refused by the foreign key"]) == (120, 120, 0)
        if found["handled in another process than the cause"]:
            return
    pytest.fail("no service handled an effect whose cause another one had handled")
