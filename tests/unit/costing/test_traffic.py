"""Which needs a trace meets, with a witness where it does not."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from thence import cost
from thence.core.model.events import parse
from thence.core.model.order import judge
from thence.core.model.roster import Roster
from thence.core.protocols.registry import NEEDS, create
from thence.lab.simulator import Scenario, simulate
from thence.tables.costing.separators import components_without, separating, separators_option, traffic_graph
from thence.tables.costing.traffic import Hidden, findings, profile


@pytest.mark.parametrize(
    ("script", "need", "met", "why"),
    [
        ("a!1>bc b?a1 b!1>ac", "broadcast only", True, "every message"),
        ("a!1>b", "broadcast only", False, "a1 does not go to c"),
        ("a!1>abc", "broadcast only", False, "its own sender"),
        ("a!1>b b?a1", "unicast only", True, "one process"),
        ("a!1>bc", "unicast only", False, "a1 goes to 2"),
        ("a!1>b b?a1 b!1>c c?b1 c!1>ab", "serialized sends", True, "knew the message sent before"),
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
    found = profile(parse("a!1>b b?a1"), Roster("ab"), hidden=Hidden(set_aside=2, why="2 rows cannot be used: x"))
    assert (found.verdict, found.reason) == ("unknown", "2 rows cannot be used: x")


def test_separators_by_search_are_those_by_removal() -> None:
    from random import Random

    connected = 0
    for seed in range(200):
        rng = Random(seed)
        names = Roster.of(rng.randint(1, 9))
        near = {name: set() for name in names}
        for _ in range(rng.randint(0, 14)):
            one, two = rng.choice(names.names), rng.choice(names.names)
            if one != two:
                near[one].add(two)
                near[two].add(one)
        if len(components_without(near)) == 1:
            wanted = [name for name in names if len(components_without(near, name)) > 1]
            assert separating(near) == wanted, f"seed {seed}: {near}"
            connected += 1
    assert connected > 50


def test_separators_are_written_as_the_protocol_reads_them() -> None:
    events = parse("a!1>b b!1>c cc!1>c")
    roster = Roster(["a", "b", "c", "cc"])
    text = separators_option(traffic_graph(events, roster))
    assert text.startswith("b,:a,|c,cc,;")
    assert create("ech-r9", roster, "b", separators=text)
    assert separators_option({"a:b": {"c"}, "c": {"a:b", "d"}, "d": {"c"}}) == ""


@pytest.mark.parametrize("seed", range(60))
def test_the_verdict_is_that_of_the_definition_beside_gaps_and_rows_set_aside(seed: int) -> None:
    random = Random(seed)
    scenario = Scenario(protocol="unordered", processes=4, messages=12, delay="exponential:1", seed=seed)
    rows = simulate(scenario, trace=True, measure=False).events
    lost = random.choice(("deliver", "receive", "send"))
    gone = random.sample([event for event in rows if event.kind == lost], random.randint(0, 3))
    events = [event for event in rows if event not in gone]
    if seed % 3 == 0:
        events.append(replace(random.choice(events), time=None))  # an index that stands twice
    assert cost(events, ["ks"]).runs[0]["verdict"] == judge(events).verdict, f"seed {seed}"


def test_all_three_verdicts_occur_beside_gaps() -> None:
    """A message that was never delivered beside a gap is possible only; a late one is a violation."""
    told = "a!1>bc c. a!2>c c?a2 b?a1"
    never = [event for event in parse(told) if event.kind != "internal"]
    late = [event for event in parse(f"{told} c?a1") if event.kind != "internal"]
    after = [event for event in parse("a!1>bc a!2>c c?a2 c. c. b?a1") if (event.process, event.index) != ("c", 2)]
    found = {name: cost(rows, ["ks"]).runs[0] for name, rows in (("never", never), ("late", late), ("after", after))}
    assert {name: row["verdict"] for name, row in found.items()} == {
        "never": "unknown", "late": "violated", "after": "violated"
    }  # fmt: skip
    assert found["never"]["reason"] == (
        "c delivered a2, perhaps before a1, a cause of it; 1 processes leave out an index"
    )
    for rows, name in ((never, "never"), (late, "late"), (after, "after")):
        assert judge(rows).verdict == found[name]["verdict"]
