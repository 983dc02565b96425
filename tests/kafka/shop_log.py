"""A shop with four tables on a real PostgreSQL, concurrent writers, and its log by the real Debezium engine.

The writers work in three phases, and the log can be cut after each: *own*, where each transaction only adds rows of its
own; *keys*, everything but TRUNCATE; *all*. The sources are compared by plain loops that know nothing of thence.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from spark.deliver import debezium_job
from support.processes import Postgres

TABLES = ("customer", "category", "orders", "line")
DDL = """
create table customer(id int primary key, email text unique, favourite int);
create table category(id int primary key, parent int references category {defer});
create table orders(id int primary key, customer int not null references customer on update cascade {defer}, total int);
create table line(id int primary key, orders int not null references orders {defer},
                  category int not null references category {defer}, amount int);
"""
CYCLE = "alter table customer add foreign key (favourite) references orders deferrable;"
REFERS = {
    "customer": {"favourite": "orders"},
    "category": {"parent": "category"},
    "orders": {"customer": "customer"},
    "line": {"orders": "orders", "category": "category"},
}
BEFORE = """
begin; set constraints all deferred;
insert into category values (1, 2), (2, 1), (3, 3);
insert into customer values (1, 'first', 1), (2, 'second', null); insert into orders values (1, 1, 7);
insert into line values (1, 1, 1, 3), (2, 1, 2, 4); commit;
"""
HALF = """
select id from orders o where total <> coalesce((select sum(amount) from line l where l.orders = o.id), 0)
"""
WRITERS = 4
ADDS = ["order"]
BY_KEYS = ["order", "order", "line", "less", "key", "cycle", "category", "gone"]
PHASES = {"own": (6, ADDS), "keys": (18, BY_KEYS), "all": (12, [*BY_KEYS, "truncate"])}
"""transactions of each writer, and their kinds"""
State = dict[str, dict[int, dict[str, Any]]]


def script(writer: int, n: int, chance: random.Random, kinds: list[str]) -> str:
    """Return one transaction of a writer: ids are its own, categories and customers 1 and 2 are everyone's."""
    me = 10_000 * writer + 10 * n
    order = 10_000 * writer + 10 * chance.randrange(n + 1)
    kind = chance.choice(kinds)
    if kind == "order" or n == 0:  # children first: the constraints are deferred
        return (
            f"insert into line values ({me}, {me}, 1, 5), ({me + 1}, {me}, 2, 6);"
            f"insert into orders values ({me}, {me}, 11); insert into customer values ({me}, 'e{me}', null);"
        )
    if kind == "line":
        return (
            f"update orders set total = total + 2 where id = {order};"
            f"insert into line select {me + 2}, id, 3, 2 from orders where id = {order};"
        )
    if kind == "less":
        return (
            f"update orders set total = total - coalesce((select amount from line where id = {order + 1}), 0) "
            f"where id = {order};"
            f"delete from line where id = {order + 1};"
        )
    if kind == "key":  # the orders follow by ON UPDATE CASCADE
        return f"update customer set id = id + 1000000 where id = {order};"
    if kind == "cycle":
        there = f"exists (select from orders where id = {order})"
        return f"update customer set favourite = {order} where id = {1 + writer % 2} and {there};"
    if kind == "category":
        made = f"insert into category values ({me}, {me + 1}), ({me + 1}, {me});"
        return f"{made} update category set parent = {me} where id = 3;"
    if kind == "gone":
        return (
            f"update customer set favourite = null where favourite = {order}; delete from line where orders = {order};"
            f"delete from orders where id = {order};"
        )
    return "lock orders, line in access exclusive mode; update orders set total = 0 where total <> 0; truncate line;"


def write(server: Postgres, writer: int, numbers: Iterable[int], kinds: list[str]) -> None:
    """Commit these transactions of one writer."""
    chance = random.Random(writer + 100 * len(kinds))
    engine = sa.create_engine(f"postgresql+psycopg://postgres@127.0.0.1:{server.port}/postgres")
    with engine.connect() as connection:
        for n in numbers:
            while True:
                try:
                    connection.exec_driver_sql("set constraints all deferred")
                    connection.exec_driver_sql(script(writer, n, chance, kinds))
                    connection.commit()
                    break
                except sa.exc.DBAPIError:  # a deadlock of two writers: another transaction
                    connection.rollback()


@dataclass
class ShopLog:
    """The server, the records up to the end of each phase, and the source's tables as they were then."""

    server: Postgres
    files: dict[str, Path] = field(default_factory=dict)
    sources: dict[str, State] = field(default_factory=dict)


def recorded(folder: Path, server: Postgres) -> ShopLog:
    """Let writers work under the engine; keep its records with offsets, and the tables after each phase."""
    made, target, log, done = ShopLog(server), folder / "changes.jsonl", folder / "log", 0
    source = sa.create_engine(f"postgresql+psycopg://postgres@127.0.0.1:{server.port}/postgres")
    server.psql(DDL.format(defer="deferrable") + CYCLE + BEFORE)
    command = [sys.executable, debezium_job.__file__, str(server.port), str(target), "forever"]
    with log.open("wb") as out:
        job = subprocess.Popen(command, stdout=out, stderr=out, cwd=folder)
    try:
        while job.poll() is None and server.psql("select active from pg_replication_slots").strip() != "t":
            time.sleep(0.2)
        for phase, (each, kinds) in PHASES.items():
            numbers = range(done, done := done + each)
            writers = [threading.Thread(target=write, args=(server, 1 + n, numbers, kinds)) for n in range(WRITERS)]
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join()
            server.psql(f"insert into customer values ({999_999_000 + done}, 'end of {phase}', null)")
            made.sources[phase] = tables(source)
        while not (found := _cuts(target)):
            assert job.poll() is None, log.read_text()[-3000:]
            time.sleep(0.2)
    finally:
        job.kill()
        job.wait()
    lines = _with_offsets(target)
    for phase, count in found.items():
        made.files[phase] = folder / f"{phase}.jsonl"
        made.files[phase].write_text("\n".join(lines[:count]) + "\n")
    return made


def _cuts(target: Path) -> dict[str, int]:
    """Return how many records there are up to the END of each phase's last transaction; nothing before all came."""
    found, phase = {}, None
    for number, line in enumerate(target.read_text().splitlines() if target.exists() else [], 1):
        phase = next((each for each in PHASES if f"end of {each}" in line), phase)
        if phase is not None and '"END"' in line:
            found[phase], phase = number, None
    return found if found.keys() == PHASES.keys() else {}


def _with_offsets(target: Path) -> list[str]:
    offsets: dict[str, int] = {}
    lines = []
    for line in target.read_text().splitlines():
        if not line.endswith("}"):
            break  # the engine was killed in the middle of it
        record = json.loads(line)
        topic = record["topic"]
        offsets[topic] = offsets.get(topic, -1) + 1
        value = json.dumps(record["value"])
        lines.append(json.dumps({**record, "value": value, "partition": 0, "offset": offsets[topic]}))
    return lines


def tables(engine: sa.Engine) -> State:
    """Return all four tables as of one moment."""
    return look(engine)[0]


def look(engine: sa.Engine, positions: bool = False) -> tuple[State, dict[str, str]]:
    """Return all four tables as of one moment, none with half a transaction, and the noted transactions with places."""
    with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
        else:
            connection.exec_driver_sql("begin")
        assert connection.exec_driver_sql(HALF).all() == []
        state = {
            table: {row["id"]: dict(row) for row in connection.exec_driver_sql(f"select * from {table}").mappings()}
            for table in TABLES
        }
        if not positions or not sa.inspect(connection).has_table("thence_positions"):
            return state, {}
        noted = connection.exec_driver_sql("select log, place from thence_positions").mappings()
        return state, {each["log"]: each["place"] for each in noted}


@dataclass
class Unit:
    """The snapshot, or a transaction: its changes, and what it is called in the table of positions."""

    name: str
    changes: list[dict[str, Any]] = field(default_factory=list)
    end: int = -1
    """the offset of its END in the transaction topic"""


def units(file: Path) -> list[Unit]:
    """Return the snapshot and the transactions of a log, in the order of their commits."""
    found = [Unit("snapshot")]
    for line in file.read_text().splitlines():
        record = json.loads(line)
        value = json.loads(record["value"])
        if value.get("status") == "BEGIN":
            found.append(Unit(""))
        elif value.get("status") == "END":
            found[-1].name, found[-1].end = f"transaction {value['id']}", record["offset"]
            assert len(found[-1].changes) == value["event_count"]
        elif "op" in value:
            (found[0] if value["op"] == "r" else found[-1]).changes.append(value)
    return found


def apply(state: State, changes: list[dict[str, Any]]) -> None:
    """Apply changes by a plain loop."""
    for value in changes:
        rows = state[value["source"]["table"]]
        if value["op"] == "t":
            rows.clear()
        elif value["op"] == "d":
            del rows[value["before"]["id"]]
        else:
            rows[value["after"]["id"]] = value["after"]


def empty() -> State:
    """Return a shop without rows."""
    return {table: {} for table in TABLES}


def causes(log: list[Unit]) -> dict[str, set[str]]:
    """Return which transactions must be in a target before each one, by their foreign keys, from the definition alone.

    An earlier transaction is a cause if it changed a row that this one changes, or a row that this one refers to, or if
    it made a row refer, or no longer refer, to one that this one deletes. TRUNCATE is not covered.
    """
    state, found = empty(), dict[str, set[str]]()
    touched: dict[tuple[str, int], set[str]] = {}
    naming: dict[tuple[str, int], set[str]] = {}
    for unit in log:
        needs: set[str] = set()
        own: list[tuple[tuple[str, int], list[tuple[str, int]]]] = []
        for value in unit.changes:
            table = value["source"]["table"]
            row = value["before"] if value["op"] == "d" else value["after"]
            me = table, row["id"]
            before = state[table].get(row["id"], {})
            after = {} if value["op"] == "d" else value["after"]
            parents = [(p, after[c]) for c, p in REFERS[table].items() if after.get(c) is not None]
            needs |= touched.get(me, set()).union(*(touched.get(parent, set()) for parent in parents))
            if value["op"] == "d":
                needs |= naming.get(me, set())
            left = [(p, before[c]) for c, p in REFERS[table].items() if before.get(c) is not None]
            own.append((me, parents + left))
            apply(state, [value])
        for me, named in own:
            touched.setdefault(me, set()).add(unit.name)
            for each in named:
                naming.setdefault(each, set()).add(unit.name)
        found[unit.name] = needs - {unit.name} | ({"snapshot"} - {unit.name})
    return found
