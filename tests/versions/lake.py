"""A lakehouse table filled by `into_table`: Delta under Spark 4.2, Iceberg under 4.1, in a process that can be killed.

    python tests/versions/lake.py FORMAT FOLDER    two streams, by append and by MERGE, to the end of FOLDER/in, once a
                                                   line comes on standard input

Arrivals are chains, one for each account, shuffled over many files, so that rows wait from one micro-batch to another
and the only causal order of an account is that of its numbers.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

JARS = {
    "delta": [
        "io.delta:delta-spark_4.2_2.13:4.4.0", "io.delta:delta-storage:4.4.0", "io.delta:delta-kernel-api:4.4.0",
        "io.delta:delta-kernel-defaults:4.4.0", "io.delta:delta-kernel-unitycatalog:4.4.0",
        "io.unitycatalog:unitycatalog-client:0.6.0",
    ],
    "iceberg": ["org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"],
}  # fmt: skip
FORMAT_OF = {"4.1": "iceberg", "4.2": "delta"}
"""By version of Spark."""
SCHEMA = "account string, message string, depends_on string, arrival long"
STREAMS = ("append", "merge")


def settings(kind: str, folder: Path) -> dict[str, str]:
    """Return what a session needs for tables of a format, kept below the folder."""
    from support.broker import fetch

    jars = {"spark.jars": ",".join(map(str, fetch(*JARS[kind], alone=True)))}
    if kind == "delta":
        return jars | {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.databricks.delta.snapshotPartitions": "2",  # 50 tasks for each look at a small table otherwise
        }
    return jars | {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(folder / "warehouse"),
        "spark.sql.catalog.lake.cache-enabled": "false",  # a stream commits through a catalog of its own
        "spark.sql.catalog.kept": "org.apache.iceberg.spark.SparkCatalog",  # the same, with the default: 30 seconds
        "spark.sql.catalog.kept.type": "hadoop",
        "spark.sql.catalog.kept.warehouse": str(folder / "warehouse"),
    }


def table(kind: str, folder: Path, name: str) -> str:
    """Return the name by which Spark finds a table, also after a restart."""
    return f"delta.`{folder / 'warehouse' / name}`" if kind == "delta" else f"lake.db.{name}"


def write_chains(folder: Path, *, accounts: int, length: int, files: int, seed: int) -> None:
    """Write chains of messages as JSON lines, each file one micro-batch."""
    random = Random(f"chains {seed}")
    rows = [
        {"account": f"a{account}", "message": f"a{account}-{number}",
         "depends_on": f"a{account}-{number - 1}" if number else None, "number": number}
        for number in range(length) for account in range(accounts)
    ]  # fmt: skip
    rows.sort(key=lambda row: int(str(row["number"])) + random.random() * length / files * 1.5)
    (folder / "in").mkdir(parents=True)
    size = -(-len(rows) // files)
    for place in range(files):
        some = [row | {"arrival": n} for n, row in enumerate(rows)][place * size : (place + 1) * size]
        (folder / "in" / f"{place:03}.json").write_text("".join(json.dumps(row) + "\n" for row in some))


def start(spark: Any, kind: str, folder: Path, mode: Any) -> Any:
    """Start a stream that ends with what is there."""
    from thence.spark import deliver, into_table

    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    ordered = deliver(source, "depends_on", key=["account"])
    return into_table(
        ordered, table(kind, folder, mode), mode=mode, format=kind, checkpoint=folder / f"checkpoint-{mode}",
        trigger={"availableNow": True},
    )  # fmt: skip


def check(spark: Any, kind: str, folder: Path, mode: str, *, accounts: int, length: int) -> dict[str, int]:
    """Count rows that are lost, doubled or out of order."""
    rows = spark.table(table(kind, folder, mode)).select("account", "message", "position").collect()
    positions: dict[str, list[tuple[int, str]]] = {}
    for row in rows:
        positions.setdefault(row["account"], []).append((row["position"], row["message"]))
    expected = {f"a{account}": [f"a{account}-{n}" for n in range(length)] for account in range(accounts)}
    found = {account: [message for _, message in sorted(own)] for account, own in positions.items()}
    messages = [row["message"] for row in rows]
    return {
        "rows": len(rows),
        "lost": accounts * length - len(set(messages)),
        "doubled": len(messages) - len(set(messages)),
        "out of order": sum(found.get(account) != own for account, own in expected.items()),
    }


def merge_a_batch(spark: Any, kind: str, folder: Path) -> None:
    """Merge all arrivals again, as a batch."""
    from thence.spark import deliver, into_table

    ordered = deliver(spark.read.schema(SCHEMA).json(str(folder / "in")), "depends_on", key=["account"])
    into_table(ordered, table(kind, folder, "merge"), mode="merge")
    into_table(ordered.selectExpr("*", "'last' AS kind"), table(kind, folder, "newest"), mode="merge", on=["kind"],
               format=kind)  # fmt: skip


def other_stream(spark: Any, kind: str, folder: Path, name: str, on: list[str]) -> str:
    """Merge rows that are not in a table by a stream with a checkpoint of its own; return why that fails."""
    write_others(folder / "other")
    records = spark.readStream.schema(SCHEMA).json(str(folder / "other"))
    return _refused(spark, kind, folder, name, on, records, folder / f"checkpoint-other-{name}")


def other_batch(spark: Any, kind: str, folder: Path, name: str, on: list[str]) -> str:
    """Merge the same rows as a batch; return why that fails."""
    return _refused(spark, kind, folder, name, on, spark.read.schema(SCHEMA).json(str(folder / "other")))


def write_others(folder: Path) -> None:
    """Write messages of an account that the chains have, none of theirs."""
    folder.mkdir(exist_ok=True)
    rows = [{"account": "a0", "message": f"other-{number}", "arrival": number} for number in range(2)]
    (folder / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _refused(
    spark: Any, kind: str, folder: Path, name: str, on: list[str], records: Any, checkpoint: Path | None = None
) -> str:
    from thence.spark import deliver, into_table

    ordered = deliver(records, "depends_on", key=["account"]).selectExpr("*", *["'last' AS kind"][: len(on)])
    trigger = None if checkpoint is None else {"availableNow": True}
    try:
        query = into_table(
            ordered, table(kind, folder, name), mode="merge", on=on, checkpoint=checkpoint, trigger=trigger
        )
        if query is not None:
            query.awaitTermination()
    except Exception as error:
        return str(error)
    return "written"


def newest_rows(spark: Any, kind: str, folder: Path) -> dict[str, str]:
    """Return the message that stands for each account in the table of newest rows."""
    return {row["account"]: row["message"] for row in spark.table(table(kind, folder, "newest")).collect()}


def delivered_changes(spark: Any, kind: str, folder: Path) -> list[tuple[str, str, int]]:
    """Deliver the rows that were inserted into a table of arrivals, effects before causes: as its change feed has them.

    Delta's feed is read as a stream, Iceberg's, which is none, as a batch.
    """
    from thence.spark import deliver, into_table

    names = ("arrivals", "changes")  # Delta reads a feed as a stream by the name that a catalog gives it
    name, out = names if kind == "delta" else (table(kind, folder, each) for each in names)
    feed = " TBLPROPERTIES (delta.enableChangeDataFeed = true)" if kind == "delta" else ""
    spark.sql(f"CREATE TABLE {name} ({SCHEMA.replace(' string', ' STRING')}) USING {kind}{feed}")
    for row in ("'a', 'a2', 'a1', 1", "'a', 'a3', 'a2', 2", "'a', 'a1', null, 3"):
        spark.sql(f"INSERT INTO {name} VALUES ({row})")
    if kind == "delta":
        changes = spark.readStream.option("readChangeFeed", "true").option("startingVersion", 0).table(name)
    else:
        changes = spark.table(f"{name}.changes")
    inserted = changes.where("lower(_change_type) = 'insert'")
    ordered = deliver(inserted, "depends_on", key=["account"])
    query = into_table(ordered, out, format=kind, checkpoint=folder / "checkpoint-changes",
                       trigger={"availableNow": True} if kind == "delta" else None)  # fmt: skip
    if query is not None:
        query.awaitTermination()
    rows = spark.table(out).orderBy("position").collect()
    return [(row["account"], row["message"], row["position"]) for row in rows]


def main(kind: str, folder: Path) -> None:
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    from support.deliveries import run_to_the_end

    from thence.spark import local_session

    spark = local_session(quick=True, conf=settings(kind, folder))
    if not sys.stdin.readline():
        return
    run_to_the_end({mode: partial(start, spark, kind, folder, mode) for mode in STREAMS})
    told = json.loads((folder / "chains.json").read_text())
    counted = {mode: check(spark, kind, folder, mode, **told) for mode in STREAMS}
    (folder / "counted.json").write_text(json.dumps(counted))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
