"""Whole transactions of a stream into a database with foreign keys, killed: the target is a prefix of the commits."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark.deliver import into_database_job
from support import shop as shops
from support.processes import kill_family
from support.soak import first

from thence.errors import MisuseError
from thence.spark import deliver, into_database
from thence.tables.engines.spark.sources import from_changes

FILES = 4


def add(folder: Path, records: list[Any], number: int) -> None:
    """Let the next part of the records arrive."""
    part = records[number * len(records) // FILES : (number + 1) * len(records) // FILES]
    names = ("value", "key", "topic", "partition", "offset")
    types = {"partition": pa.int32(), "offset": pa.int64()}
    columns = {name: pa.array([getattr(each, name) for each in part], types.get(name, pa.string())) for name in names}
    pq.write_table(pa.table(columns), folder / "in" / f"{number}.parquet")


def state(folder: Path) -> shops.State:
    with sqlite3.connect(folder / "target.db", timeout=60) as target:
        target.row_factory = sqlite3.Row
        target.execute("begin")
        return {
            table: {row["id"]: dict(row) for row in target.execute(f"select * from {table}")} for table in shops.TABLES
        }


@pytest.mark.parametrize("kills", first(1, [1, 15]))
def test_a_killed_stream_leaves_a_prefix_of_the_commits(tmp_path: Path, spark: Any, kills: int) -> None:
    shop, random = shops.random_shop(31, 60, snapshot=False), Random(31)
    records = random.sample(shop.records, len(shop.records))
    (tmp_path / "in").mkdir()
    with sqlite3.connect(tmp_path / "target.db") as target:
        for each in shops.sqlite_ddl():
            target.execute(each)
    reached, looked = 0, 0

    def look() -> None:
        nonlocal reached, looked
        found = state(tmp_path)
        places = [place for place, each in enumerate(shop.states) if each == found and place >= reached]
        assert places, f"the target is no prefix of the commits from {reached} on"
        reached, looked = places[0], looked + 1

    for number in range(FILES - 2):
        add(tmp_path, records, number)
    into_database_job.run(spark, tmp_path)
    look()
    for number in range(FILES - 2, FILES):
        add(tmp_path, records, number)
    for _ in range(kills):
        command = [sys.executable, into_database_job.__file__, str(tmp_path), "0.02"]
        job = subprocess.Popen(command, start_new_session=True)
        try:
            before = state(tmp_path)
            while job.poll() is None and state(tmp_path) == before:
                time.sleep(0.01)
            time.sleep(random.random())
            look()
        finally:
            kill_family(job)
        look()
    into_database_job.run(spark, tmp_path)
    look()
    print(f"{kills} kills, {looked} states looked at")
    assert state(tmp_path) == shop.states[-1]
    with sqlite3.connect(tmp_path / "target.db") as target:
        assert target.execute("select * from thence_open_changes").fetchall() == []


def test_what_is_no_delivered_change_is_refused(spark: Any) -> None:
    rows = spark.createDataFrame([("a", ["b"], "x")], "message string, depends_on array<string>, destination string")
    with pytest.raises(MisuseError, match="takes what deliver returned"):
        into_database(rows, "sqlite://", ["t"])
    with pytest.raises(MisuseError, match=r"it lacks value, topic"):
        into_database(deliver(rows, "depends_on", key=["destination"]), "sqlite://", ["t"])
    records = spark.createDataFrame([], into_database_job.SCHEMA)
    with pytest.raises(MisuseError, match="key=\\['destination'\\]"):
        into_database(deliver(from_changes(records), "depends_on", key=["transaction"]), "sqlite://", ["t"])
