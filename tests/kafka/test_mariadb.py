"""End to end: a real MariaDB, Debezium's connector for it in the real engine, concurrent transactions, shuffled."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

from kafka.mariadb_server import MariaDB, mariadb

from thence import Orderer
from thence.sources import Record, from_changes

JOB = Path(__file__).with_name("mariadb_job.py")
TABLES = """
create database shop; use shop;
create table customer(id int primary key, name varchar(20));
create table orders(id int primary key, customer int, foreign key (customer) references customer(id));
create table line(id int primary key, orders int, foreign key (orders) references orders(id));
insert into customer values (1, 'before'), (2, 'the'), (3, 'snapshot');
"""
WRITERS = 5
KEYS = {"orders.customer": "customer.id", "line.orders": "orders.id"}


def write(server: MariaDB, n: int) -> None:
    server.sql(
        f"use shop; begin; insert into customer values ({n}, 'c'); insert into orders values ({n}, {n}); "
        f"do sleep(0.1); insert into line values ({n}0, {n}), ({n}1, {n}); commit; "
        f"begin; insert into orders values ({n}00, {1 + n % 3}); commit; "
        f"begin; insert into line values ({n}000, {n}00); update customer set name = 'x' where id = {n}; commit;"
    )


def recorded(folder: Path) -> list[dict[str, Any]]:
    target = folder / "changes.jsonl"
    with mariadb() as server, (folder / "log").open("wb") as log:
        server.sql(TABLES)
        command = [sys.executable, str(JOB), str(server.port), str(target), str(3 * WRITERS)]
        job = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        try:
            while job.poll() is None and "Binlog Dump" not in server.sql("show processlist"):
                time.sleep(0.2)
            writers = [threading.Thread(target=write, args=(server, 10 + n)) for n in range(WRITERS)]
            for each in writers:
                each.start()
            for each in writers:
                each.join()
            assert job.wait() == 0, (folder / "log").read_text()[-3000:]
        finally:
            job.kill()
            job.wait()
    return [json.loads(line) for line in target.read_text().splitlines()]


def test_no_child_row_precedes_its_parent(tmp_path: Path) -> None:
    lines = recorded(tmp_path)
    records = [Record(json.dumps(line["value"]), line["key"], line["topic"]) for line in lines]
    ids = {line["value"]["id"] for line in lines if line["value"].get("status") == "END"}
    assert len(ids) == 3 * WRITERS
    for order, seed in (("commit", 1), ("commit", 2), ("keys", 3), ("keys", 4)):
        rows = from_changes(records, order=order, foreign_keys=KEYS if order == "keys" else None)
        arrivals: list[Any] = [{**row, "value": line["value"]} for row, line in zip(rows, lines, strict=True)]
        Random(seed).shuffle(arrivals)
        out = list(Orderer("depends_on", key=["destination"]).deliver(arrivals))
        changes = [row for row in out if row["kind"] in ("create", "update", "snapshot")]
        assert {row["outcome"] for row in changes} == {"delivered"}, [row["reason"] for row in changes]
        assert len(changes) == 3 + 7 * WRITERS
        seen: set[tuple[str, int]] = set()
        for row in changes:
            after, table = row["value"]["after"], row["value"]["source"]["table"]
            for child, parent in KEYS.items():
                if child.startswith(f"{table}."):
                    assert (parent.split(".")[0], after[child.split(".")[1]]) in seen, (order, seed, row["message"])
            seen.add((table, after["id"]))
        aside = {row["kind"] for row in out if row["outcome"] == "quarantined"}
        assert aside <= {"schema change", "heartbeat"}, aside
