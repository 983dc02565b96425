"""A replay counts what the simulator counted, waits only where a protocol must, and says why where it cannot run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.some import some
from support.traces import random_trace
from support.walk import walk

from thence import cost
from thence.core.model.events import Event, parse
from thence.core.model.minimum import Minimum
from thence.core.model.order import by_label, judge, usable
from thence.core.model.roster import Roster
from thence.errors import MisuseError
from thence.lab.simulator import Scenario, simulate
from thence.protocols import REGISTRY
from thence.tables.contract.row_validity import row_of
from thence.tables.costing import has_arrivals, prefix, profile, replay_run
from thence.tables.explain.causality import causal_order

CAUSES_ONLY = [
    name
    for name, entry in REGISTRY.items()
    if entry.guarantee == "causal"
    and entry.waits == "causes only"
    and not {"groups", "overlay", "failure detector"} & {*entry.needs}
]


def deliveries_only(events: list[Event]) -> list[Event]:
    return [event for event in events if event.kind != "receive"]


@pytest.mark.parametrize("protocol", ["ks", "rst", "ech", "prs", "ci-dc", "ses"])
def test_a_replay_of_a_simulated_run_counts_what_the_simulator_counted(protocol: str) -> None:
    result = simulate(Scenario(protocol=protocol, processes=6, messages=200, seed=7), trace=True, warmup=0.0)
    assert result.recorder is not None
    assert result.measures is not None
    found = replay_run(result.events, protocol, result.recorder.roster)
    assert (found.status, found.messages, found.stuck) == ("measured", 200, 0)
    assert found.deliveries == found.copies == result.outcome.deliveries
    assert found.held == result.outcome.holds
    for name in ("entries", "facts", "bytes", "paper_bytes"):
        mean, total = result.measures.mean(f"{name}_per_copy"), getattr(found, name)
        assert (total is None and mean is None) or total / found.copies == pytest.approx(mean)
    assert found.log / found.messages == pytest.approx(result.measures.mean("log_size"))
    held = result.measures.mean("hold_per_copy")
    assert held is not None
    assert (found.held_seconds or 0.0) / found.deliveries == pytest.approx(held, rel=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_facts_of_ks_are_the_least(seed: int) -> None:
    run = walk("ks", 4, 25, seed)
    least = Minimum(usable(run.events)[0])
    copies = [(e.message or "", d) for e in run.events if e.kind == "send" for d in e.destinations or ()]
    wanted = sum(len(least.on_copy(*copy)) for copy in copies)
    assert replay_run(deliveries_only(run.events), "ks", run.roster).facts == wanted, run


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("recorded", ["ks", "bss", "acked"])
def test_causal_deliveries_wait_for_nothing_under_protocols_that_wait_for_causes_only(recorded: str, seed: int) -> None:
    run = walk(recorded, 5, 40, seed)
    for protocol in CAUSES_ONLY:
        found = replay_run(deliveries_only(run.events), protocol, run.roster)
        if found.status == "measured" and not found.deferred and not found.stuck:
            assert (found.held, found.deliveries) == (0, len(run.delivered)), f"{protocol} on {run}"
        elif found.status == "measured":
            assert protocol in ("acked", "synchronous", "bounded"), f"{protocol} on {run}"
        else:
            assert found.status == "refused", f"{protocol} on {run}"


def test_waiting_is_counted_from_the_arrival() -> None:
    events = parse("a!1>c a!2>b b<a2 b?a2 b!1>c c<b1 c. c<a1 c?a1 c?b1")
    assert has_arrivals(events)
    found = replay_run(events, "ks", Roster("abc"))
    assert (found.held, found.held_rows, found.held_seconds) == (1, 2, None)  # from c<b1 to c<a1
    lied = replay_run(events, "unordered", Roster("abc"))
    assert (lied.held, lied.deliveries) == (0, 3)


def test_a_protocol_that_waits_for_more_says_how_much() -> None:
    events = parse("a!1>c b!1>c c?b1 c?a1")  # concurrent, delivered against the order of the token
    found = replay_run(events, "serial-multicast", Roster("abc"))
    assert (found.held, found.held_rows, found.stuck) == (1, 1, 0)
    assert replay_run(events, "ks", Roster("abc")).held == 0


def test_deferred_sends_are_counted_and_late_copies_wait() -> None:
    events = parse("a!1>b a!2>c c?a2 b?a1")
    found = replay_run(events, "acked", Roster("abc"))
    assert (found.deferred, found.held, found.hops, found.stuck) == (1, 1, 2, 0)
    assert replay_run(events, "synchronous", Roster("abc")).deferred == 1


def test_what_waits_for_ever_is_told() -> None:
    found = replay_run(parse("a!1>b a!2>c c?a2"), "acked", Roster("abc"))
    assert found.stuck == 2
    assert found.reason is not None
    assert "b has not acknowledged a1" in found.reason


@pytest.mark.parametrize(
    ("protocol", "part"),
    [("bss", "broadcast only"), ("acked", "unicast only"), ("serial-broadcast", "broadcast only")],
)
def test_a_protocol_that_refuses_the_traffic_says_why(protocol: str, part: str) -> None:
    found = replay_run(parse("a!1>bc b?a1"), protocol, Roster("abcd"))
    assert found.status == "refused"
    assert part in (found.reason or "")


def test_relays_and_protocol_messages_count_as_hops() -> None:
    run = walk("ks", 4, 30, 3, fanout="unicast")
    central = replay_run(run.events, "central", run.roster)
    assert central.status == "measured"
    assert central.hops > 0
    assert central.hop_bytes > 0
    assert central.stuck == 0


def test_messages_to_nobody_and_copies_astray_cost_nothing() -> None:
    events = parse("a!1> a!2>b b?a2 c?a2 b?a2")
    found = replay_run(events, "ks", Roster("abc"))
    assert (found.messages, found.copies, found.deliveries, found.stuck) == (1, 1, 1, 0)


@pytest.mark.parametrize("deliveries", [1, 7, 40])
def test_a_prefix_is_causally_closed(deliveries: int) -> None:
    run = walk("ks", 5, 40, 11)
    kept, cut = prefix(run.events, deliveries)
    assert cut == (deliveries < len(run.delivered))
    assert sum(e.kind == "deliver" for e in kept) == min(deliveries, len(run.delivered))
    assert not judge(kept).violations
    assert not judge(kept).quarantine


@pytest.mark.parametrize("seed", range(60))
def test_the_verdict_is_that_of_the_definition(seed: int) -> None:
    events = random_trace(seed)
    good, _ = usable(events)
    names = sorted({e.process for e in events} | {d for e in events for d in e.destinations or ()})
    for label, rows in some(by_label(good).items()):
        judged = judge(rows)
        wanted = bool(judged.violations or judged.possible)  # the profile takes the rows it is given for complete
        found = profile(causal_order(rows), Roster(names))
        assert (found.verdict == "violated") == wanted, f"seed {seed}, label {label}: {found.reason}"


def test_files_whose_columns_have_other_names(tmp_path: Path) -> None:
    result = simulate(Scenario(protocol="ks", processes=4, messages=60, seed=7), trace=True)
    rows = [row_of(event) for event in result.events]
    ours, theirs = tmp_path / "ours.jsonl", tmp_path / "theirs.jsonl"
    names = {"process": "pid", "destinations": "to"}
    ours.write_text("".join(json.dumps(row) + "\n" for row in rows))
    theirs.write_text(
        "".join(json.dumps({names.get(name, name): value for name, value in row.items()}) + "\n" for row in rows)
    )
    assert cost(theirs, ["ks", "rst"], columns=names).json() == cost(ours, ["ks", "rst"]).json()
    with pytest.raises(MisuseError, match="columns= is for files and tables; events are in our words"):
        cost(result.events, ["ks"], columns=names)
