"""What is measured: the minimum is really compared, growth is really fitted, the worst case is one."""

from __future__ import annotations

import pytest

from thence.lab.papers.bounded import bits, printed
from thence.lab.papers.ci_dc_runs import grid, worst_case
from thence.lab.papers.claims import NoDataError
from thence.lab.papers.costs import TRAFFIC, is_settled, planned
from thence.lab.papers.estimates import growth, mean_of
from thence.lab.papers.genuine import steps
from thence.lab.papers.ks98_processing import processing
from thence.lab.papers.ks98_runs import compared
from thence.lab.papers.paper import Scale
from thence.lab.papers.variants import VARIANTS
from thence.lab.simulator import Scenario


def test_copies_and_logs_are_compared_with_the_minimum() -> None:
    scenario = Scenario("ks", 4, 40, delay="adversarial:0.1")
    ours = compared(scenario)
    assert ours["copies off"] == ours["logs off"] == 0
    assert ours["copies"] > 40
    assert ours["logs"] > 60


@pytest.mark.parametrize("name", ["ks-printed", "ci-dc-union"])
def test_a_form_that_keeps_too_much_is_found_out(name: str) -> None:
    kind = VARIANTS[name].protocol
    scenario = Scenario("ks", 4, 60, delay="adversarial:0.1")
    off = compared(scenario, [kind(scenario.roster, place) for place in range(4)])
    assert off["logs off"] > 0


def test_the_worst_case_is_of_the_order_of_the_square() -> None:
    assert [worst_case(n) for n in (4, 8, 16)] == [worst_case(n, "ks") for n in (4, 8, 16)]
    assert 15 * 14 <= worst_case(16) <= 16**2


def test_what_a_send_and_a_delivery_process_is_counted() -> None:
    """Every entry is looked at, at a send for each destination or once, at a delivery a few times; pairs are more."""
    few, many = processing(8), processing(16)
    for row in (few, many):
        n = row["processes"]
        assert row["log"] > n**2 / 2
        assert (n - 1) * row["log"] < row["snd"] < n**3
        assert row["log"] < row["hardware snd"] < n**2
        assert 2 * row["log"] < row["rcv"] < row["hardware rcv"] < 4 * n**2
    assert many["pairs"] > 6 * few["pairs"], "eight times as many where n doubles"
    assert many["rcv"] < 6 * few["rcv"], "four times as many"


def test_growth_is_an_exponent_with_an_interval_over_seeds() -> None:
    rows = [
        {"protocol": "x", "processes": n, "seed": seed, "y": (seed + 1) * n**1.5}
        for n in (5, 10, 20)
        for seed in (1, 2)
    ]
    fitted = growth(rows, "y", protocol="x")
    assert fitted.mean == pytest.approx(1.5)
    assert fitted.half == pytest.approx(0.0, abs=1e-9)
    with pytest.raises(NoDataError, match="three numbers"):
        growth(rows[:4], "y")


def test_one_seed_has_the_interval_of_its_batches() -> None:
    assert mean_of([{"y": 3.0, "y_ci95": 0.5}], "y").half == 0.5
    assert mean_of([{"y": 3.0, "y_ci95": 0.5}, {"y": 3.0, "y_ci95": 0.5}], "y").half == 0.0


def test_the_full_scale_takes_the_papers_own_counts() -> None:
    """Every process receives 60,000 messages in each of five runs, 10,000 of them to settle."""
    full = grid(Scale("full", (10,)))
    main = [each.scenario for each in full.scenarios if each.scenario.messages > 10_000]
    assert full.warmup == pytest.approx(1 / 6)
    assert {(s.fanout, s.messages) for s in main} == {("uniform", 120_000), ("unicast", 600_000)}
    assert sorted(s.seed for s in main if s.protocol == "prs" and s.fanout == "unicast") == [1, 2, 3, 4, 5]


def test_a_run_that_was_cut_is_marked() -> None:
    unicast = TRAFFIC[0]
    row = {"protocol": "prs", "processes": 100, "messages": planned(Scale(), 100, unicast, "prs")}
    assert not is_settled(row, unicast)
    assert is_settled(row | {"protocol": "ses", "entries_per_copy": 9900.0}, unicast)
    assert not is_settled(row | {"protocol": "ses", "entries_per_copy": 5000.0}, unicast)
    assert is_settled(row | {"messages": planned(Scale("full"), 100, unicast, "prs")}, unicast)


def test_two_steps_whoever_is_addressed() -> None:
    assert {steps(protocol, mask) for protocol in ("a-fifo", "a-causal") for mask in (3, 15, 60)} == {2}


def test_bounded_numbers() -> None:
    assert [bits(bound) for bound in (1, 4, 5, 100)] == [2, 4, 4, 9]
    row = printed("bounded-printed", Scenario("bounded", 3, 100, bound=1))
    assert row["largest"] > 3
