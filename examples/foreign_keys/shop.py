"""A shop with four tables: Debezium's records, out of order, into a database whose foreign keys stay switched on.

    python examples/foreign_keys/shop.py [changes.jsonl]

The records are scripted in the form that Debezium's PostgreSQL connector writes (with a file: its lines,
{"topic", "partition", "offset", "key", "value"}). They come to two SQLite databases with the same constraints: row by
row as they arrive, and by whole transactions. Needs pip install 'thence[sql]'.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from thence.sinks import sql
from thence.sources import Record, WholeTransactions

TABLES = """
create table customer(id integer primary key, email text not null unique);
create table product(id integer primary key, part_of integer references product);
create table orders(id integer primary key, customer integer not null references customer on update cascade);
create table line(id integer primary key, orders integer not null references orders,
                  product integer not null references product)
"""
NAMES = ["customer", "product", "orders", "line"]
TRANSACTIONS: list[list[tuple[str, str, dict[str, Any] | None, dict[str, Any] | None]]] = [
    [("c", "product", None, {"id": 2, "part_of": 1}), ("c", "product", None, {"id": 1, "part_of": None})],  # deferred
    [("c", "customer", None, {"id": 7, "email": "ann@example.com"}), ("c", "orders", None, {"id": 70, "customer": 7})],
    [("c", "line", None, {"id": 700, "orders": 70, "product": 2}),
     ("c", "line", None, {"id": 701, "orders": 70, "product": 1})],
    # customer 7 becomes 8: a delete and a create, then the rows that follow by ON UPDATE CASCADE
    [("d", "customer", {"id": 7}, None), ("c", "customer", None, {"id": 8, "email": "ann@example.com"}),
     ("u", "orders", None, {"id": 70, "customer": 8})],
    [("d", "line", {"id": 701}, None), ("c", "orders", None, {"id": 71, "customer": 8})],
]  # fmt: skip


def scripted() -> Iterator[Record]:
    """Yield the records of the transactions, each in its topic."""
    offsets: dict[str, int] = {}

    def record(topic: str, value: dict[str, Any]) -> Record:
        offsets[topic] = offsets.get(topic, -1) + 1
        return Record(json.dumps(value), None, topic, 0, offsets[topic])

    for number, changes in enumerate(TRANSACTIONS, 570):
        yield record("shop.transaction", {"status": "BEGIN", "id": f"{number}:{number}00", "event_count": None})
        for place, (op, table, before, after) in enumerate(changes, 1):
            lsn = 100 * number + place
            source = {"name": "shop", "schema": "public", "table": table, "snapshot": "false", "lsn": lsn}
            within = {"id": f"{number}:{lsn}", "total_order": place, "data_collection_order": 1}
            change = {"op": op, "before": before, "after": after, "source": source, "transaction": within}
            yield record(f"shop.public.{table}", change)
        end = {"status": "END", "id": f"{number}:{number}99", "event_count": len(changes)}
        yield record("shop.transaction", end)


def recorded(path: str) -> Iterator[Record]:
    for line in Path(path).read_text().splitlines():
        fields = json.loads(line)
        yield Record(*(fields.get(name) for name in ("value", "key", "topic", "partition", "offset")))


def target(file: Path) -> sa.Engine:
    engine = sa.create_engine(f"sqlite:///{file}")
    with engine.begin() as connection:
        for statement in TABLES.split(";"):
            connection.exec_driver_sql(statement)
    return engine


def row_by_row(engine: sa.Engine, records: list[Record]) -> int:
    """Insert what arrives, as a sink does that knows one topic at a time; return how many rows are refused."""
    refused = 0
    with engine.connect() as connection:
        connection.exec_driver_sql("pragma foreign_keys = on")
        for record in records:
            change = json.loads(record.value or "{}")
            if change.get("op") == "c":
                columns, values = ", ".join(change["after"]), tuple(change["after"].values())
                marks = ", ".join("?" * len(values))
                try:
                    connection.exec_driver_sql(
                        f"insert into {change['source']['table']} ({columns}) values ({marks})", values
                    )
                except sa.exc.IntegrityError:
                    refused += 1
            connection.commit()
    return refused


def main(path: str | None = None) -> dict[str, list[tuple[Any, ...]]]:
    records = list(scripted() if path is None else recorded(path))
    random.Random(3).shuffle(records)  # as if from topics that lag behind each other
    with tempfile.TemporaryDirectory() as folder:
        refused = row_by_row(target(Path(folder) / "rows.db"), records)
        print(f"row by row: the target refuses {refused} rows")
        engine = target(Path(folder) / "whole.db")
        transactions = WholeTransactions()
        with sql(engine, NAMES) as sink:
            for record in records:
                for transaction in transactions.push(record):
                    sink.apply(transaction)
                    print(f"{transaction.name}: {len(transaction)} changes, written with its position")
            counts = f"{sink.applied} written, {sink.refused} refused"
            print(f"whole transactions: {counts}; the target is at {sink.since('shop')}")
        with engine.connect() as connection:
            found = {name: [*map(tuple, connection.exec_driver_sql(f"select * from {name}"))] for name in NAMES}
    for name, rows in found.items():
        print(name, rows)
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
