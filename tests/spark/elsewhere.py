"""A program: every operator in another kind of session, held against its twin in plain Python.

    python tests/spark/elsewhere.py connect EVENT_LOG_FOLDER
    python tests/spark/elsewhere.py "connect streams"
    python tests/spark/elsewhere.py local[1]
    python tests/spark/elsewhere.py local-cluster[2,1,1024]
    python tests/spark/elsewhere.py sc://127.0.0.1:PORT     a server that runs already

One program for all operators, because starting such a session takes far longer than what is tried in it. The server of
Connect that is started here has one core.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS))
os.environ["PYTHONPATH"] = os.pathsep.join(p for p in (os.environ.get("PYTHONPATH"), str(TESTS)) if p)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ["PYSPARK_PYTHON"] = sys.executable

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""an early start, for the price of slow long work"""
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""as in conftest.py"""
GRID = "[grid]\nprotocol = ['ks', 'rst']\nprocesses = [3, 5]\nmessages = 40\nseed = 1\n"


def session(kind: str, log: str | None) -> Any:
    """Start a session of a kind, which leaves Spark's event log in a folder if one is named."""
    from pyspark.sql import SparkSession

    from thence.tables.engines.spark.java import find_java

    os.environ["JAVA_HOME"] = str(find_java().home)
    builder: Any = SparkSession.builder
    if kind.startswith("sc:"):
        return builder.remote(kind).getOrCreate()
    if kind.startswith("connect"):
        os.environ["SPARK_TESTING"] = "1"  # any free port: the default one may be taken
        builder = builder.remote("local[1]")
    else:
        builder = builder.master(kind)
    settings = {
        "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g", "spark.executor.memory": "700m",
        "spark.log.level": "ERROR", "spark.driver.extraJavaOptions": QUICK, "spark.executor.extraJavaOptions": QUICK,
        "spark.python.authenticate.socketTimeout": "600s",
    }  # fmt: skip
    settings |= INTERPRETED
    if log is not None:
        settings |= {"spark.eventLog.enabled": "true", "spark.eventLog.dir": Path(log).as_uri(),
                     "spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false"}  # fmt: skip
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def audit_one_large(spark: Any) -> None:
    """Audit one run of 12,000 events in chunks; where its rows lie tells nothing."""
    from support.tables import as_found, check, findings, frame, normal
    from support.traces import Knobs, random_trace

    from thence.spark import audit
    from thence.tables.judge.whole_run import judge_run

    events = random_trace(1, Knobs(processes=8, steps=12_000, late=0.05, again=0, astray=0, lost=0, crash=0))
    whole = as_found(judge_run(events[0].run, normal(events)).to_pylist())
    with audit(frame(spark, events), chunk_rows=2500) as result:
        check(findings(result), {events[0].run: whole})


def audits(spark: Any) -> None:
    """Audit many runs, and prove some violations."""
    from support.tables import check, expected, findings, frame, long_runs, small_runs

    from thence.spark import audit

    runs = [*small_runs(6), *long_runs(1)]
    with audit(frame(spark, [e for some in runs for e in some]), chunk_rows=300) as result:
        check(findings(result), expected(runs))
        assert result.paths(result.violations.limit(3)).count() == 3


def delivers(spark: Any) -> None:
    """Deliver, ask what waits, and stamp."""
    from support.deliveries import SCHEMA, comparable, many, rows_of

    from thence import Orderer
    from thence.spark import deliver, stamp, waiting, with_rosters

    runs = many("stamp", [2, 3], messages=60)
    rows, roster = rows_of(runs), runs[0].roster
    ours = list(Orderer("stamp", roster=roster).deliver(rows))
    ordered = deliver(with_rosters(spark.createDataFrame(rows, SCHEMA), list(roster.names)), "stamp")
    assert comparable(row.asDict(recursive=True) for row in ordered.collect()) == comparable(ours)
    assert waiting(ordered).count() == sum(row["outcome"] == "blocked" for row in ours) > 0
    events = spark.createDataFrame(
        [("r", "a", 1, "send", "a1", ["b"]), ("r", "b", 1, "deliver", "a1", None), ("r", "b", 2, "send", "b1", ["c"])],
        "run string, process string, index long, kind string, message string, destinations array<string>",
    )
    assert stamp(events).count() == 2


def streams(spark: Any) -> None:
    """Deliver a stream in three micro-batches, and ask what waits in its checkpoint."""
    from support.deliveries import SCHEMA, comparable, many, rows_of, run_stream, write_files

    from thence import Orderer
    from thence.spark import deliver, waiting_in_stream
    from thence.tables.engines.spark.stream import PROVIDER, ROCKSDB

    spark.conf.set(PROVIDER, ROCKSDB)
    runs = many("stamp", [3], messages=40)
    rows, roster = rows_of(runs), runs[0].roster
    orderer = Orderer("stamp", roster=roster)
    ours = [out for row in rows for out in orderer.push(row)]
    with tempfile.TemporaryDirectory() as here:
        folder = Path(here)
        (folder / "in").mkdir()
        write_files(spark, rows, folder / "in", 3)
        files = str(folder / "in" / "*.parquet")
        source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(files)
        query = run_stream(deliver(source, "stamp", roster=roster), folder)
        assert query.lastProgress["batchId"] == 2
        out = spark.read.parquet(str(folder / "out")).collect()
        assert comparable(row.asDict(recursive=True) for row in out) == comparable(ours)
        shown = {row["message"] for row in waiting_in_stream(spark, folder / "checkpoint").collect()}
        assert shown == {row["message"] for row in orderer.waiting()} != set()


def refuses_streams(spark: Any) -> None:
    """See a stream refused with a sentence where Connect has no stateful step."""
    from thence.errors import MisuseError
    from thence.spark import deliver

    with tempfile.TemporaryDirectory() as here:
        rows = spark.readStream.schema("message string, depends_on array<string>, destination string").parquet(here)
        said = "accepted"
        try:
            deliver(rows, "depends_on", key=["destination"])
        except MisuseError as refusal:
            said = str(refusal)
    assert "from Spark 4.1 on" in said, said


def through_connect(spark: Any) -> tuple[Any, ...]:
    """Return what is tried by a client of Connect, which has stateful streams from Spark 4.1 on."""
    stateful = hasattr(type(spark.range(1).groupBy()), "transformWithStateInPandas")
    return (audits, delivers) if stateful else (audits, delivers, refuses_streams)


def sources(spark: Any) -> None:
    """Read foreign records as tables, in a zone that is not UTC, with timestamps that have none by default."""
    from support import shown_sources

    settings = {"spark.sql.session.timeZone": "America/New_York", "spark.sql.timestampType": "TIMESTAMP_NTZ"}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    shown_sources.tables(spark)
    for name, value in before.items():
        spark.conf.set(name, value)


def streamed_sources(spark: Any) -> None:
    """Read foreign records as streams, and deliver some."""
    from support import shown_sources

    with tempfile.TemporaryDirectory() as here:
        shown_sources.streams(spark, Path(here))


def costs(spark: Any) -> None:
    """Replay a run through two protocols."""
    import pyarrow as pa

    from thence.lab.simulator import Scenario, simulate
    from thence.tables.contract.row_validity import row_of
    from thence.tables.contract.spark_to_arrow_types import arrow_schema
    from thence.tables.costing import replay_run
    from thence.tables.costing.replay import Cost
    from thence.tables.engines.spark.cost import cost

    run = simulate(Scenario(processes=4, messages=200), trace=True, measure=False)
    table = pa.Table.from_pylist([row_of(event) for event in run.events], schema=arrow_schema())
    with cost(spark.createDataFrame(table), ["ks", "bss"]) as result:
        found = {row["protocol"]: row.asDict() for row in result.costs.collect()}
        assert result.recommendation.protocol == "ks"
    for name, row in found.items():
        assert replay_run(run.events, name, run.scenario.roster) == Cost(**{key: row[key] for key in Cost.__slots__}), (
            name
        )


def sweeps(spark: Any) -> None:
    """Sweep four scenarios; the files are those of a plain loop, byte for byte."""
    from thence.lab.sweep.driver import sweep
    from thence.lab.sweep.grid import parse_grid
    from thence.lab.sweep.task import ResultStore, run_one

    def files(folder: str) -> dict[str, bytes]:
        found = [path for what in ("results", "traces") for path in Path(folder, what).rglob("*.parquet")]
        return {str(path.relative_to(folder)): path.read_bytes() for path in found}

    grid = parse_grid(GRID)
    with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there:
        assert sweep(spark, grid, there, traces=True).results.count() == 4
        for each in grid.scenarios:
            spec = json.dumps(each.scenario.row())
            run_one(ResultStore(here), each.id, spec, traces=True, warmup=grid.warmup, batches=grid.batches)
        assert files(here) == files(there)
        assert len(files(here)) == 8


def main(kind: str, log: str | None = None) -> None:
    """Try everything that belongs to a kind of session."""
    spark = session(kind, log)
    kinds = {
        "connect": (audit_one_large, audits, delivers, costs, sources),
        "connect streams": (streams, streamed_sources),
    }
    here = kinds.get(kind, (audits, delivers, streams, sweeps))
    for tried in through_connect(spark) if kind.startswith("sc:") else here:
        tried(spark)
        print(tried.__name__, "equal", flush=True)
    spark.stop()
    print("equal")


if __name__ == "__main__":
    main(*sys.argv[1:])
