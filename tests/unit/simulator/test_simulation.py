"""The driver: determinism, the same workload for all, deferral, tokens, hops, crashes, deadlock."""

from __future__ import annotations

import pytest

from thence.core.model.events import Event
from thence.core.model.order import judge
from thence.lab.simulator import RunRecorder, Scenario, Simulation, explain, simulate


def sends(events: list[Event]) -> list[tuple[str, str | None, tuple[str, ...] | None, float | None]]:
    return [(e.process, e.message, e.destinations, e.time) for e in events if e.kind == "send"]


def receipts(events: list[Event]) -> list[tuple[str, str | None, float | None]]:
    return [(e.process, e.message, e.time) for e in events if e.kind == "receive"]


def test_the_same_workload_and_the_same_delays_meet_every_protocol() -> None:
    runs = {p: simulate(Scenario(protocol=p, messages=200), trace=True) for p in ("ks", "rst", "unordered", "fifo")}
    first = runs["ks"].events
    for name, run in runs.items():
        assert sends(run.events) == sends(first), name
        assert receipts(run.events) == receipts(first), name
    assert runs["ks"].outcome.holds == runs["rst"].outcome.holds > runs["fifo"].outcome.holds > 0


def test_seeds_differ_and_repeat() -> None:
    one, again, other = (simulate(Scenario(seed=s, messages=100), trace=True).events for s in (1, 1, 2))
    assert one == again
    assert one != other


def test_counts() -> None:
    result = simulate(Scenario(messages=300), trace=True)
    outcome, events = result.outcome, result.events
    kinds = [event.kind for event in events]
    assert outcome.asked == outcome.messages == kinds.count("send") == 300
    assert outcome.copies == outcome.deliveries == kinds.count("deliver") == kinds.count("receive")
    assert outcome.seconds == pytest.approx(max(e.time or 0.0 for e in events), abs=1e-6)
    assert (outcome.deferred, outcome.duplicates, outcome.lost, outcome.hops, outcome.stuck) == (0, 0, 0, {}, [])


def test_fifo_holds_nothing_on_a_fifo_network() -> None:
    assert simulate(Scenario(protocol="fifo", messages=300, fifo=True)).outcome.holds == 0
    assert simulate(Scenario(protocol="fifo", messages=300)).outcome.holds > 0


def test_a_deadlock_is_reported_by_name() -> None:
    outcome = simulate(Scenario(protocol="bounded", bound=1, processes=3, messages=60, fanout="unicast")).outcome
    assert outcome.deadlock
    assert outcome.deferred > 0
    assert outcome.messages < outcome.asked == 60
    process, pending = outcome.stuck[0]
    assert pending.what == "send"
    text = explain(process, pending)
    assert text.startswith(f"{process} holds a send, which waits for ")
    assert "epoch" in text
    assert outcome.row()["stuck"][0]["waits_for"]


def test_deferred_sends_leave_later_and_their_latency_counts_from_the_request() -> None:
    result = simulate(Scenario(protocol="synchronous", fanout="unicast", messages=400, rate=20.0), trace=True)
    outcome, measures = result.outcome, result.measures
    assert measures is not None
    assert outcome.deferred > 100
    assert not outcome.stuck
    assert outcome.messages == outcome.deliveries == 400
    deferred, latency = measures.mean("deferred"), measures.mean("latency_per_copy")
    assert deferred is not None
    assert latency is not None
    assert latency > deferred > 0.01
    assert outcome.hops == {"ack": 400}


@pytest.mark.parametrize("protocol", ["serial-broadcast", "serial-multicast"])
def test_the_token_serializes(protocol: str) -> None:
    fanout = "broadcast" if protocol == "serial-broadcast" else "uniform"
    result = simulate(Scenario(protocol=protocol, fanout=fanout, messages=200, labels=2), trace=True)
    assert not result.outcome.stuck
    for label in ("l1", "l2"):
        order = [e.message for e in result.events if e.kind == "send" and e.label == label]
        for process in result.scenario.roster:
            got = [e.message for e in result.events if e.kind == "deliver" and (e.process, e.label) == (process, label)]
            assert got == [message for message in order if message in got]


def test_relays_are_hops_of_their_own_run() -> None:
    result = simulate(Scenario(protocol="central", messages=100), trace=True)
    assert result.recorder is not None
    hops = result.recorder.hop_rows.events
    assert {e.run for e in hops} == {f"{result.scenario.name}/hops"}
    assert {e.kind for e in hops} == {"send", "receive"}
    assert sum(e.kind == "send" for e in hops) == sum(result.outcome.hops.values())
    assert set(result.outcome.hops) == {"request", "message"}
    assert judge(hops).verdict == "causal"
    assert judge(result.events).verdict == "causal"
    receives = [e for e in result.events if e.kind == "receive"]
    assert len(receives) == result.outcome.deliveries


def test_duplicates_are_put_aside() -> None:
    outcome = simulate(Scenario(duplicates=0.3, messages=300)).outcome
    assert outcome.duplicates > 100
    assert outcome.deliveries == outcome.copies


def test_loss_is_counted() -> None:
    outcome = simulate(Scenario(protocol="unordered", loss=0.25, messages=400)).outcome
    assert outcome.lost + outcome.deliveries == outcome.copies
    assert outcome.lost / outcome.copies == pytest.approx(0.25, abs=0.04)


def test_request_reply_answers_every_request() -> None:
    result = simulate(Scenario(workload="request-reply:2,0.01", messages=200), trace=True)
    asked = [e for e in result.events if e.kind == "send" and e.process not in "ab"]
    answered = [e for e in result.events if e.kind == "send" and e.process in "ab"]
    assert len(asked) == len(answered) == 100
    assert sorted(e.process for e in asked) == sorted((e.destinations or ())[0] for e in answered)


@pytest.mark.parametrize("messages", [0, 1, 2, 7])
def test_answers_are_among_the_messages(messages: int) -> None:
    outcome = simulate(Scenario(workload="request-reply", messages=messages)).outcome
    assert outcome.messages == messages


def test_a_crash_stops_a_process_and_is_recorded() -> None:
    result = simulate(Scenario(processes=5, messages=400, crashes=2, seed=3), trace=True)
    crashed = [e.process for e in result.events if e.kind == "crash"]
    assert sorted(crashed) == sorted(result.outcome.crashed)
    assert len(crashed) == 2
    for name in crashed:
        rows = [e for e in result.events if e.process == name]
        assert rows[-1].kind == "crash"
    assert not result.outcome.deadlock
    judgement = result.judge()
    assert not judgement.violations
    assert judgement.undelivered


def test_a_partition_that_heals_delays_and_loses_nothing() -> None:
    whole = simulate(Scenario(messages=300))
    parted = simulate(Scenario(messages=300, partitions=("1-3:abcd|efgh",)), trace=True)
    assert parted.outcome.deliveries == whole.outcome.deliveries
    assert parted.judge().verdict == "causal"
    assert parted.measures is not None
    assert whole.measures is not None
    late, soon = (m.mean("latency_per_copy") or 0.0 for m in (parted.measures, whole.measures))
    assert late > 2 * soon
    across = [e for e in parted.events if e.kind == "receive" and 1.5 < (e.time or 0) < 3.0]
    assert across
    assert all((e.process in "abcd") == ((e.message or "")[0] in "abcd") for e in across)


def test_no_messages_at_all() -> None:
    result = simulate(Scenario(messages=0), trace=True)
    assert result.events == []
    assert result.measures is not None
    assert result.measures["bytes_per_copy"] is None


def test_observers_may_leave_methods_out() -> None:
    simulation = Simulation(Scenario(messages=20), RunRecorder())
    assert simulation._on_sent
    assert not Simulation(Scenario(messages=20))._on_sent
