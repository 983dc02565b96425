"""End to end: concurrent writers on a real PostgreSQL, the real Debezium engine, delayed topics, a sink that is killed.

The target is looked at while the sink runs and after each kill -9: its four tables and its positions, in one snapshot.
It must hold exactly the transactions that the positions name: in the order of commits those up to a place, which never
goes back; in the other orders a set that only grows and holds the causes of all its transactions. What the tables must
be then, a plain loop over the log says. In every commit of the source `orders.total` is the sum of the order's lines,
so half a transaction would also break that query.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from kafka import shop_log, shop_sink_job
from kafka.shop_log import ShopLog, State, Unit
from support.processes import postgres
from support.soak import first, keep

PHASE = {"commit": "all", "keys": "keys", "transaction": "own"}
"""how much of the log an order can take: keys place no truncate, and `transaction` only tables that gain rows"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShopLog]:
    with postgres() as server:
        yield shop_log.recorded(tmp_path_factory.mktemp("shop"), server)


class Judge:
    """What a target may be, and what it was."""

    def __init__(self, log: list[Unit], order: str) -> None:
        self.log, self.order = log, order
        self.causes = shop_log.causes(log) if order == "keys" else {unit.name: {"snapshot"} for unit in log}
        self.held: set[str] = set()
        self.looked = self.out_of_order = 0
        """looks, and how many of them found a transaction without an earlier one"""

    def begin_anew(self) -> None:
        self.held = set()

    def look(self, state: State, noted: dict[str, str]) -> None:
        """Compare the tables with the noted transactions, and those with what was noted before."""
        held = self._held(noted)
        lost = self.held - held
        assert not lost, f"a transaction was lost: {sorted(lost)}"
        for name in held - {"snapshot"}:
            lacking = self.causes[name] - held
            assert not lacking, f"{name} is there without {sorted(lacking)}"
        made = shop_log.empty()
        for unit in self.log:
            if unit.name in held:
                shop_log.apply(made, unit.changes)
        assert state == made, f"not the rows of the {len(held)} noted transactions"
        self.held, self.looked = held, self.looked + 1
        self.out_of_order += [unit.name in held for unit in self.log] != [n < len(held) for n in range(len(self.log))]

    def _held(self, noted: dict[str, str]) -> set[str]:
        places = [int(place.strip("[]")) for log, place in noted.items() if log.startswith("offset ")]
        named = {log for log in noted if not log.startswith("offset ")}
        if self.order != "commit":
            assert places == []
            return named
        assert named <= {"snapshot"}
        assert len(places) <= 1
        reached = places[0] if places else -1
        assert not places or places[0] in {unit.end for unit in self.log}
        return named | {unit.name for unit in self.log if unit.name != "snapshot" and unit.end <= reached}


def made_unit(name: str, end: int, *changes: tuple[str, str, dict[str, Any]]) -> Unit:
    told = [{"op": op, "source": {"table": t}, "before": row, "after": row} for op, t, row in changes]
    return Unit(name, told, end)


CUSTOMER, ORDER = {"id": 7, "email": "a", "favourite": None}, {"id": 70, "customer": 7, "total": 0}
SMALL = [
    Unit("snapshot"),
    made_unit("customer", 1, ("c", "customer", CUSTOMER)),
    made_unit("order", 3, ("c", "orders", ORDER)),
    made_unit("there", 5, ("u", "customer", CUSTOMER | {"email": "b"})),
    made_unit("back", 7, ("u", "customer", CUSTOMER)),
    made_unit("gone", 9, ("d", "orders", {"id": 70})),
    made_unit("customer gone", 11, ("d", "customer", {"id": 7})),
]


def test_the_judge_knows_causes_from_the_definition() -> None:
    found = shop_log.causes(SMALL)
    assert found["snapshot"] == set()
    assert found["order"] == {"snapshot", "customer"}
    assert found["back"] == {"snapshot", "customer", "there"}
    assert found["gone"] == {"snapshot", "order"}
    assert found["customer gone"] == {"snapshot", "customer", "there", "back", "order", "gone"}


@pytest.mark.parametrize(
    ("order", "noted", "customer", "orders", "wrong"),
    [
        ("commit", "3", CUSTOMER, [ORDER], None),
        ("commit", "7", CUSTOMER, [ORDER], None),
        ("commit", "5", CUSTOMER, [ORDER], "not the rows"),  # they are those after 3, and after 7
        ("commit", "1", CUSTOMER, [], r"a transaction was lost: \['order'\]"),
        ("keys", "snapshot customer order there", CUSTOMER | {"email": "b"}, [ORDER], None),
        ("keys", "snapshot customer order gone", CUSTOMER, [], None),
        ("keys", "snapshot customer order gone", CUSTOMER, [ORDER], "not the rows"),
        ("keys", "snapshot customer order back", CUSTOMER, [ORDER], r"without \['there'\]"),
        ("keys", "snapshot customer", CUSTOMER, [], r"a transaction was lost: \['order'\]"),
        ("keys", "customer order", CUSTOMER, [ORDER], r"a transaction was lost: \['snapshot'\]"),
    ],
)
def test_the_judge_names_what_is_wrong(
    order: str, noted: str, customer: dict[str, Any], orders: list[dict[str, Any]], wrong: str | None
) -> None:
    def positions(text: str) -> dict[str, str]:
        return {"snapshot": "", "offset t/0": f"[{text}]"} if order == "commit" else dict.fromkeys(text.split(), "")

    judge = Judge(SMALL, order)
    before = shop_log.empty() | {"customer": {7: CUSTOMER}, "orders": {70: ORDER}}
    judge.look(before, positions("3" if order == "commit" else "snapshot customer order"))
    state = shop_log.empty() | {"customer": {7: customer}, "orders": {row["id"]: row for row in orders}}
    if wrong is None:
        judge.look(state, positions(noted))
        assert judge.looked == 2
        assert judge.out_of_order == ("gone" in noted)
    else:
        with pytest.raises(AssertionError, match=wrong):
            judge.look(state, positions(noted))


CASES = [
    ("commit", "postgresql", 4), ("commit", "sqlite", 4), ("keys", "postgresql", 8), ("transaction", "postgresql", 2),
    ("commit", "postgresql", 50), ("keys", "postgresql", 50), ("transaction", "postgresql", 50),
    ("commit", "sqlite", 10), ("keys", "sqlite", 10),
]  # fmt: skip


@pytest.mark.parametrize("case", first(4, CASES), ids=str)
def test_a_killed_sink_leaves_whole_transactions(tmp_path: Path, shop: ShopLog, case: tuple[str, str, int]) -> None:
    order, dialect, kills = case
    file = shop.files[PHASE[order]]
    log = shop_log.units(file)
    made = {value["op"] for unit in log for value in unit.changes}
    assert made == {"commit": set("rcudt"), "keys": set("rcud"), "transaction": set("rc")}[order]
    url = f"sqlite:///{tmp_path / 'target.db'}"
    if dialect == "postgresql":
        shop.server.psql(f"create database {order}_{kills}")
        url = f"postgresql+psycopg://postgres@127.0.0.1:{shop.server.port}/{order}_{kills}"
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        text = shop_log.DDL.format(defer="deferrable") + shop_log.CYCLE
        if dialect == "sqlite":
            text = shop_log.DDL.format(defer="").replace("favourite int", "favourite int references orders")
        for statement in filter(str.strip, text.split(";")):
            connection.exec_driver_sql(statement)
    judge = Judge(log, order)
    killed = _torment(file, url, engine, judge, kills)
    assert shop_log.tables(engine) == shop.sources[PHASE[order]]
    assert judge.held == {unit.name for unit in log}
    assert (judge.out_of_order > 0) == (order == "keys") or order == "transaction"
    if kills >= 10:
        row = {
            "kills": killed,
            "states looked at": judge.looked,
            "of them not a prefix of the commits": judge.out_of_order,
            "transactions": len(log) - 1,
        }
        keep("sink_kills", f"{dialect}, {order}", row)


def _torment(file: Path, url: str, engine: sa.Engine, judge: Judge, kills: int) -> int:
    """Kill the sink this often, then let it end; look at the target all the while."""
    chance, killed = random.Random(5), 0
    for run in range(10 * kills):
        last = killed >= kills
        pause = 0.0 if last else 0.004
        command = [sys.executable, shop_sink_job.__file__, str(file), url, judge.order, str(run), str(pause)]
        job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert job.stdout is not None
        assert job.stderr is not None
        job.stdout.readline()  # it has applied something, or ended
        if last:
            assert job.wait() == 0, job.stderr.read()[-3000:]
            judge.look(*shop_log.look(engine, positions=True))
            return killed
        time.sleep(chance.random() * 0.06)
        judge.look(*shop_log.look(engine, positions=True))
        running = job.poll() is None
        job.kill()
        job.wait()
        assert running or job.returncode == 0, job.stderr.read()[-3000:]
        killed += running
        judge.look(*shop_log.look(engine, positions=True))
        if not running and killed < kills:  # it had ended: begin anew
            with engine.begin() as connection:
                if engine.dialect.name == "postgresql":
                    connection.exec_driver_sql("truncate customer, category, orders, line, thence_positions")
                else:
                    connection.exec_driver_sql("pragma defer_foreign_keys = on")
                    for table in (*shop_log.TABLES, "thence_positions"):
                        connection.exec_driver_sql(f"delete from {table}")
            judge.begin_anew()
    raise AssertionError(f"{killed} of {kills} kills")
