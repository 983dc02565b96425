"""End to end: concurrent writers on a real PostgreSQL, the real Debezium engine, delayed topics, a sink that is killed.

At every moment the target must be the source after some commit: its four tables are read in one snapshot, while the
sink runs and after each kill -9, and compared with what a plain loop over the log makes of each commit. In every commit
of the source `orders.total` is the sum of the order's lines, so half a transaction would also break that query.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from kafka import shop_sink_job
from spark.deliver import debezium_job
from support.processes import Postgres, postgres
from support.soak import first, keep

DDL = """
create table customer(id int primary key, email text unique, favourite int);
create table category(id int primary key, parent int references category {defer});
create table orders(id int primary key, customer int not null references customer on update cascade {defer}, total int);
create table line(id int primary key, orders int not null references orders {defer},
                  category int not null references category {defer}, amount int);
"""
CYCLE = "alter table customer add foreign key (favourite) references orders deferrable;"
BEFORE = """
begin; set constraints all deferred;
insert into category values (1, 2), (2, 1), (3, 3);
insert into customer values (1, 'first', 1), (2, 'second', null); insert into orders values (1, 1, 7);
insert into line values (1, 1, 1, 3), (2, 1, 2, 4); commit;
"""
HALF = """
select id from orders o where total <> coalesce((select sum(amount) from line l where l.orders = o.id), 0)
"""
WRITERS, EACH = 4, 20
TABLES = shop_sink_job.TABLES
State = dict[str, dict[int, dict[str, Any]]]


def script(writer: int, n: int, chance: random.Random) -> str:
    """Return one transaction of a writer: ids are its own, categories and customers 1 and 2 are everyone's."""
    me = 10_000 * writer + 10 * n
    order = 10_000 * writer + 10 * chance.randrange(n + 1)
    kind = chance.choice(["order", "order", "line", "less", "key", "cycle", "category", "gone", "truncate"])
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


def write(server: Postgres, writer: int) -> None:
    chance = random.Random(writer)
    engine = sa.create_engine(f"postgresql+psycopg://postgres@127.0.0.1:{server.port}/postgres")
    with engine.connect() as connection:
        for n in range(EACH):
            while True:
                try:
                    connection.exec_driver_sql("set constraints all deferred")
                    connection.exec_driver_sql(script(writer, n, chance))
                    connection.commit()
                    break
                except sa.exc.DBAPIError:  # a deadlock of two writers: another transaction
                    connection.rollback()


def recorded(folder: Path, server: Postgres) -> tuple[Path, State]:
    """Let writers work under the engine; return its records with offsets, and the tables at the end."""
    target, log = folder / "changes.jsonl", folder / "log"
    server.psql(DDL.format(defer="deferrable") + CYCLE + BEFORE)
    command = [sys.executable, debezium_job.__file__, str(server.port), str(target), "forever"]
    with log.open("wb") as out:
        job = subprocess.Popen(command, stdout=out, stderr=out, cwd=folder)
    try:
        while job.poll() is None and server.psql("select active from pg_replication_slots").strip() != "t":
            time.sleep(0.2)
        writers = [threading.Thread(target=write, args=(server, 1 + n)) for n in range(WRITERS)]
        for each in writers:
            each.start()
        for each in writers:
            each.join()
        server.psql("insert into customer values (999999999, 'the end', null)")
        while not (target.exists() and "the end" in target.read_text()) or '"END"' not in target.read_text()[-3000:]:
            assert job.poll() is None, log.read_text()[-3000:]
            time.sleep(0.2)
        time.sleep(1)
    finally:
        job.kill()
        job.wait()
    offsets: dict[str, int] = {}
    lines = []
    for line in target.read_text().splitlines():
        record = json.loads(line)
        topic = record["topic"]
        offsets[topic] = offsets.get(topic, -1) + 1
        value = json.dumps(record["value"])
        lines.append(json.dumps({**record, "value": value, "partition": 0, "offset": offsets[topic]}))
    target.write_text("\n".join(lines) + "\n")
    return target, tables(sa.create_engine(f"postgresql+psycopg://postgres@127.0.0.1:{server.port}/postgres"))


def tables(engine: sa.Engine) -> State:
    """Return all four tables as of one moment."""
    with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
        else:
            connection.exec_driver_sql("begin")
        assert connection.exec_driver_sql(HALF).all() == []
        return {
            table: {row["id"]: dict(row) for row in connection.exec_driver_sql(f"select * from {table}").mappings()}
            for table in TABLES
        }


def commits(file: Path) -> list[State]:
    """Return the source after its snapshot and after each commit, by a plain loop over the log."""
    state: State = {table: {} for table in TABLES}
    found = [json.loads(json.dumps(state))]
    seen_end = False
    for line in file.read_text().splitlines():
        value = json.loads(json.loads(line)["value"])
        if value.get("status") == "BEGIN" and not seen_end:
            found.append(json.loads(json.dumps(state)))  # the snapshot ends before the first transaction
        if "op" in value:
            rows = state[value["source"]["table"]]
            if value["op"] == "t":
                rows.clear()
            elif value["op"] == "d":
                del rows[value["before"]["id"]]
            else:
                rows[value["after"]["id"]] = value["after"]
        if value.get("status") == "END":
            seen_end = True
            found.append(json.loads(json.dumps(state)))
    return found


def numbered(state: State) -> str:
    return json.dumps(
        {table: {str(n): row for n, row in rows.items()} for table, rows in state.items()}, sort_keys=True
    )


def places_of(states: Iterable[str]) -> dict[str, list[int]]:
    """Return after which commits each state is that of the source: a value may change there and back."""
    places: dict[str, list[int]] = {}
    for place, state in enumerate(states):
        places.setdefault(state, []).append(place)
    return places


def next_place(prefixes: dict[str, list[int]], state: str, reached: int) -> int:
    """Return how many commits the target has at least, which had `reached` when it was looked at before."""
    places = prefixes.get(state)
    assert places is not None, "the target is the source after no commit"
    later = [place for place in places if place >= reached]
    assert later, f"a transaction was lost: {reached} commits, then {places}"
    return later[0]


@pytest.mark.parametrize("seed", range(50))
def test_the_judge_accepts_every_look_at_a_target_that_loses_nothing(seed: int) -> None:
    """States come back (a favourite changes from a to b to a), and a look may miss any number of commits."""
    chance = random.Random(seed)
    states = [chance.choice("abc") + str(place // 10) for place in range(60)]
    prefixes, looks, found = places_of(states), sorted(chance.sample(range(60), 20)), [0]
    for place in looks:
        found.append(next_place(prefixes, states[place], found[-1]))
    assert all(reached <= place for reached, place in zip(found[1:], looks, strict=True))


def test_the_judge_names_a_loss_and_by_last_places_would_name_one_that_is_none() -> None:
    prefixes = places_of("abcbd")
    with pytest.raises(AssertionError, match="a transaction was lost: 2 commits, then \\[0\\]"):
        next_place(prefixes, "a", next_place(prefixes, "c", 0))
    # A judge that kept one place of each state, the last, took a target at commit 1 for one at commit 3, and its next
    # commit, 2, for a loss.
    last = {state: [place] for place, state in enumerate("abcbd")}
    with pytest.raises(AssertionError, match="a transaction was lost: 3 commits, then \\[2\\]"):
        next_place(last, "c", next_place(last, "b", 0))
    assert next_place(prefixes, "c", next_place(prefixes, "b", 0)) == 2


@pytest.mark.parametrize("kills", first(1, [4, 50]))
def test_a_killed_sink_leaves_a_prefix_of_the_commits(tmp_path: Path, kills: int) -> None:
    with postgres() as server:
        file, source = recorded(tmp_path, server)
        made = [json.loads(json.loads(line)["value"]) for line in file.read_text().splitlines()]
        assert {value.get("op") for value in made} == {None, "r", "c", "u", "d", "t"}
        prefixes = places_of(map(numbered, commits(file)))
        assert len(prefixes) > WRITERS * EACH / 2
        server.psql("create database target")
        urls = {
            "postgresql": f"postgresql+psycopg://postgres@127.0.0.1:{server.port}/target",
            "sqlite": f"sqlite:///{tmp_path / 'target.db'}",
        }
        for name, url in urls.items():
            engine = sa.create_engine(url, poolclass=sa.NullPool)
            with engine.begin() as connection:
                postgresql = name == "postgresql"
                text = DDL.format(defer="deferrable" if postgresql else "") + (CYCLE if postgresql else "")
                if not postgresql:
                    text = text.replace("favourite int", "favourite int references orders")
                for statement in filter(str.strip, text.split(";")):
                    connection.exec_driver_sql(statement)
            killed, looked = _torment(file, url, engine, prefixes, kills if postgresql else min(kills, 10))
            assert numbered(tables(engine)) == numbered(source)
            if kills >= 50:
                row = {"kills": killed, "states looked at": looked, "transactions": len(commits(file)) - 2}
                keep("sink_kills", name, row)


def _torment(file: Path, url: str, engine: sa.Engine, prefixes: dict[str, list[int]], kills: int) -> tuple[int, int]:
    """Kill the sink this often, then let it end; look at the target all the while."""
    chance, killed, looked, reached = random.Random(5), 0, 0, 0

    def look() -> None:
        nonlocal looked, reached
        looked, reached = looked + 1, next_place(prefixes, numbered(tables(engine)), reached)

    for run in range(10 * kills):
        last = killed >= kills
        pause = 0.0 if last else 0.004
        command = [sys.executable, shop_sink_job.__file__, str(file), url, str(run), str(pause)]
        job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert job.stdout is not None
        assert job.stderr is not None
        job.stdout.readline()  # it has applied something, or ended
        if last:
            assert job.wait() == 0, job.stderr.read()[-3000:]
            look()
            return killed, looked
        time.sleep(chance.random() * 0.06)
        look()
        running = job.poll() is None
        job.kill()
        job.wait()
        assert running or job.returncode == 0, job.stderr.read()[-3000:]
        killed += running
        look()
        if not running and killed < kills:  # it had ended: begin anew
            with engine.begin() as connection:
                if engine.dialect.name == "postgresql":
                    connection.exec_driver_sql("truncate customer, category, orders, line, thence_positions")
                else:
                    connection.exec_driver_sql("pragma defer_foreign_keys = on")
                    for table in (*TABLES, "thence_positions"):
                        connection.exec_driver_sql(f"delete from {table}")
            reached = 0
    raise AssertionError(f"{killed} of {kills} kills")
