"""The parts of `thence demo` that need no Spark: the shop, the bars, the live trio, the cost, the page."""

from __future__ import annotations

from pathlib import Path

import pytest

import thence
from thence.cli import main
from thence.cli._common import console
from thence.cli.demo import STEPS, Demo, what_it_cost, write_page
from thence.cli.demo_live import trio
from thence.cli.demo_shop import BINS, KEY, bars, bars_picture, record


def test_the_shop_is_violated_and_delivery_repairs_it(tmp_path: Path) -> None:
    events, rows = record(tmp_path, orders=300, seed=1)
    assert (events, rows) == (8 * 300 - 1, 3 * 300 - 1)
    with thence.audit(str(tmp_path / "shop.parquet")) as found:
        assert found.verdict == "violated"
        assert {row["destination"] for row in found.violations} == {"ledger"}
    ordered = thence.deliver(tmp_path / "arrivals.parquet", id="event", causes="parent", key=KEY).to_pylist()
    assert {row["event"] for row in ordered if row["outcome"] == "blocked"} == {"payment-150", "shipment-150"}
    place = {row["event"]: row["position"] for row in ordered if row["outcome"] == "delivered"}
    assert all(place[row["parent"]] < row["position"] for row in ordered if row["parent"] and row["event"] in place)
    assert sum(row["held_for"] > 0 for row in ordered) > 100


def test_bars_count_every_wait_once() -> None:
    counts = bars([0.0, 0.05, 0.1, 0.7, 1.9, 2.0, 50.0])
    assert list(counts.values()) == [2, 1, 1, 1, 2]
    drawn = bars_picture(counts).decode()
    assert all(name in drawn for _, name in BINS)
    assert bars_picture(bars([]))


def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    found = trio(tmp_path / "live", orders=24)
    assert (found["received"], found["twice"], found["early"], found["verdict"]) == (48, 0, 0, "causal")


def test_cost_and_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Demo(tmp_path, console(), seed=1)
    made.result["batch"] = {"seconds": 3.0, "sorted by arrival": 2.0}
    for step in (what_it_cost, write_page):
        assert step in dict(STEPS).values()
        step(made)
    assert made.failures == []
    shown = capsys.readouterr().out
    assert "1.5 times" in shown
    assert f"any others: {made.result['cost']['recommended']['protocol']}" in shown
    page = (tmp_path / "index.html").read_text()
    assert "<h2>What it cost</h2>" in page


def test_every_protocol_is_measured_in_the_laboratory(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["protocols", "--measure"]) == 0
    lines = {words[0]: words for line in capsys.readouterr().out.splitlines() if (words := line.split())}
    assert lines["ks"][-1] == "causal"
    assert lines["unordered"][-1] == "violated"
