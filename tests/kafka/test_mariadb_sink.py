"""A sink on a real MariaDB, which defers no constraint: a snapshot with cycles, then transactions; and long names."""

from __future__ import annotations

from random import Random

import pytest
import sqlalchemy as sa
from kafka.mariadb_server import mariadb
from support import shop as shops
from support.long_names import check_long_names
from support.processes import postgres
from support.sinks_at_once import check_sinks_at_once

from thence.errors import MisuseError
from thence.sinks import RowRefused, sql
from thence.sources import WholeTransactions


def state_of(engine: sa.Engine) -> shops.State:
    with engine.connect() as connection:
        return {
            table: {row["id"]: dict(row) for row in connection.exec_driver_sql(f"select * from {table}").mappings()}
            for table in shops.TABLES
        }


def create(engine: sa.Engine, extra: str = "") -> None:
    with engine.begin() as connection:
        for each in shops.DDL:
            connection.exec_driver_sql(each.format(orders="", defer="") + " engine=InnoDB")
        connection.exec_driver_sql(f"alter table customer {extra}add foreign key (favourite) references orders(id)")


def test_a_shop_on_mariadb() -> None:
    with mariadb() as server:
        refused: list[str | None] = []
        for seed in range(8):
            server.sql(f"create database shop{seed}")
            engine = sa.create_engine(f"mysql+pymysql://debezium:none@127.0.0.1:{server.port}/shop{seed}")
            create(engine)
            # Unique values do not move here: MariaDB checks them row by row, as the source did.
            shop = shops.random_shop(seed, 8, immediate=True)
            records = list(shop.records)
            Random(seed).shuffle(records)
            for _ in range(2):  # the second time nothing is repeated
                transactions = WholeTransactions(snapshot=True)
                with sql(engine, shops.TABLES, refused="stop") as sink:
                    for record in records:
                        sink.write(transactions.push(record))
                    try:
                        sink.write(transactions.end_snapshot())
                    except RowRefused as error:  # InnoDB checks row by row, so it empties no table of a cycle
                        refused.append((error.change or {}).get("op"))
                        break
            else:
                assert state_of(engine) == shop.states[-1], seed
                assert sink.applied == 0
            engine.dispose()
        assert set(refused) <= {"t"}
        assert len(refused) < 4


def test_what_mariadb_cannot_defer_is_said() -> None:
    with mariadb() as server:
        server.sql("create database shop")
        engine = sa.create_engine(f"mysql+pymysql://debezium:none@127.0.0.1:{server.port}/shop")
        create(engine, "modify favourite integer not null, ")
        shop = shops.Shop()
        shop.state["customer"][1] = {"id": 1, "email": "a", "favourite": 2}
        shop.state["orders"][2] = {"id": 2, "customer": 1, "total": 0}
        shop.take_snapshot()
        with sql(engine, shops.TABLES) as sink:
            transactions = WholeTransactions(snapshot=True)
            for record in shop.records:
                transactions.push(record)
            with pytest.raises(MisuseError, match=r"customer\(favourite\) to orders stands on a cycle"):
                sink.write(transactions.end_snapshot())


def test_names_longer_than_a_key_are_kept_apart() -> None:
    with mariadb() as server:
        server.sql("create database long_names")
        check_long_names(sa.create_engine(f"mysql+pymysql://debezium:none@127.0.0.1:{server.port}/long_names"))
    with postgres() as running:
        check_long_names(sa.create_engine(f"postgresql+psycopg://postgres@127.0.0.1:{running.port}/postgres"))


@pytest.mark.parametrize("order", ["commit", "transaction"])
def test_sinks_that_run_at_once_write_each_transaction_once(order: str) -> None:
    """MariaDB repeats what a transaction has read, so a sink must read the place anew that another one has moved."""
    with mariadb() as server:
        server.sql("create database at_once")
        check_sinks_at_once(sa.create_engine(f"mysql+pymysql://debezium:none@127.0.0.1:{server.port}/at_once"), order)
    with postgres() as running:
        check_sinks_at_once(sa.create_engine(f"postgresql+psycopg://postgres@127.0.0.1:{running.port}/postgres"), order)
