"""A program: every operator on the Spark that is installed, in one JVM, against its twin in plain Python.

    python tests/versions/operators.py [lake]      all of it, or the lakehouse alone

The session serves Connect too, and a client in a process of its own tries batch and audit through it. Where there is a
lakehouse for this Spark, tables are filled and read back as arrivals.
"""

from __future__ import annotations

import json
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
    subprocess.run(command, check=True, timeout=600)


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
    newest = {f"a{n}": f"a{n}-{CHAINS['length'] - 1}" for n in range(3)}
    expect(lake.newest_rows(spark, kind, folder), newest)
    spark.sparkContext.setLogLevel("OFF")  # Spark would print the errors that are meant, here and in the last step
    for name, on in (("merge", []), ("newest", ["kind"])):  # by a new checkpoint, and as a batch
        for written in (lake.other_stream, lake.other_batch):
            failed = written(spark, kind, folder, name, on)
            assert "another checkpoint or batch has filled it" in failed, (name, failed)
    expect(lake.check(spark, kind, folder, "merge", **CHAINS), right)
    expect(lake.newest_rows(spark, kind, folder), newest)
    expect(lake.delivered_changes(spark, kind, folder), [("a", "a1", 1), ("a", "a2", 2), ("a", "a3", 3)])


def whole_transactions(spark: Any, kind: str, folder: Path) -> None:
    """Write whole transactions, cut off twice between the tables; what a reader sees is the source after a commit."""
    shop = whole.write_records(folder / "shop", commits=12, files=3)
    later = folder / "shop" / "in" / "2.parquet"
    later.rename(folder / "later")
    place = 0
    for number in (3, 4, 0):
        with whole.cut_off(number, whole.cut):
            failed = ended(whole.start(spark, kind, folder / "shop"))
        expect("Cut" in failed, number > 0)
        place = whole.reached(shop, whole.look(spark, kind, folder / "shop"), place)
        if kind == "iceberg":  # through a catalog that keeps tables, of which it has just forgotten the positions
            spark.sql("REFRESH TABLE kept.db.whole_positions")
            place = whole.reached(shop, whole.look(spark, kind, folder / "shop", "kept."), place)
    assert 0 < place < len(shop.states) - 1
    (folder / "later").rename(later)
    other_checkpoints(spark, kind, folder / "shop", shop, place)
    order = {"id": 1, "customer": 1, "total": 1}
    for after, reason in ((order | {"note": "new"}, "lacks the column note"), (order | {"total": "many"}, "MALFORMED")):
        found = whole.refused(spark, kind, folder / "shop", after)
        assert reason in found, found


def other_checkpoints(spark: Any, kind: str, folder: Path, shop: Any, place: int) -> None:
    """Begin again on tables that are filled: what would lose changes is refused, and what is offered loses none."""
    _, positions = whole.names(kind, folder)
    (row,) = spark.table(positions).collect()
    ends = [json.loads(each.value)["id"] for each in shop.records if '"END"' in (each.value or "")]
    later = int(ends[-2].partition(":")[2])  # the last transaction alone comes behind it
    for checkpoint, since in (("b", None), ("c", later)):
        failed = ended(whole.start(spark, kind, folder, checkpoint, since))
        assert f"up to {row['thence_since']}; with" in failed, (since, failed)
        expect(whole.reached(shop, whole.look(spark, kind, folder), place), place)
    for number in (2, 4, 0):  # cut off when the row of the earlier stream is closed, and before a table
        with whole.cut_off(number, whole.cut):
            failed = ended(whole.start(spark, kind, folder, "d", row["thence_since"]))
        expect("Cut" in failed, number > 0)
        place = whole.reached(shop, whole.look(spark, kind, folder), place)
    expect(place, len(shop.states) - 1)
    failed = ended(whole.start(spark, kind, folder))
    assert "a stream with another checkpoint goes on with shop" in failed, failed
    expect(whole.reached(shop, whole.look(spark, kind, folder), place), place)
    spark.sql(f"DELETE FROM {positions}")
    expect(ended(whole.start(spark, kind, folder, "e")), "")
    expect(whole.look(spark, kind, folder), shop.states[-1])


def ended(query: Any) -> str:
    """Wait for a stream; return why it failed, if it did."""
    try:
        query.awaitTermination()
    except Exception as error:
        return str(error)
    return ""


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
