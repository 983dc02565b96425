"""A program: every operator on the Spark that is installed, in one JVM, against its twin in plain Python.

    python tests/versions/operators.py [lake]      all of it, or the lakehouse alone

The session serves Connect too, and a client in a process of its own tries batch and audit through it. Where there is a
lakehouse for this Spark, tables are filled and read back as arrivals.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "spark")]
os.environ["PYTHONPATH"] = os.pathsep.join(p for p in (os.environ.get("PYTHONPATH"), str(TESTS)) if p)

import elsewhere  # noqa: E402
import pyspark  # noqa: E402
from support.processes import free_ports  # noqa: E402
from versions import lake  # noqa: E402
from versions import whole_transactions as whole  # noqa: E402

CHAINS = {"accounts": 3, "length": 12}


def reshards(spark: Any) -> None:
    """Go on with another number of shards after the first of two micro-batches, rows being held."""
    from support.deliveries import SCHEMA, comparable, many, rows_of, run_stream, write_files

    from thence import Orderer
    from thence.spark import deliver, reshard, waiting_in_stream

    runs = many("depends_on", [3], messages=40)
    rows = rows_of(runs)
    orderer = Orderer("depends_on")
    half = len(rows) // 2
    with tempfile.TemporaryDirectory() as here:
        folder, out = Path(here), []
        for part, checkpoint, shards in ((rows[:half], "two", 2), (rows[half:], "three", 3)):
            if checkpoint == "three":
                assert waiting_in_stream(spark, folder / "two").count() == len(orderer.waiting()) > 0
                expect(reshard(spark, folder / "two", folder / "three", shards=3), 3)
            (folder / "in" / checkpoint).mkdir(parents=True)
            write_files(spark, part, folder / "in" / checkpoint, 1)
            source = spark.readStream.schema(SCHEMA).parquet(str(folder / "in" / "*" / "*.parquet"))
            run_stream(deliver(source, "depends_on", shards=shards), folder, checkpoint)
            out += [row for each in part for row in orderer.push(each)]
        found = spark.read.parquet(str(folder / "out")).collect()
        assert comparable(row.asDict(recursive=True) for row in found) == comparable(out)


def through_connect(port: int) -> None:
    """Run batches and audits as a client of Connect."""
    command = [sys.executable, str(TESTS / "spark" / "elsewhere.py"), f"sc://127.0.0.1:{port}"]
    subprocess.run(command, check=True, timeout=200)


def lakehouse(spark: Any, kind: str, folder: Path) -> None:
    """Fill tables by append and by MERGE, twice; then deliver what changed in a table of arrivals."""
    lake.write_chains(folder, files=2, seed=1, **CHAINS)
    for mode in (*lake.STREAMS, "merge"):  # the second MERGE finds its checkpoint done
        lake.start(spark, kind, folder, mode).awaitTermination()
    right = {"rows": 36, "lost": 0, "doubled": 0, "out of order": 0}
    for mode in lake.STREAMS:
        expect(lake.check(spark, kind, folder, mode, **CHAINS), right)
    lake.merge_a_batch(spark, kind, folder)
    expect(lake.check(spark, kind, folder, "merge", **CHAINS), right)
    expect(lake.newest_rows(spark, kind, folder), {f"a{n}": f"a{n}-{CHAINS['length'] - 1}" for n in range(3)})
    expect(lake.delivered_changes(spark, kind, folder), [("a", "a1", 1), ("a", "a2", 2), ("a", "a3", 3)])


def whole_transactions(spark: Any, kind: str, folder: Path) -> None:
    """Write whole transactions, cut off twice between the tables; what a reader sees is the source after a commit."""
    spark.sparkContext.setLogLevel("OFF")  # Spark would print the errors that are meant; this is the last step
    shop = whole.write_records(folder / "shop", commits=8, files=2)
    place = 0
    for number in (3, 4, 0):
        with whole.cut_off(number, whole.cut):
            query = whole.start(spark, kind, folder / "shop")
            failed = ""
            try:
                query.awaitTermination()
            except Exception as error:
                failed = str(error)
        expect("Cut" in failed, number > 0)
        place = whole.reached(shop, whole.look(spark, kind, folder / "shop"), place)
        if kind == "iceberg":  # through a catalog that keeps tables, of which it has just forgotten the positions
            spark.sql("REFRESH TABLE kept.db.whole_positions")
            place = whole.reached(shop, whole.look(spark, kind, folder / "shop", "kept."), place)
    expect(place, len(shop.states) - 1)
    order = {"id": 1, "customer": 1, "total": 1}
    for after, reason in ((order | {"note": "new"}, "lacks the column note"), (order | {"total": "many"}, "MALFORMED")):
        found = whole.refused(spark, kind, folder / "shop", after)
        assert reason in found, found


def expect(found: object, wanted: object) -> None:
    """Say what was found where it is not what was wanted: no pytest runs here."""
    assert found == wanted, f"{found}, not {wanted}"


TRIED = (elsewhere.audits, elsewhere.delivers, elsewhere.streams, reshards)


def main() -> None:
    from thence.spark import local_session

    kind = lake.FORMAT_OF.get(".".join(pyspark.__version__.split(".")[:2]))
    with tempfile.TemporaryDirectory() as here:
        (port,) = free_ports(1)
        served = {
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.port": port,
        }
        conf = elsewhere.INTERPRETED | served | (lake.settings(kind, Path(here)) if kind else {})
        spark = local_session(cores=2, quick=True, conf=conf)
        for tried in () if sys.argv[1:] == ["lake"] else TRIED:
            tried(spark)
            print(tried.__name__, "equal", flush=True)
        if sys.argv[1:] != ["lake"]:
            through_connect(port)
        if kind:
            lakehouse(spark, kind, Path(here))
            whole_transactions(spark, kind, Path(here))
            print(kind, "equal", flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
