"""A program: audit some runs in another kind of session and hold the result against the definition.

    python tests/spark/elsewhere.py local[1] [EVENT_LOG_FOLDER]
    python tests/spark/elsewhere.py local-cluster[2,1,1024]
    python tests/spark/elsewhere.py connect

Given a folder, one large run is audited and Spark's event log is left there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS))
os.environ["PYTHONPATH"] = os.pathsep.join(p for p in (os.environ.get("PYTHONPATH"), str(TESTS)) if p)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ["PYSPARK_PYTHON"] = sys.executable


def session(kind: str, log: str | None) -> Any:
    """Start a session of a kind."""
    from pyspark.sql import SparkSession

    from whence.java import find_java

    os.environ["JAVA_HOME"] = str(find_java().home)
    builder: Any = SparkSession.builder
    builder = builder.remote("local[2]") if kind == "connect" else builder.master(kind)
    settings = {
        "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g", "spark.executor.memory": "700m",
        "spark.log.level": "ERROR",
    }  # fmt: skip
    if log:
        settings |= {"spark.eventLog.enabled": "true", "spark.eventLog.dir": Path(log).as_uri(),
                     "spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false"}  # fmt: skip
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def main(kind: str, log: str | None = None) -> None:
    """Audit and compare."""
    from support.frames import check, expected, findings, frame, long_runs, small_runs
    from support.tables import as_found, normal
    from support.traces import Knobs, random_trace

    from whence.kernels.whole import judge
    from whence.spark import audit

    spark = session(kind, log)
    if log:
        events = random_trace(1, Knobs(processes=8, steps=12_000, late=0.05, again=0, astray=0, lost=0, crash=0))
        whole = as_found(judge(events[0].run, normal(events)).to_pylist())
        with audit(frame(spark, events), chunk_rows=2500) as result:
            check(findings(result), {events[0].run: whole})
        spark.stop()
        print("equal")
        return
    runs = [*small_runs(60), *long_runs(3)]
    with audit(frame(spark, [e for some in runs for e in some]), chunk_rows=300) as result:
        check(findings(result), expected(runs))
        assert result.paths(result.violations.limit(3)).count() == 3
    spark.stop()
    print("equal")


if __name__ == "__main__":
    main(*sys.argv[1:])
