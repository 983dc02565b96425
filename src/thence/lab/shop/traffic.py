"""A day of the shop as a trace, and the arrivals of its ledger.

`web` takes orders and notifies `billing` and the `ledger`; `billing` takes the money and notifies the `depot` and the
ledger; the depot ships and notifies the ledger. Every program delivers on arrival, and the network delays each copy by
one second on average, so that a payment can reach the ledger before its order. One copy of an order to the ledger is
lost.

Invariant: the events of one customer are one causal order (`label`). Orders of one customer are further apart than any
delay that occurs, so that only what follows from one order can overtake.
"""

from __future__ import annotations

import heapq
from random import Random

import pyarrow as pa
import pyarrow.compute as pc

from thence.tables.contract.spark_to_arrow_types import arrow_schema

CUSTOMERS = 1000
PER_SECOND = 50
SHOP_SCHEMA = pa.schema(list(arrow_schema(nullable=True))[:9])
"""the columns of the trace table up to `time`"""
CAUSE = {"payment": "order", "shipment": "payment"}
"""kinds of messages, each caused by the one before, as the first word of a message's id"""
EventRow = tuple[str, str, int, str, str, list[str] | None, str, int, float]


def lost_order(orders: int) -> int:
    """Return the number of the order whose copy to the ledger is lost: the last one of its customer."""
    return orders - min(orders, CUSTOMERS) // 2


def shop_trace(orders: int, seed: int) -> pa.Table:
    """Return the events of a day with this many orders, in the columns of the trace table."""
    chance, rows, counted = Random(seed), list[EventRow](), dict[str, int]()
    lost = (f"order-{lost_order(orders)}", "ledger")
    under_way = [(number / PER_SECOND, f"order-{number}", "web", number) for number in range(1, orders + 1)]

    def record(time: float, process: str, kind: str, message: str, to: list[str] | None, number: int) -> None:
        counted[process] = counted.get(process, 0) + 1
        label = f"customer-{number % CUSTOMERS}"
        rows.append(("monday", process, counted[process], kind, message, to, label, len(rows), round(time, 3)))

    def send(time: float, process: str, message: str, to: list[str], number: int) -> None:
        record(time, process, "send", message, to, number)
        for each in to:
            arrival = time + chance.expovariate(1.0)
            if (message, each) != lost:
                heapq.heappush(under_way, (arrival, message, each, number))

    while under_way:
        time, message, process, number = heapq.heappop(under_way)
        if process == "web":
            send(time, process, message, ["billing", "ledger"], number)
            continue
        record(time, process, "deliver", message, None, number)
        if process == "billing":
            send(time, process, f"payment-{number}", ["depot", "ledger"], number)
        elif process == "depot":
            send(time, process, f"shipment-{number}", ["ledger"], number)
    columns = zip(*rows, strict=True)
    return pa.table(
        [pa.array(column, kind) for column, kind in zip(columns, SHOP_SCHEMA.types, strict=True)], schema=SHOP_SCHEMA
    )


def ledger_arrivals(trace: pa.Table) -> pa.Table:
    """Return what the ledger received: `event_id`, `parent_id`, `customer`, `time`, in the order of arrival."""
    got = trace.filter((pc.field("process") == "ledger") & (pc.field("kind") == "deliver"))
    ids = got["message"].to_pylist()
    words = [each.split("-", 1) for each in ids]
    parents = [f"{CAUSE[what]}-{number}" if what in CAUSE else None for what, number in words]
    columns = {"event_id": ids, "parent_id": pa.array(parents, pa.string()), "customer": got["label"]}
    return pa.table({**columns, "time": got["time"], "arrival": pa.array(range(len(ids)), pa.int64())})


def repaired_trace(trace: pa.Table, ordered: pa.Table) -> pa.Table:
    """Return the trace as if the ledger had delivered its messages as `ordered` says, after everything else."""
    others = trace.filter((pc.field("process") != "ledger") | (pc.field("kind") != "deliver"))
    placed = ordered.filter(pc.is_valid(pc.field("position"))).sort_by([("position", "ascending")])
    count = len(placed)
    last = pc.max(others["order"]).as_py() or 0
    return pa.concat_tables(
        [
            others,
            pa.table(
                {
                    "run": ["monday"] * count, "process": ["ledger"] * count, "index": range(1, count + 1),
                    "kind": ["deliver"] * count, "message": placed["event_id"], "destinations": [None] * count,
                    "label": placed["customer"], "order": range(last + 1, last + 1 + count), "time": placed["time"],
                },
                schema=SHOP_SCHEMA,
            ),
        ]
    )  # fmt: skip
