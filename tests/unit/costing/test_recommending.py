"""For each recommendable protocol there is a trace on which it wins; and the reasons are told."""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random

import pytest

from thence.costing import profile, recommend, replay
from thence.costing.recommending import NEVER, recommendable, together, total
from thence.costing.replaying import Cost
from thence.model.events import Event, parse
from thence.model.roster import Roster
from thence.protocols import REGISTRY
from thence.sim import Scenario, simulate


def simulated(**what: object) -> list[Event]:
    return simulate(Scenario(**what), trace=True, measure=False).events  # type: ignore[arg-type]


def relay(processes: int, messages: int, fanout: int, *, seed: int = 1) -> list[Event]:
    """Serialized sends: whoever got the last message sends the next."""
    rng, names, counts = Random(seed), Roster.of(processes).names, Counter[str]()
    here, tokens = names[0], []
    for _ in range(messages):
        to = sorted(rng.sample([name for name in names if name != here], fanout))
        counts[here] += 1
        tokens.append(f"{here}!{counts[here]}>{''.join(to)}")
        tokens += [f"{name}?{here}{counts[here]}" for name in to]
        here = rng.choice(to)
    return parse(" ".join(tokens))


WINS = {
    "ks": lambda: simulated(processes=12, messages=150),
    "rst": lambda: simulated(processes=3, messages=700, fanout="unicast"),
    "bss": lambda: simulated(processes=8, messages=80, fanout="broadcast"),
    "prs": lambda: simulated(processes=5, messages=4, workload="request-reply", delay="adversarial", seed=10),
    "ech": lambda: simulated(processes=6, messages=150, workload="groups:abc/cde/efa"),
    "ech-r9": lambda: simulated(processes=7, messages=150, workload="groups:ab/bc/cd/de/ef/fg"),
    "serial-broadcast": lambda: relay(6, 60, 5),
    "serial-multicast": lambda: relay(12, 150, 2),
    "acked": lambda: relay(6, 60, 1),
}


@cache
def replayed(name: str) -> tuple[Roster, list[Event], dict[str, Cost]]:
    events = WINS[name]()
    roster = Roster(sorted({e.process for e in events} | {d for e in events for d in e.destinations or ()}))
    slow = ("history", "gossip", "epochs", "bounded")
    return roster, events, {p: replay(events, p, roster) for p in REGISTRY if p not in slow}


@pytest.mark.parametrize("name", WINS)
def test_there_is_a_trace_where_it_wins(name: str) -> None:
    roster, events, costs = replayed(name)
    found = profile(events, roster)
    assert found.verdict == "causal"
    chosen = recommend(found.findings, costs)
    assert chosen.protocol == name, chosen
    assert chosen.ranking[0][1] == min(size for _, size in chosen.ranking)
    assert chosen.reason.startswith(f"{name}: ")
    assert {protocol for protocol, _ in (*chosen.ranking, *chosen.passed_over)} == costs.keys()


def test_every_recommendable_protocol_has_its_trace() -> None:
    assert sorted(WINS) == sorted(recommendable())
    assert not set(NEVER) & set(WINS)


def test_reasons_against() -> None:
    roster, events, costs = replayed("ks")
    against = dict(recommend(profile(events, roster).findings, costs).passed_over)
    assert "does not go to" in against["bss"]
    assert "without knowing" in against["serial-multicast"]
    assert "no trace shows" in against["central"]
    assert "two-hop order" in against["two-hop"]
    assert against["ses"] == NEVER["ses"]


def test_added_waiting_speaks_against_a_protocol() -> None:
    events = parse("a!1>b a!2>c c?a2 b?a1 a!3>b b?a3")
    roster = Roster("abc")
    costs = {name: replay(events, name, roster) for name in ("ks", "acked")}
    chosen = recommend(profile(events, roster).findings, costs)
    assert chosen.protocol == "ks"
    assert "holds 1 sends back" in dict(chosen.passed_over)["acked"]


def test_nothing_stands_for_choice() -> None:
    roster, events, costs = replayed("ks")
    chosen = recommend(profile(events, roster).findings, {"bss": costs["bss"], "fifo": costs["fifo"]})
    assert chosen.protocol is None
    assert chosen.row()["passed_over"].keys() == {"bss", "fifo"}


def test_totals_and_findings_over_several_runs() -> None:
    roster = Roster("abc")
    runs = [parse("a!1>bc b?a1 c?a1"), parse("a!1>b b?a1 b!1>c c?b1")]
    both = total(replay(events, "ks", roster) for events in runs)
    assert (both.messages, both.copies, both.deliveries) == (3, 4, 4)
    assert total([Cost("bss"), Cost("bss", "refused", "why")]).reason == "why"
    joined = together(profile(events, roster).findings for events in runs)
    assert joined["broadcast only"].met is False
    assert joined["serialized sends"].met is True


def test_a_trace_that_ends_in_the_middle_speaks_against_nobody() -> None:
    events = parse("a!1>c a!2>b b<a2 b?a2 b!1>c c<b1")  # b1 has arrived and waits for a1
    roster = Roster("abc")
    costs = {name: replay(events, name, roster) for name in ("ks", "rst", "ech")}
    assert {cost.stuck for cost in costs.values()} == {1}
    assert recommend(profile(events, roster).findings, costs).protocol is not None
