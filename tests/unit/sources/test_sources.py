"""Adapters: what they make of foreign records, and that delivery then keeps effects behind causes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from thence import Orderer
from thence.sources import from_change, from_changes, from_event, from_spans, skews

EXAMPLES = Path(__file__).parents[3] / "examples" / "sources"


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def change(table: str, tx: int, order: int, lsn: int, previous: int | None, **more: Any) -> dict[str, Any]:
    sequence = json.dumps([None if previous is None else str(previous), str(lsn)])
    source = {"name": "shop", "schema": "public", "table": table, "snapshot": "false", "lsn": lsn, "sequence": sequence}
    told = {"id": f"{tx}:{lsn}", "total_order": order, "data_collection_order": 1}
    return {"op": "c", "source": source, "transaction": told, "after": {"id": order}} | more


def transaction(tx: int, commit: int, previous: int | None, tables: list[str]) -> list[dict[str, Any]]:
    rows = [{"status": "BEGIN", "id": f"{tx}:{commit - 50}", "event_count": None}]
    rows += [change(table, tx, k, commit - 50 + k, previous) for k, table in enumerate(tables, 1)]
    return [*rows, {"status": "END", "id": f"{tx}:{commit}", "event_count": len(tables)}]


@pytest.mark.parametrize("seed", range(20))
def test_transactions_come_whole_and_in_order_of_commit(seed: int) -> None:
    commits = [(30, 100), (12, 200), (31, 300)]
    records: list[dict[str, Any]] = []
    previous = None
    for tx, commit in commits:
        records += transaction(tx, commit, previous, ["customer", "orders", "line"])
        previous = commit
    taken = {"name": "shop", "schema": "public", "table": "customer", "sequence": '[null,"9"]', "lsn": 9}
    records += [
        {"op": "r", "source": taken | {"snapshot": "true"}, "transaction": None, "after": {"id": i}} for i in (1, 2)
    ]
    records += [{"op": "r", "source": taken | {"snapshot": "last"}, "transaction": None, "after": {"id": 3}}]
    rows = from_changes(records)
    Random(seed).shuffle(rows)
    out = [r for r in Orderer("depends_on", key=["destination"]).deliver(rows) if not r["message"].endswith("begin")]
    assert {r["outcome"] for r in out} == {"delivered"}
    names = [r["message"] for r in out]
    assert names[2] == "snapshot/last"
    wanted = [n for tx, commit in commits for n in (f"tx{tx}/1", f"tx{tx}/2", f"tx{tx}/3", f"commit/{commit}")]
    assert names[3:] == wanted


def test_one_change_at_a_time_and_transactions_apart() -> None:
    row = from_change(json.dumps({"payload": change("line", 7, 2, 55, 40)}))
    assert (row["destination"], row["message"], row["depends_on"], row["sender"]) == (
        "shop",
        "tx7/2",
        ["tx7/1"],
        "line",
    )
    assert from_change(change("line", 7, 1, 55, 40))["depends_on"] == ["tx7/begin", "commit/40"]
    assert from_change(change("line", 7, 1, 55, 40), order="transaction")["depends_on"] == ["tx7/begin"]
    assert from_change({"op": "c", "source": {"name": "shop"}})["message"] is None


def span(service: str, name: str, parent: str | None, start: float, links: list[str] | None = None) -> dict[str, Any]:
    told = {"traceId": "t", "spanId": name, "name": name, "startTimeUnixNano": str(int(start * 1e9))}
    told |= {"parentSpanId": parent} if parent else {}
    told |= {"links": [{"traceId": "t", "spanId": each} for each in links]} if links else {}
    service_name = [{"key": "service.name", "value": {"stringValue": service}}]
    return {"resourceSpans": [{"resource": {"attributes": service_name}, "scopeSpans": [{"spans": [told]}]}]}


def test_spans_wait_for_parents_and_links_and_clocks_are_told_apart(tmp_path: Path) -> None:
    exports = [
        span("db", "query", "call", 9.0),
        span("web", "page", None, 10.0),
        span("api", "call", "page", 10.5),
        span("api", "join", "page", 11.0, ["query"]),
    ]
    rows = [row for export in exports for row in from_spans(export)]
    out = [r["name"] for r in Orderer("depends_on").deliver(rows)]
    assert out == ["page", "call", "query", "join"]
    (found,) = skews(rows)
    assert (found.parent, found.child, found.offset, found.violation) == ("api", "db", 1.5, False)
    exports += [span("db", "first", "page", 9.2), span("web", "after", "query", 9.5)]
    rows = [row for export in exports for row in from_spans(export)]
    told = {(s.parent, s.child): s.violation for s in skews([*rows, *from_spans(span("web", "late", "first", 9.3))])}
    assert told[("web", "db")] is True
    assert told[("api", "db")] is False
    file = tmp_path / "spans.jsonl"
    file.write_text("\n".join(map(json.dumps, exports)) + "\n")
    assert load("otel").main(str(file))[0] == "page delivered"


def test_causation() -> None:
    row = from_event({"id": 2, "causation_id": [1, 2], "correlation_id": "c"})
    assert (row["message"], row["depends_on"], row["destination"]) == ("2", ["1"], "c")
    assert load("causation").main() == [
        "order-1 OrderPlaced delivered",
        "order-1 ItemsReserved delivered",
        "order-1 PaymentTaken delivered",
        "order-2 PaymentTaken blocked: waits for 8; 8 has not arrived",
    ]
