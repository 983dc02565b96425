"""Whole transactions of a shop into Delta or Iceberg, by a writer that is cut off at any of its MERGE statements.

    python tests/versions/whole_transactions.py FORMAT FOLDER [N]      kill this process at its N-th MERGE, if given

Even numbers: before the statement runs; odd ones: after it. Each state that a reader sees, before the stream and while
it runs, is a line of FOLDER/seen.json; where the process was killed, one of FOLDER/killed.txt.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

COLUMNS = {
    "customer": "id bigint, email string, favourite bigint",
    "category": "id bigint, parent bigint",
    "public.orders": "id bigint, customer bigint, total bigint",
    "line": "id bigint, orders bigint, category bigint, amount bigint",
}
SCHEMA = "value string, key string, topic string, partition int, offset long"


class Cut(Exception):
    """The writer is cut off here."""


def cut(where: str) -> None:
    raise Cut(where)


def write_records(folder: Path, *, commits: int, files: int, seed: int = 31) -> Any:
    """Write the records of a shop, shuffled over files, each of which is a micro-batch; return the shop."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from support import shop as shops

    shop = shops.random_shop(seed, commits, snapshot=False)
    # Late by up to 1.5 files: transactions are cut, and each micro-batch still ends some.
    random, span = Random(seed), 1.5 * len(shop.records) / files
    late = {place: place + random.random() * span for place in range(len(shop.records))}
    records = [shop.records[place] for place in sorted(late, key=late.__getitem__)]
    (folder / "in").mkdir(parents=True)
    types = {"partition": pa.int32(), "offset": pa.int64()}
    for place in range(files):
        some = records[place * len(records) // files : (place + 1) * len(records) // files]
        columns = {
            name: pa.array([getattr(each, name) for each in some], types.get(name, pa.string()))
            for name in ("value", "key", "topic", "partition", "offset")
        }
        pq.write_table(pa.table(columns), folder / "in" / f"{place}.parquet")
    return shop


def names(kind: str, folder: Path) -> tuple[dict[str, str], str]:
    """Return the tables of versions, and that of positions."""
    from versions.lake import table

    return {name: table(kind, folder, f"whole_{name.rpartition('.')[2]}") for name in COLUMNS}, table(
        kind, folder, "whole_positions"
    )


def start(
    spark: Any, kind: str, folder: Path, checkpoint: str = "checkpoint-whole", since: str | int | None = None
) -> Any:
    """Start a stream that ends with what is there."""
    from thence.spark import deliver, into_lakehouse
    from thence.spark.sources import from_changes

    tables, positions = names(kind, folder)
    records = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    ordered = deliver(from_changes(records, since=since), "depends_on", key=["destination"], shards=1)
    return into_lakehouse(
        ordered, tables, positions=positions, columns=COLUMNS, format=kind, checkpoint=folder / checkpoint,
        trigger={"availableNow": True},
    )  # fmt: skip


def look(spark: Any, kind: str, folder: Path, catalog: str = "lake.") -> Any:
    """Return what a reader sees: for each table its rows by their id."""
    from thence.spark import committed_tables

    tables, positions = names(kind, folder)
    tables = {name: table.replace("lake.", catalog) for name, table in tables.items()}
    positions = positions.replace("lake.", catalog)
    shown = committed_tables(spark, tables.values(), positions=positions)
    return {
        name.rpartition(".")[2]: {row["id"]: row.asDict() for row in shown[table].collect()}
        for name, table in tables.items()
    }


def refused(spark: Any, kind: str, folder: Path, after: Any) -> str:
    """Return why an order cannot be written; the table of versions must stay as it is."""
    from thence.spark import deliver
    from thence.spark.sources import from_changes
    from thence.tables.engines.spark.into_lakehouse import batch_writer

    source = {"name": "other", "schema": "public", "table": "orders", "snapshot": "false"}
    change = {"op": "c", "after": after, "source": source, "transaction": {"id": "1:1", "total_order": 1}}
    records = [
        (json.dumps({"status": "BEGIN", "id": "1:1"}), None, "other.transaction", 0, 0),
        (json.dumps(change), json.dumps({"id": 1}), "other.public.orders", 0, 0),
    ]
    tables, positions = names(kind, folder)
    ordered = deliver(from_changes(spark.createDataFrame(records, SCHEMA)), "depends_on", key=["destination"])
    before = spark.table(tables["public.orders"]).count()
    try:
        batch_writer(tables, positions, lambda _: "other")(ordered, 0)
    except Exception as error:
        assert spark.table(tables["public.orders"]).count() == before
        return str(error)
    return "written"


def reached(shop: Any, state: Any, least: int) -> int:
    """Return after how many commits the source was in this state, `least` of them or more; there must be one."""
    places = [place for place, each in enumerate(shop.states) if each == state and place >= least]
    assert places, f"the tables are at no commit from {least} on: {state}"
    return places[0]


@contextmanager
def cut_off(number: int, how: Callable[[str], None]) -> Iterator[None]:
    """Have the writer cut off at its n-th MERGE from now on: before it if n is even, else after it."""
    from pyspark.sql import SparkSession

    plain, count, written = SparkSession.sql, 0, 0

    def counted(self: Any, statement: str, *args: Any, **more: Any) -> Any:
        nonlocal count, written
        count += statement.startswith("MERGE")
        due = count == number and statement.startswith("MERGE")
        if due and number % 2 == 0:
            how(f"{written} tables written since the last position")
        done = plain(self, statement, *args, **more)
        if statement.startswith("MERGE"):
            written = 0 if "positions" in statement.partition(" USING ")[0] else written + 1
        if due:
            how(f"{written} tables written since the last position")
        return done

    SparkSession.sql = counted  # type: ignore[method-assign]
    try:
        yield
    finally:
        SparkSession.sql = plain  # type: ignore[method-assign]


def main(kind: str, folder: Path, number: int = 0) -> None:
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    from versions.lake import settings

    from thence.spark import local_session

    spark = local_session(cores=2, quick=True, conf=settings(kind, folder))
    done = threading.Event()

    def kill(where: str) -> None:
        with (folder / "killed.txt").open("a") as killed:
            print(where, file=killed, flush=True)
        os.killpg(0, signal.SIGKILL)

    with (folder / "seen.json").open("a") as seen, cut_off(number, kill):

        def note() -> None:
            print(json.dumps(look(spark, kind, folder)), file=seen, flush=True)

        def watch() -> None:
            while not done.wait(1):
                note()

        query = start(spark, kind, folder)
        watching = threading.Thread(target=watch)
        watching.start()
        query.awaitTermination()
        done.set()
        watching.join()
        note()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))
