"""Measures against runs small enough to compute by hand, and against the judge."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.definition import needless

from thence.core.model.order import judge
from thence.lab.simulator import (
    Measures,
    Meter,
    Observer,
    RunRecorder,
    Scenario,
    Simulation,
    over_seeds,
    replicate,
    simulate,
)
from thence.lab.simulator.confidence import Estimate, batch_means, estimate, student
from thence.lab.simulator.workload import Request


def scripted(scenario: Scenario, requests: list[Request], *observers: Observer) -> Simulation:
    def through(drawn: Iterator[Request]) -> Iterator[Request]:
        return iter(requests)

    simulation = Simulation(scenario, *observers, through=through)
    simulation.run()
    return simulation


def triangle(protocol: str, **more: object) -> Measures:
    """a sends to c (10 s under way), then to b (1 s), then b to c (1 s): b1 arrives at c at 4, a1 at 10."""
    scenario = Scenario(protocol=protocol, processes=3, messages=3, delay="constant:1;a>c=constant:10", **more)  # type: ignore[arg-type]
    meter = Meter(warmup=0.0, batches=1)
    scripted(scenario, [Request(0.0, 0, 0b100), Request(1.0, 0, 0b010), Request(3.0, 1, 0b100)], meter)
    return meter.measures()


def mean(measures: Measures, name: str) -> float:
    found = measures.mean(name)
    assert found is not None
    return found


def test_triangle_by_hand() -> None:
    ks = triangle("ks")
    # a1 carries nothing; a2 carries a1{c}; b1 carries a1{c} and a2{}.
    assert mean(ks, "entries_per_copy") == pytest.approx(3 / 3)
    assert mean(ks, "facts_per_copy") == pytest.approx(2 / 3)
    assert mean(ks, "paper_bytes_per_copy") == pytest.approx((6 * 3 + 2 * 2) / 3)
    assert mean(ks, "paper_bytes_per_message") == pytest.approx(22 / 3)
    assert mean(ks, "copies_per_message") == 1.0
    # b1 is held from 4 to 10; a2 takes 1, a1 takes 10, b1 is delivered 7 s after the request.
    assert mean(ks, "held_per_copy") == pytest.approx(1 / 3)
    assert mean(ks, "hold_per_copy") == pytest.approx(6 / 3)
    assert mean(ks, "latency_per_copy") == pytest.approx((10 + 1 + 7) / 3)
    assert mean(ks, "needless_per_copy") == 0.0
    assert ks.early == 0
    # logs after the sends: a {a1}, a {a1, a2}, b {a2, b1}
    assert mean(ks, "log_size") == pytest.approx((1 + 2 + 2) / 3)
    assert ks.log_size_max == 2
    assert ks.held_at_once == pytest.approx(6 / 3)  # six seconds of one copy, over the three seconds of sends


def test_triangle_unordered_is_early() -> None:
    liar = triangle("unordered")
    assert liar.early == 1
    assert mean(liar, "hold_per_copy") == 0.0
    assert mean(liar, "latency_per_copy") == pytest.approx(12 / 3)
    assert liar["facts_per_copy"] is None


def test_needless_waiting_by_hand() -> None:
    """Two concurrent broadcasts under one token: b1 waits for a1 though nothing caused it."""
    scenario = Scenario(
        protocol="serial-broadcast",
        processes=3,
        messages=2,
        fanout="broadcast",
        delay="constant:1;a>c=constant:10",
    )
    meter = Meter(warmup=0.0, batches=1)
    scripted(scenario, [Request(0.0, 0, 0b110), Request(0.5, 1, 0b101)], meter)
    measures = meter.measures()
    # b1 arrives at c at 1.5 and is delivered at 10, at a at 1.5 at once.
    assert mean(measures, "hold_per_copy") == pytest.approx(8.5 / 4)
    assert mean(measures, "needless_per_copy") == pytest.approx(8.5 / 4)


@pytest.mark.parametrize("protocol", ["ks", "unordered", "fifo", "serial-multicast", "central", "two-hop"])
@pytest.mark.parametrize("labels", [0, 2])
def test_early_and_needless_agree_with_the_judge(protocol: str, labels: int) -> None:
    scenario = Scenario(protocol=protocol, processes=5, messages=120, delay="adversarial", labels=labels, to_self=True)
    result = simulate(scenario, trace=True, warmup=0.0)
    assert result.measures is not None
    judged = judge(result.events)
    assert (result.measures.early > 0) == (judged.verdict == "violated")
    waits = needless(result.events)
    assert (mean(result.measures, "needless_per_copy") > 1e-9) == bool(waits)


def test_the_past_is_forgotten_without_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Scenario(protocol="serial-multicast", processes=5, messages=600)
    whole = simulate(scenario).measures
    monkeypatch.setattr("thence.lab.simulator.causes.SHIFT", 16)
    assert simulate(scenario).measures == whole
    assert simulate(Scenario(protocol="unordered", messages=600)).measures is not None


def test_warmup_and_batches() -> None:
    meter = Meter(warmup=0.25, batches=10)
    Simulation(Scenario(messages=400), meter).run()
    measures = meter.measures()
    assert measures.messages == 300
    found = measures["bytes_per_copy"]
    assert found is not None
    assert found.values == 10
    assert found.half is not None
    assert 0 < found.half < found.mean


def test_measures_agree_with_the_trace() -> None:
    recorder, meter = RunRecorder(), Meter(warmup=0.0)
    Simulation(Scenario(protocol="prs", messages=200), recorder, meter).run()
    measures, rows = meter.measures(), [e for e in recorder.rows if e.kind == "deliver"]
    for name in ("entries", "facts", "bytes"):
        assert mean(measures, f"{name}_per_copy") == pytest.approx(sum(getattr(e, name) for e in rows) / len(rows))
        assert mean(measures, f"{name}_per_message") == pytest.approx(sum(getattr(e, name) for e in rows) / 200)
    assert measures.copies == len(rows)


def test_rst_carries_its_matrix() -> None:
    measures = simulate(Scenario(protocol="rst", processes=7, messages=200)).measures
    assert measures is not None
    assert measures["entries_per_copy"] == Estimate(49.0, 0.0, 20)


def test_processor_time_is_a_table_of_its_own() -> None:
    result = simulate(Scenario(messages=50), cpu=True)
    assert result.cpu is not None
    assert [(row["operation"], row["calls"]) for row in result.cpu] == [
        ("send", 50),
        ("receive", result.outcome.copies),
    ]
    assert all(row["mean_us"] > 0 for row in result.cpu)
    assert simulate(Scenario(messages=50)).outcome == result.outcome
    assert "cpu" not in simulate(Scenario(messages=50)).row()


def test_students_t() -> None:
    assert student(1) == pytest.approx(12.706, abs=1e-3)
    assert student(30) == pytest.approx(2.042, abs=1e-3)
    assert student(60) == pytest.approx(2.0003, abs=1e-3)
    assert student(1000) == pytest.approx(1.9623, abs=1e-3)


def test_estimates_by_hand() -> None:
    found = estimate([1.0, 2.0, 3.0])
    assert found is not None
    assert found.mean == 2.0
    assert found.half == pytest.approx(4.3027 / 3**0.5)
    assert estimate([5.0]) == Estimate(5.0, None, 1)
    assert estimate([]) is None
    weighted = batch_means([2.0, 12.0, 0.0], [2, 4, 0])
    assert weighted is not None
    assert weighted.mean == pytest.approx(14 / 6)
    assert weighted.values == 2
    assert batch_means([0.0], [0]) is None


def test_intervals_over_seeds_cover_the_mean_they_should() -> None:
    """Of 40 intervals from 5 seeds each, about 95 % hold the mean of all; well below 80 % would be a mistake."""
    scenario = Scenario(protocol="unordered", processes=4, messages=60, fanout="unicast")
    runs = [simulate(scenario.with_(seed=seed)).measures for seed in range(200)]
    measured = [run for run in runs if run is not None]
    truth = 0.05  # exponential delay, never held
    hits = 0
    for start in range(0, 200, 5):
        found = over_seeds(measured[start : start + 5])["latency_per_copy"]
        assert found is not None
        assert found.half is not None
        hits += abs(found.mean - truth) <= found.half
    assert hits >= 32
    joined = replicate(scenario, [3, 4, 5])
    assert joined.messages == 3 * 48
    assert joined["latency_per_copy"] == over_seeds(measured[3:6])["latency_per_copy"]
