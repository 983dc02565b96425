"""End to end: a real PostgreSQL, the real Debezium engine, concurrent transactions, shuffled, delivered on Spark."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from spark.deliver import debezium_job
from support.processes import Postgres, postgres

TABLES = """
create table customer(id int primary key, name text);
create table orders(id int primary key, customer int references customer);
create table line(id int primary key, orders int references orders);
insert into customer values (1, 'before'), (2, 'the'), (3, 'snapshot');
"""
WRITERS = 6
PARENTS = {"orders": ("customer", "customer"), "line": ("orders", "orders")}


def write(server: Postgres, writer: int) -> None:
    server.psql(
        f"begin; insert into customer values ({writer}, 'c{writer}'); insert into orders values ({writer}, {writer}); "
        f"select pg_sleep(0.1); insert into line values ({writer}0, {writer}), ({writer}1, {writer}); commit;"
        f"begin; insert into orders values ({writer}00, {1 + writer % 3}); commit;"
        f"begin; insert into line values ({writer}000, {writer}00); update customer set name = 'x' where id = {writer};"
        "commit;"
    )


def test_no_child_row_precedes_its_parent(tmp_path: Path, spark: Any) -> None:
    target = tmp_path / "changes.jsonl"
    with postgres() as server, (tmp_path / "log").open("wb") as log:
        server.psql(TABLES)
        command = [sys.executable, debezium_job.__file__, str(server.port), str(target), str(3 * WRITERS)]
        job = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path)
        try:
            while job.poll() is None and server.psql("select active from pg_replication_slots").strip() != "t":
                time.sleep(0.2)
            writers = [threading.Thread(target=write, args=(server, 10 + n)) for n in range(WRITERS)]
            for each in writers:
                each.start()
            for each in writers:
                each.join()
            assert job.wait() == 0, (tmp_path / "log").read_text()[-3000:]
        finally:
            job.kill()
            job.wait()
    spec = importlib.util.spec_from_file_location(
        "debezium_example", Path(__file__).parents[3] / "examples" / "sources" / "debezium.py"
    )
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    told = [line.split() for line in example.main(str(target))]
    assert {line[-1] for line in told} == {"delivered"}
    assert len(told) == len(target.read_text().splitlines())
    _check([line[0] for line in told], target)


def _check(order: list[str], target: Path) -> None:
    from thence.sources import from_changes

    records = [json.loads(line)["value"] for line in target.read_text().splitlines()]
    by_name = {row["message"]: record for row, record in zip(from_changes(records), records, strict=True)}
    seen: dict[str, set[int]] = {"customer": set(), "orders": set(), "line": set()}
    changes = 0
    for name in order:
        record = by_name[name]
        if "op" not in record:
            continue
        changes += 1
        table, after = record["source"]["table"], record["after"]
        if table in PARENTS:
            column, parent = PARENTS[table]
            assert after[column] in seen[parent], f"{table} {after} came before its {parent}"
        seen[table].add(after["id"])
    assert changes == 3 + 7 * WRITERS
    assert len(seen["line"]) == 3 * WRITERS
