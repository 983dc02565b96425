"""Which needs a trace meets, with a witness where it does not."""

from __future__ import annotations

import pytest

from thence.core.model.events import parse
from thence.core.model.roster import Roster
from thence.core.protocols.registry import NEEDS, create
from thence.tables.costing.separators import components, graph_of, separating, written
from thence.tables.costing.traffic import findings, profile


@pytest.mark.parametrize(
    ("script", "need", "met", "why"),
    [
        ("a!1>bc b?a1 b!1>ac", "broadcast only", True, "every message"),
        ("a!1>b", "broadcast only", False, "a1 does not go to c"),
        ("a!1>abc", "broadcast only", False, "its own sender"),
        ("a!1>b b?a1", "unicast only", True, "one process"),
        ("a!1>bc", "unicast only", False, "a1 goes to 2"),
        ("a!1>b b?a1 b!1>c c?b1 c!1>ab", "serialized sends", True, "knowing the one before"),
        ("a!1>b c!1>b", "serialized sends", False, "c sent c1 without knowing a1"),
        ("a!1>b a!2>c b?a1 b!1>c", "serialized sends", False, "b sent b1 without knowing a2"),
        ("a!1>b a!2>b b<a1 b<a2", "fifo", True, "order of sends"),
        ("a!1>b a!2>b b<a2 b<a1", "fifo", False, "b received a1 after a2"),
        ("a!1>b b?a1", "fifo", None, "receive rows"),
        ("a!1>b b!1>c", "topology", True, "b part"),
        ("a!1>bc b!1>c", "topology", False, "no single process"),
        ("a!1>b", "topology", False, "no connected graph"),
        ("a!1>b", "coordinator", None, "no trace shows"),
        ("a!1>b", "fixed membership", True, "no process crashes"),
    ],
)
def test_needs(script: str, need: str, met: bool | None, why: str) -> None:
    found = findings(parse(script), Roster("abc"))
    assert found.keys() == set(NEEDS)
    assert found[need].met is met  # type: ignore[index]
    assert why in found[need].why  # type: ignore[index]


def test_crashes_unfix_the_membership() -> None:
    assert findings(parse("a!1>b"), Roster("ab"), crashes=1)["fixed membership"].met is False


def test_recorded_waiting_and_basis() -> None:
    found = profile(parse("a!1>b a!2>b b<a2 b. b<a1 b?a1 b?a2"), Roster("ab"))
    assert (found.basis, found.held, found.held_rows, found.held_seconds) == ("arrivals", 1, 3, None)
    assert profile(parse("a!1>b b?a1"), Roster("ab")).basis == "deliveries"


def test_a_violation_is_named() -> None:
    found = profile(parse("a!1>c a!2>b b?a2 b!1>c c?b1 c?a1"), Roster("abc"))
    assert (found.verdict, found.reason) == ("violated", "c delivered b1 before a1, a cause of it")


def test_what_cannot_be_used_hides_the_verdict() -> None:
    found = profile(parse("a!1>b b?a1"), Roster("ab"), unusable="2 rows cannot be used: x")
    assert (found.verdict, found.reason) == ("unknown", "2 rows cannot be used: x")


def test_separators_by_search_are_those_by_removal() -> None:
    from random import Random

    for seed in range(200):
        rng = Random(seed)
        names = Roster.of(rng.randint(1, 9))
        near = {name: set() for name in names}
        for _ in range(rng.randint(0, 14)):
            one, two = rng.choice(names.names), rng.choice(names.names)
            if one != two:
                near[one].add(two)
                near[two].add(one)
        if len(components(near)) == 1:
            wanted = [name for name in names if len(components(near, name)) > 1]
            assert separating(near) == wanted, f"seed {seed}: {near}"


def test_separators_are_written_as_the_protocol_reads_them() -> None:
    events = parse("a!1>b b!1>c cc!1>c")
    roster = Roster(["a", "b", "c", "cc"])
    text = written(graph_of(events, roster))
    assert text.startswith("b,:a,|c,cc,;")
    assert create("ech-r9", roster, "b", separators=text)
    assert written({"a:b": {"c"}, "c": {"a:b", "d"}, "d": {"c"}}) == ""
