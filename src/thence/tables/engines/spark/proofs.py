"""The causal paths that prove violations, from the rows that the audit used: one task for each run, one pass in it.

Invariant: `paths(frame, violations, windowed)` returns every violation it was given, once, with `path`; null where the
rows do not bear it out. A run goes to its task whole, unless it was judged along its `order`: of such a run only the
rows that lie between the two sends of some violation asked for.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from thence.tables.judge.coded_rows import DELIVER, SEND
from thence.tables.judge.normal_table import completed
from thence.tables.judge.proof_path import PATH_TYPE, shortest_paths

STEP = "struct<process:string,index:bigint,kind:string,message:string>"
PROOFS_DDL = f"run string, destination string, early string, missing string, path array<{STEP}>"
KEY = ("run", "destination", "early", "missing")
WINDOWS = 200
"""This many violations of a run are looked up one by one; for more, all rows from the first to the last are taken."""
PROOFS_SCHEMA = pa.schema([*((name, pa.string()) for name in KEY), ("path", PATH_TYPE)])


def paths(frame: DataFrame, violations: DataFrame, windowed: set[str]) -> DataFrame:
    """Return the violations with the path that proves each, from the event columns of all rows."""
    asked = violations.select(*KEY).distinct()
    runs = asked.groupBy("run").agg(F.collect_list(F.struct("missing", "early", "destination")).alias("asked"))
    rows = frame.join(F.broadcast(runs.select("run")), ["run"], "left_semi")
    if windowed:
        rows = _between(rows, asked, windowed)
    proved = rows.groupBy("run").cogroup(runs.groupBy("run")).applyInArrow(_prove, PROOFS_DDL)
    return asked.join(proved, list(KEY), "left").select(*PROOFS_SCHEMA.names)


def _between(frame: DataFrame, asked: DataFrame, windowed: set[str]) -> DataFrame:
    """Return the rows of runs; of those judged along their `order`, only what lies between two sends asked for."""
    ends = asked.select("run", F.explode(F.array("missing", "early")).alias("message")).distinct()
    sends = frame.where(F.col("kind") == SEND).select("run", "message", "order")
    at = sends.join(F.broadcast(ends), ["run", "message"]).groupBy("run", "message").agg(F.min("order").alias("at"))
    first = at.select("run", F.col("message").alias("missing"), F.col("at").alias("low"))
    last = at.select("run", F.col("message").alias("early"), F.col("at").alias("high"))
    windows = asked.join(first, ["run", "missing"]).join(last, ["run", "early"]).groupBy("run")
    every, one = (
        F.collect_list(F.struct("low", "high")),
        F.array(F.struct(F.min("low").alias("low"), F.max("high").alias("high"))),
    )
    merged = windows.agg(F.when(F.count("low") <= WINDOWS, every).otherwise(one).alias("windows"))
    along = F.col("run").isin(*windowed)
    inside = F.exists("windows", lambda each: F.col("order").between(each["low"], each["high"]))
    near = frame.where(along & (F.col("kind") <= DELIVER)).join(F.broadcast(merged), ["run"]).where(inside)
    return near.select(*frame.columns).unionByName(frame.where(~along))


def _prove(rows: pa.Table, asked: pa.Table) -> pa.Table:
    """Return the paths of all violations asked for in one run."""
    (violations,) = asked.column("asked").to_pylist()
    run = asked.column("run")[0].as_py()
    found = shortest_paths(completed(rows), [(each["missing"], each["early"]) for each in violations])
    proved = [{"run": run, **each, "path": path} for each, path in zip(violations, found, strict=True)]
    return pa.Table.from_pylist(proved, schema=PROOFS_SCHEMA)
