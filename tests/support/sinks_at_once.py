"""Several sinks that apply the same transactions to one target at once, for every database that a test has."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import sqlalchemy as sa

from thence.sinks import sql
from thence.sources import Record, WholeTransaction, WholeTransactions

COUNT, SINKS = 60, 3


def transactions(order: Any) -> list[WholeTransaction]:
    """Return transactions that each add a row, and in the order of commits also add one to a counter."""
    reader, found = WholeTransactions(order=order), list[WholeTransaction]()
    for number in range(1, COUNT + 1):
        within = {"id": f"{number}:{10 * number}"}
        source = {"name": "s", "schema": "public", "snapshot": "false", "table": "t"}
        changes = [{"op": "c", "after": {"id": number, "n": 0}}]
        if order == "commit" and number > 1:
            changes.append({"op": "u", "before": {"id": 1, "n": number - 2}, "after": {"id": 1, "n": number - 1}})
        values: list[dict[str, Any]] = [{"status": "BEGIN", **within}]
        values += [
            {**change, "source": source, "transaction": {**within, "total_order": place}}
            for place, change in enumerate(changes, 1)
        ]
        values.append({"status": "END", "id": f"{number}:{10 * number + 5}", "event_count": len(changes)})
        for place, value in enumerate(values):
            boundary = "status" in value
            offset = 2 * number - 2 + (place > 0) if boundary else 10 * number + place
            topic = "s.transaction" if boundary else "s.public.t"
            found += reader.push(Record(json.dumps(value), None, topic, 0, offset))
    assert len(found) == COUNT
    return found


def check_sinks_at_once(engine: sa.Engine, order: Any) -> None:
    """Let sinks apply everything side by side; each transaction is written once, and each sink comes to its end."""
    with engine.begin() as connection:
        connection.exec_driver_sql("create table t(id int primary key, n int)")
    units = transactions(order)
    with sql(engine, {"t": "t"}) as first:
        assert first.since("s") is None
    together = threading.Barrier(SINKS)

    def work(_: int) -> int:
        written = 0
        with sql(engine, {"t": "t"}) as sink:
            for unit in units:
                together.wait(60)
                written += sink.apply(unit)
        return written

    with ThreadPoolExecutor(SINKS) as pool:
        assert sum(pool.map(work, range(SINKS))) == COUNT
    with engine.connect() as connection:
        rows = connection.exec_driver_sql("select id, n from t order by id").all()
    counted = COUNT - 1 if order == "commit" else 0
    assert [tuple(row) for row in rows] == [(1, counted), *((number, 0) for number in range(2, COUNT + 1))]
