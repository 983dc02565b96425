"""A sink in a process of its own, which a test kills: Debezium's records from a file into a target.

python shop_sink_job.py FILE URL ORDER SEED PAUSE     ends when everything was applied
                                                      PAUSE: seconds before each statement

Topics are read at different speeds, each in its own order, from their beginning. In the order of commits half of the
runs begin at `since`. By keys the records are looked at several times, more of them each time.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import sqlalchemy as sa

from thence import Orderer
from thence.sinks import SqlSink, sql
from thence.sources import Record, WholeTransaction, WholeTransactions, from_changes, whole_transactions
from thence.tables.sources.debezium import ChangeOrder

TABLES = ["customer", "category", "orders", "line"]
KEYS = {
    "customer.favourite": "orders.id", "category.parent": "category.id", "orders.customer": "customer.id",
    "line.orders": "orders.id", "line.category": "category.id",
}  # fmt: skip


def delayed(records: list[Record], random: Random) -> list[Record]:
    """Interleave the topics at random speeds."""
    topics: dict[str, list[Record]] = {}
    for each in records:
        topics.setdefault(str(each.topic), []).append(each)
    speed = {topic: random.random() ** 3 + 0.01 for topic in topics}
    out = []
    while topics:
        topic = random.choices(list(topics), [speed[each] for each in topics])[0]
        out.append(topics[topic].pop(0))
        if not topics[topic]:
            del topics[topic]
    return out


def one_by_one(records: list[Record], order: ChangeOrder, sink: SqlSink, random: Random) -> Iterator[WholeTransaction]:
    """Yield transactions as their records come."""
    snapshot = sum(map(_snapshot, records))
    since = sink.since("shop") if order == "commit" and random.random() < 0.5 else None
    transactions = WholeTransactions(order=order, snapshot=True, since=since)
    for record in delayed(records, random):
        yield from transactions.push(record)
        snapshot -= _snapshot(record)
        if snapshot == 0:
            snapshot = -1
            yield from transactions.end_snapshot()
    assert transactions.waiting() == [], transactions.waiting()


def together(records: list[Record], random: Random) -> Iterator[WholeTransaction]:
    """Yield, four times, the transactions of what has come so far: the snapshot, and some of each topic."""
    snapshot = [record for record in records if _snapshot(record)]
    others = delayed([record for record in records if not _snapshot(record)], random)
    for count in [*sorted(random.sample(range(len(others)), 3)), len(others)]:
        there = snapshot + others[:count]
        rows = from_changes(there, order="keys", foreign_keys=KEYS, whole=True)
        arrivals = [{**row, **record._asdict()} for row, record in zip(rows, there, strict=True)]
        random.shuffle(arrivals)
        yield from whole_transactions(Orderer("depends_on", key=["destination"]).deliver(arrivals), order="keys")


def _snapshot(record: Record) -> bool:
    return '"op": "r"' in str(record.value)


def main(file: str, url: str, order: ChangeOrder, seed: int, pause: float) -> None:
    lines = [json.loads(line) for line in Path(file).read_text().splitlines()]
    records = [Record(*(line[name] for name in ("value", "key", "topic", "partition", "offset"))) for line in lines]
    random, engine = Random(seed), sa.create_engine(url)
    with sql(engine, TABLES) as sink:
        sa.event.listen(engine, "before_cursor_execute", lambda *_: time.sleep(pause))
        for unit in together(records, random) if order == "keys" else one_by_one(records, order, sink, random):
            if sink.apply(unit):
                print(unit.name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))  # type: ignore[arg-type]
