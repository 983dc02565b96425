"""What whole transactions cost above `order="commit"`: processor seconds of the same records, in turns.

    python benchmarks/deliver/whole.py [TRANSACTIONS]

Records of a PostgreSQL connector, 1 to 9 changes a transaction, four topics, shuffled over windows of 200 records, with
offsets. *Together*: `from_changes` and `Orderer.deliver`, without and with `whole=True`. *Alone*: `from_change` and
`Orderer.push` beside `WholeTransactions.push`, which also groups. Each in turn, nine rounds, each after a collection of
garbage, so that none pays for the objects of the one before; the best of each. Writes results/whole.json.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from thence import Orderer
from thence.sources import Record, WholeTransactions, from_change, from_changes

HERE = Path(__file__).parent
ROUNDS, WINDOW = 9, 200


def log(transactions: int) -> list[Record]:
    random, records, offsets = Random(1), [], {}
    lsn, before = 1000, None

    def add(topic: str, body: dict[str, Any], key: str | None = None) -> None:
        offsets[topic] = offsets.get(topic, -1) + 1
        records.append(Record(json.dumps(body), key, topic, 0, offsets[topic]))

    for number in range(transactions):
        count = random.randint(1, 9)
        add("shop.transaction", {"status": "BEGIN", "id": f"{number}:{lsn}", "event_count": None})
        for place in range(1, count + 1):
            lsn += 1
            table = random.choice(["customer", "orders", "line", "product"])
            source = {
                "name": "shop", "db": "d", "schema": "public", "table": table, "snapshot": "false", "lsn": lsn,
                "sequence": json.dumps([before and str(before), str(lsn)]), "ts_ms": 1700000000000 + lsn,
            }  # fmt: skip
            within = {"id": f"{number}:{lsn}", "total_order": place, "data_collection_order": 1}
            after = {"id": lsn, "name": f"name {lsn}", "amount": lsn % 97}
            body = {"op": "c", "before": None, "after": after, "source": source, "transaction": within}
            add(f"shop.public.{table}", body, json.dumps({"id": lsn}))
        lsn += 1
        before = lsn
        add("shop.transaction", {"status": "END", "id": f"{number}:{lsn}", "event_count": count})
    for start in range(0, len(records), WINDOW):
        window = records[start : start + WINDOW]
        random.shuffle(window)
        records[start : start + WINDOW] = window
    return records


def together(records: list[Record], whole: bool) -> int:
    rows = from_changes(records, whole=whole)
    out = Orderer("depends_on", key=["destination"]).deliver(rows)
    return sum(row["outcome"] == "delivered" for row in out)


def one_by_one(records: list[Record]) -> int:
    orderer, found = Orderer("depends_on", key=["destination"]), 0
    for record in records:
        found += len(orderer.push(from_change(record)))
    return found


def whole_one_by_one(records: list[Record]) -> int:
    transactions, found = WholeTransactions(), 0
    for record in records:
        for unit in transactions.push(record):
            found += len(unit) + 2  # with BEGIN and END
    return found


def seconds(work: Callable[[], int], wanted: int) -> float:
    gc.collect()
    start = time.process_time()
    assert work() == wanted
    return time.process_time() - start


def main(transactions: int = 8000) -> None:
    records = log(transactions)
    result: dict[str, Any] = {"records": len(records), "rounds": ROUNDS}
    for name, commit, whole in (
        ("together", lambda: together(records, False), lambda: together(records, True)),
        ("alone", lambda: one_by_one(records), lambda: whole_one_by_one(records)),
    ):
        pairs = [(seconds(commit, len(records)), seconds(whole, len(records))) for _ in range(ROUNDS)]
        commits, wholes = (min(each) for each in zip(*pairs, strict=True))
        result[name] = {
            "commit, CPU s": round(commits, 2),
            "whole, CPU s": round(wholes, 2),
            "ratio": round(wholes / commits, 3),
            "median of the ratios in turn": round(median(second / first for first, second in pairs), 3),
        }
        print(name, result[name])
    (HERE / "results" / "whole.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
