"""Whole transactions of a stream into a database with foreign keys, killed: the target is a prefix of the commits."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
import sqlalchemy as sa
from pyspark.sql import functions as F
from spark.deliver import into_database_job
from support import shop as shops
from support.processes import kill_family, postgres
from support.soak import first, keep

from thence.errors import MisuseError
from thence.spark import deliver, into_database
from thence.tables.engines.spark.sources import from_changes

FILES = 4


def state(engine: sa.Engine) -> tuple[shops.State, int]:
    """Return the tables, and how many transactions the positions say they hold, as of one moment."""
    with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
        else:
            connection.exec_driver_sql("begin")
        found = {
            table: {row["id"]: dict(row) for row in connection.exec_driver_sql(f"select * from {table}").mappings()}
            for table in shops.TABLES
        }
        if not sa.inspect(connection).has_table("thence_positions"):
            return found, 0
        return found, int(connection.exec_driver_sql("select sum(transactions) from thence_positions").scalar() or 0)


@contextmanager
def target(dialect: str, folder: Path) -> Iterator[str]:
    """Make an empty shop in a database, with all its foreign keys; give its address."""
    if dialect == "sqlite":
        url = f"sqlite:///{folder / 'target.db'}"
        with sa.create_engine(url).begin() as connection:
            for each in shops.sqlite_ddl():
                connection.exec_driver_sql(each)
        yield url
        return
    with postgres() as server:
        server.psql(";".join(each.format(orders="", defer="deferrable") for each in shops.DDL))
        server.psql("alter table customer add foreign key (favourite) references orders deferrable")
        yield f"postgresql+psycopg://postgres@127.0.0.1:{server.port}/postgres"


@pytest.mark.parametrize("case", first(2, [("postgresql", 1), ("sqlite", 0), ("postgresql", 15), ("sqlite", 15)]))
def test_a_killed_stream_leaves_a_prefix_of_the_commits(tmp_path: Path, spark: Any, case: tuple[str, int]) -> None:
    dialect, kills = case
    shop, random = shops.random_shop(31, 240 if kills > 1 else 60, snapshot=False), Random(31)
    # Near their places, so that each micro-batch has whole transactions and cuts others.
    places = {place: place + random.uniform(0, 40) for place in range(len(shop.records))}
    records = [shop.records[place] for place in sorted(places, key=places.__getitem__)]
    with target(dialect, tmp_path) as url:
        engine, reached, looked = sa.create_engine(url, poolclass=sa.NullPool), 0, 0

        def look() -> None:
            nonlocal reached, looked
            found, place = state(engine)
            assert place >= reached, f"a transaction was lost: {reached} commits, then {place}"
            assert found == shop.states[place], f"not the shop after {place} commits"
            reached, looked = place, looked + 1

        into_database_job.write_parts(tmp_path, records, FILES, range(FILES - 2))
        into_database_job.run(spark, tmp_path, url)
        look()
        assert reached > 0
        into_database_job.write_parts(tmp_path, records, FILES, range(FILES - 2, FILES))
        for _ in range(kills):
            command = [sys.executable, into_database_job.__file__, str(tmp_path), url, "0.02"]
            job = subprocess.Popen(command, start_new_session=True)
            try:
                before = state(engine)
                while job.poll() is None and state(engine) == before:
                    time.sleep(0.01)
                time.sleep(random.random() * min(1, 6 / kills))
                look()
            finally:
                kill_family(job)
            look()
        killed_at = reached
        into_database_job.run(spark, tmp_path, url)
        look()
        assert killed_at < reached == len(shop.states) - 1
        with engine.connect() as connection:
            assert connection.exec_driver_sql("select * from thence_open_changes").all() == []
    if kills > 1:
        keep("stream_sink_kills", dialect, {"kills": kills, "states looked at": looked, "transactions": reached})


def test_what_is_no_delivered_change_is_refused(spark: Any) -> None:
    rows = spark.createDataFrame([("a", ["b"], "x")], "message string, depends_on array<string>, destination string")
    with pytest.raises(MisuseError, match="takes what deliver returned"):
        into_database(rows, "sqlite://", ["t"])
    with pytest.raises(MisuseError, match=r"it lacks value, topic"):
        into_database(deliver(rows, "depends_on", key=["destination"]), "sqlite://", ["t"])
    records = spark.createDataFrame([], into_database_job.SCHEMA)
    with pytest.raises(MisuseError, match="key=\\['destination'\\]"):
        into_database(deliver(from_changes(records), "depends_on", key=["transaction"]), "sqlite://", ["t"])


def test_an_order_in_which_a_transaction_would_be_lost_is_refused(spark: Any, tmp_path: Path) -> None:
    """By another order an earlier transaction may come in a later micro-batch, behind the position of the target."""
    batch = spark.createDataFrame([], into_database_job.SCHEMA)
    stream = spark.readStream.schema(into_database_job.SCHEMA).parquet(str(tmp_path))
    for records, order in ((stream, "transaction"), (batch, "transaction"), (batch, "keys")):
        ordered = deliver(from_changes(records, order=order), "depends_on", key=["destination"])
        with pytest.raises(MisuseError, match=f"order='{order}', and into_database .* Use from_changes"):
            into_database(ordered, "sqlite://", ["t"], checkpoint=tmp_path / "checkpoint")
    computed = from_changes(stream).withColumn("transaction", F.upper("transaction"))
    with pytest.raises(MisuseError, match="does not say in which order"):
        into_database(deliver(computed, "depends_on", key=["destination"]), "sqlite://", ["t"], checkpoint=tmp_path)
