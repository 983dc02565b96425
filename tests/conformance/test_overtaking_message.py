"""The first test for every protocol (errata 13): a sends to c, then to b; b sends to c, and that arrives first."""

from __future__ import annotations

import pytest
from support.walk import play, walk

from thence.errors import MisuseError
from thence.protocols import REGISTRY, create

TRIANGLE = "a!1>c a!2>b b<a2 b!1>c c<b1"
MULTICAST = [
    name
    for name, entry in REGISTRY.items()
    if entry.guarantee in ("causal", "two-hop")
    and not {"broadcast only", "unicast only", "coordinator", "failure detector", "groups"} & set(entry.needs)
]


@pytest.mark.parametrize("name", MULTICAST)
def test_triangle(name: str) -> None:
    run = play(name, 3, TRIANGLE)
    assert [e.message for e in run.events if e.process == "c" and e.kind == "deliver"] == []
    (held,) = [pending for pending in run.members[2].pending() if pending.what == "copy"]
    assert held.message == "b1"
    assert {cause.sender for cause in held.waits_for} >= {"a"}
    done = play(name, 3, TRIANGLE, drain=True)
    assert [e.message for e in done.events if e.process == "c" and e.kind == "deliver"] == ["a1", "b1"]


@pytest.mark.parametrize("liar", ["unordered", "fifo"])
def test_liars_fail_the_triangle(liar: str) -> None:
    assert play(liar, 3, TRIANGLE).judge("causal").violations


def test_broadcast_protocols_refuse_a_multicast() -> None:
    for name, entry in REGISTRY.items():
        if "broadcast only" in entry.needs:
            with pytest.raises(MisuseError, match="broadcast only"):
                create(name, "abc", "a").send(["b"])


def test_unicast_protocols_refuse_a_multicast() -> None:
    for name, entry in REGISTRY.items():
        if "unicast only" in entry.needs:
            with pytest.raises(MisuseError, match="unicast only"):
                create(name, "abc", "a").send(["b", "c"])


def test_a_walk_is_reproducible() -> None:
    assert walk("ks", 4, 30, 7).events == walk("ks", 4, 30, 7).events
