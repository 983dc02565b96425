"""For each recommendable protocol there is a trace on which it wins; and the reasons are told."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from random import Random

import pytest

from thence.core.model.events import Event, parse
from thence.core.model.roster import Roster
from thence.lab.simulator import Scenario, simulate
from thence.protocols import REGISTRY
from thence.tables.costing import profile, recommend, replay_run
from thence.tables.costing.recommend import (
    GROWTH,
    NEVER,
    Recommendation,
    growth,
    recommendable,
    together,
    total_cost,
    when_warm,
)
from thence.tables.costing.replay import LOOK, Cost


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
    "bss": lambda: simulated(processes=8, messages=120, fanout="broadcast"),
    "ech": lambda: simulated(processes=6, messages=150, workload="groups:abc/cde/efa"),
    "ech-r9": lambda: simulated(processes=7, messages=150, workload="groups:ab/bc/cd/de/ef/fg"),
    "serial-broadcast": lambda: relay(6, 120, 5),
    "serial-multicast": lambda: relay(12, 150, 2),
    "acked": lambda: relay(6, 120, 1),
}


@cache
def replayed(name: str) -> tuple[Roster, list[Event], dict[str, Cost]]:
    events = WINS[name]()
    roster = Roster(sorted({e.process for e in events} | {d for e in events for d in e.destinations or ()}))
    slow = ("history", "gossip", "epochs", "bounded")
    return roster, events, {p: replay_run(events, p, roster) for p in REGISTRY if p not in slow}


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
    costs = {name: replay_run(events, name, roster) for name in ("ks", "acked")}
    chosen = recommend(profile(events, roster).findings, costs)
    assert [name for name, _ in chosen.ranking] == ["ks"]
    assert "holds 1 sends back" in dict(chosen.passed_over)["acked"]


def test_nothing_stands_for_choice() -> None:
    roster, events, costs = replayed("ks")
    chosen = recommend(profile(events, roster).findings, {name: costs[name] for name in ("bss", "fifo", "ci-dc")})
    assert chosen.protocol is None
    assert chosen.advice == "nothing: each of the protocols replayed is passed over, for its own reason"
    assert chosen.row()["passed_over"].keys() == {"bss", "fifo", "ci-dc"}


def test_totals_and_findings_over_several_runs() -> None:
    roster = Roster("abc")
    runs = [parse("a!1>bc b?a1 c?a1"), parse("a!1>b b?a1 b!1>c c?b1")]
    both = total_cost(replay_run(events, "ks", roster) for events in runs)
    assert (both.messages, both.copies, both.deliveries) == (3, 4, 4)
    assert total_cost([Cost("bss"), Cost("bss", "refused", "why")]).reason == "why"
    joined = together(profile(events, roster).findings for events in runs)
    assert joined["broadcast only"].met is False
    assert joined["serialized sends"].met is True


def test_a_trace_that_ends_in_the_middle_speaks_against_nobody() -> None:
    events = parse("a!1>c a!2>b b<a2 b?a2 b!1>c c<b1")  # b1 has arrived and waits for a1
    roster = Roster("abc")
    costs = {name: replay_run(events, name, roster) for name in ("ks", "rst", "ech")}
    assert {cost.stuck for cost in costs.values()} == {1}
    assert {name for name, _ in recommend(profile(events, roster).findings, costs).ranking} == {"ks", "rst", "ech"}


# -- warm-up, growth, margin -----------------------------------------------------------------------------------------


def choose(events: list[Event], *protocols: str) -> tuple[Recommendation, dict[str, Cost]]:
    roster = Roster(sorted({e.process for e in events} | {d for e in events for d in e.destinations or ()}))
    costs = {name: replay_run(events, name, roster) for name in protocols}
    return recommend(profile(events, roster).findings, costs), costs


def test_nothing_is_recommended_from_too_little() -> None:
    chosen, _ = choose(simulated(processes=4, messages=99), "ks", "rst")
    assert chosen.protocol is None
    assert chosen.reason == "99 messages are too few to recommend from; record 100 or more"
    assert len(chosen.ranking) == 2


def test_many_short_runs_are_too_little() -> None:
    """Stamps start empty in each run: 600 messages in 60 of them never come to be warm."""
    runs = [simulated(processes=20, messages=10, fanout="unicast", seed=seed, run=str(seed)) for seed in range(60)]
    roster = Roster.of(20)
    costs = {name: total_cost(replay_run(events, name, roster) for events in runs) for name in ("ks", "ech")}
    chosen = recommend({}, costs)
    assert chosen.protocol is None
    assert chosen.reason == (
        "600 of 600 messages are in runs and labels, of 60, too short to recommend from, "
        "for stamps start empty in each; record 100 or more messages and deliveries in each"
    )


def test_one_long_run_does_not_speak_for_many_short_ones() -> None:
    """Of 19 runs one has 2,000 messages, so that there are more than 100 a run on the mean."""
    long = [simulated(processes=5, messages=2000, run="long")]
    short = [simulated(processes=5, messages=10, seed=seed, run=str(seed)) for seed in range(18)]
    for runs, protocol in ((long + short, None), (long + short[:8], "ks")):
        costs = {name: total_cost(replay_run(events, name, Roster.of(5)) for events in runs) for name in ("ks", "rst")}
        assert costs["ks"].messages > 100 * costs["ks"].runs
        chosen = recommend({}, costs)
        assert chosen.protocol == protocol
        assert chosen.reason.startswith(
            "ks: " if protocol else "180 of 2180 messages are in runs and labels, of 19, too"
        )


def test_sends_that_nobody_delivered_say_too_little() -> None:
    events = parse(" ".join(f"a!{count}>b" for count in range(1, 151)))
    chosen, _ = choose(events, "ks", "rst")
    assert chosen.protocol is None
    assert chosen.reason == "150 messages with 0 deliveries are too few to recommend from; record 100 or more of both"


@pytest.mark.parametrize(("name", "processes", "messages"), [("bss", 8, 1500), ("bss", 4, 800), ("rst", 2, 400)])
def test_wider_numbers_are_no_growth(name: str, processes: int, messages: int) -> None:
    """Counts above 127 take a second byte in the stamps of every protocol; bss and rst have as many as ever."""
    chosen, costs = choose(simulated(processes=processes, messages=messages, fanout="broadcast"), name)
    assert costs[name].last_bytes / costs[name].last_copies > 1.1 * costs[name].third_bytes / costs[name].third_copies
    assert growth(costs[name]) == 0.0
    assert chosen.protocol == name


def test_what_is_said_of_prs_is_so() -> None:
    """Among pairs that speak to nobody else it costs less than the others, by a byte; among three it does not."""
    others = ("ks", "ech", "rst")
    pairs, threes = (simulated(processes=8, messages=1000, workload=f"groups:{g}") for g in ("ab/cd/ef/gh", "abc/def"))
    _, costs = choose(pairs, "prs", *others)
    assert 0 < min(when_warm(costs[name]) for name in others) - when_warm(costs["prs"]) < 1.5
    _, costs = choose(threes, "prs", *others)
    assert min(when_warm(costs[name]) for name in others) < when_warm(costs["prs"])


def test_nothing_is_recommended_while_the_cheapest_still_grows() -> None:
    """As docs/laboratory/cost.md has it: which of ks and ech is cheaper depends on how long one looks."""
    processes = 20
    short, costs = choose(simulated(processes=processes, messages=100, fanout="unicast"), "ks", "ech")
    assert when_warm(costs["ech"]) < when_warm(costs["ks"])
    assert growth(costs["ech"]) > GROWTH
    assert short.protocol is None
    assert short.reason.startswith("the stamps of ech still grow (")
    long, costs = choose(simulated(processes=processes, messages=2000, fanout="unicast"), "ks", "ech")
    assert when_warm(costs["ech"]) > 2 * when_warm(costs["ks"])
    assert long.protocol == "ks"
    said = f"among {processes} processes, `ech` is cheaper than `ks` for the first hundred unicasts"
    page = " ".join((Path(__file__).parents[3] / "docs" / "laboratory/cost.md").read_text(encoding="utf-8").split())
    assert f"{said} and more than twice as expensive after two thousand" in page


def test_the_first_half_is_warm_up() -> None:
    _, costs = choose(simulated(processes=20, messages=400, fanout="unicast"), "ks", "rst")
    for cost in costs.values():
        assert cost.warm_messages == 200
        assert when_warm(cost) == (cost.third_bytes + cost.last_bytes) / 200
        assert when_warm(cost) >= (cost.bytes + cost.hop_bytes) / cost.messages
    assert when_warm(costs["ks"]) > (costs["ks"].bytes + costs["ks"].hop_bytes) / costs["ks"].messages


def sized(protocol: str, third: int, last: int) -> Cost:
    return Cost(
        protocol, runs=1, messages=400, copies=400, deliveries=400, bytes=2 * (third + last), warm_messages=200,
        third_copies=100, third_bytes=third, third_entries=third, last_copies=100, last_bytes=last, last_entries=last,
    )  # fmt: skip


def test_a_difference_within_the_margin_does_not_decide() -> None:
    """The first in the registry is taken; beyond the margin, the cheapest."""
    near = recommend({}, {each.protocol: each for each in (sized("ks", 1000, 1000), sized("ech", 960, 960))})
    assert (near.protocol, near.ranking[0][0]) == ("ks", "ech")
    assert "ech has 9.6, which is within 5%" in near.reason
    far = recommend({}, {each.protocol: each for each in (sized("ks", 1000, 1000), sized("ech", 940, 940))})
    assert far.protocol == "ech"


def test_one_that_grows_and_is_dearer_does_not_stand_in_the_way() -> None:
    chosen = recommend({}, {each.protocol: each for each in (sized("ks", 1000, 1000), sized("ech", 1500, 1700))})
    assert chosen.protocol == "ks"
    assert "the stamps of ech still grow (15.0 bytes a copy, then 17.0 in the last quarter)" in chosen.reason


def test_logs_of_receivers_are_looked_at() -> None:
    """Only c delivers, and never sends: its log is larger than that of any sender after a send."""
    senders = [chr(97 + place) for place in range(20) if chr(97 + place) != "c"]
    events = parse(" ".join(f"{s}!1>z {s}!2>c c?{s}2" for s in senders))
    roster = Roster(sorted([*senders, "c", "z"]))
    assert replay_run(events, "prs", roster).log_max == len(senders)
    shrunk = [*events, *parse("c!1>z")]  # after which c keeps its own message alone
    assert replay_run(shrunk, "prs", roster).log_max == len(senders) // LOOK * LOOK
    turns = parse(" ".join(f"a!{2 * t + 1}>b b?a{2 * t + 1} a!{2 * t + 2}>c c?a{2 * t + 2}" for t in range(100)))
    assert replay_run(turns, "ech", Roster("abc")).log_max == 2
