"""The parts of `thence demo` that need no Spark: the shop, the live processes, six protocols, and the page."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import thence
from thence.cli import demo
from thence.cli._common import console
from thence.lab.shop.live import LiveShop
from thence.lab.shop.traffic import ledger_arrivals, lost_order, repaired_trace, shop_trace


def test_payments_overtake_and_delivery_by_parent_id_repairs_the_trace() -> None:
    trace = shop_trace(400, seed=1)
    arrivals = ledger_arrivals(trace)
    with thence.audit(trace) as before:
        (run,) = before.run_rows
        assert (before.verdict, run["undelivered"], run["events"]) == ("violated", 1, 8 * 400 - 1)
        assert run["violations"] > 40
        assert {row["destination"] for row in before.rows("violations")} == {"ledger"}
    ordered = thence.deliver(arrivals, id="event_id", causes="parent_id", key="customer")
    held = ordered.filter(pc.field("outcome") == "blocked")["blocker"].to_pylist()
    assert held == [f"order-{lost_order(400)}"] * 2
    with thence.audit(repaired_trace(trace, ordered)) as after:
        assert after.verdict == "causal"
    unchanged = arrivals.append_column("position", pa.array(range(1, len(arrivals) + 1), pa.int64()))
    with thence.audit(repaired_trace(trace, unchanged)) as same:
        assert same.verdict == "violated"


def test_held_seconds_are_counted_once() -> None:
    counts = demo._binned([0.0, 0.2, 0.5, 0.6, 1.0, 3.0, 100.0])
    assert counts == [("up to 0.5 s", 3), ("0.5 to 1 s", 2), ("1 to 2 s", 0), ("2 to 4 s", 1), ("above 4 s", 1)]


def test_a_payment_before_its_order_is_noticed() -> None:
    assert LiveShop(["order-1", "payment-1", "payment-2", "order-2", "payment-3"]).early() == ["payment-2", "payment-3"]


def test_live_costs_and_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "LIVE_ORDERS", 40)
    made = demo.Demo(tmp_path, console(), orders=200)
    made.result["deliver"] = {"rows": 600, "median_seconds": 0.7}
    made.seconds |= {"audit": 1.0, "deliver": 1.0, "stream": 1.0}
    for step in (demo.open_the_shop, demo.run_it_live, demo.what_it_costs, demo.write_page):
        assert step in demo.DEMO_STEPS
        step(made)
    assert made.failures == []
    live = made.result["live"]
    assert (live["messages"], live["verdict"], live["early"], live["lost"]) == (80, "causal", 0, 0)
    assert 26 < live["killed_after"] < 80
    found = {row["protocol"]: row for row in made.result["protocols"]}
    assert list(found) == list(demo.COMPARED)
    assert {name for name, row in found.items() if row["violations"]} == {"unordered", "fifo"}
    assert found["ks"]["bytes"] < min(found["rst"]["bytes"], found["ses"]["bytes"])
    assert "killed with SIGKILL" in capsys.readouterr().out
    page = (tmp_path / "index.html").read_text()
    assert [f"<h2>{section.title}</h2>" in page for section in made.sections] == [True] * 3
    assert page.count("data:image/svg+xml") == 1
    assert pq.read_metadata(tmp_path / "monday.parquet").num_rows == 1599
