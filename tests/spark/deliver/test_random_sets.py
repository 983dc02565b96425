"""Batch = stream = Orderer = an orderer written from docs/explanation/delivery-rule.md, on random sets."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from support.deliveries import run_stream
from support.naive_orderer import BYS, Naive, Row, arrivals, policies, told
from support.soak import keep

from thence import Orderer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETS = int(os.environ.get("THENCE_SETS", "1000"))
FIRST = int(os.environ.get("THENCE_SEED", "0"))
SCHEMA = (
    "run string, destination string, arrival long, n long, message string, sender string, time double, "
    "depends_on array<string>, clock map<string,long>"
)
ZONES = ("UTC", "America/New_York", "Asia/Kolkata", "Etc/UTC", "Australia/Lord_Howe")
A_FILE = 6
"""Rows of a key in one micro-batch."""


def named(rows: list[Row]) -> dict[str, list[Row]]:
    """Return what is said of the rows of each key, in the order in which they came."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["run"], []).append(told(row, {**row, "reason": row["reason"] or ""}))
    return {key: sorted(each, key=lambda row: row["n"]) for key, each in found.items()}


def by_definition(by: str, rows: list[Row], policy: dict[str, Any], key: str) -> list[Row]:
    naive = Naive(by, **policy)
    for row in rows:
        naive.push(row)
    return [said["row"] | {"reason": "", "run": key} | said for said in naive.finish()]


def agree(spark: SparkSession, folder: Path, by: Any, policy: dict[str, Any], seeds: range) -> Counter[str]:
    """Assert that all four agree; return how many rows had which outcome."""
    from thence.spark import deliver

    sets = {f"set-{seed}": arrivals(by, Random(seed)) for seed in seeds}
    naive = [row for key, rows in sets.items() for row in by_definition(by, rows, policy, key)]
    rows = [
        {"clock": None, "depends_on": None} | row | {"run": key, "arrival": row["n"]}
        for key, each in sets.items()
        for row in each
    ]
    wanted = named(naive)
    assert named(list(Orderer(by, **policy).deliver(rows))) == wanted
    table = spark.createDataFrame(rows, SCHEMA)
    batch = deliver(table, by, **policy)
    assert named([row.asDict(recursive=True) for row in batch.collect()]) == wanted
    for part in range(1 + max(row["n"] for row in rows) // A_FILE):
        file = table.where(f"n div {A_FILE} = {part}").coalesce(1)
        file.write.mode("append").parquet(str(folder / "in" / f"part={part}"))
        for made in (folder / "in" / f"part={part}").glob("*.parquet"):
            os.utime(made, (1_700_000_000 + part, 1_700_000_000 + part))
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "in" / "part=*"))
    run_stream(deliver(source, by, **policy), folder)
    stream = [row.asDict(recursive=True) for row in spark.read.parquet(str(folder / "out")).collect()]
    assert named(stream) == named([row for row in naive if row["outcome"] != "blocked"])
    return Counter(row["outcome"] for row in naive)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("kind", range(5))
@pytest.mark.parametrize("by", BYS)
def test_all_four_agree(spark: SparkSession, tmp_path: Path, by: str, kind: int) -> None:
    """THENCE_SETS sets of each kind of causes under each kind of policy, from seed THENCE_SEED on."""
    first = FIRST + SETS * (5 * BYS.index(by) + kind)
    policy = policies(Random(first))[kind]
    print(f"by {by}, {policy}, seeds {first} to {first + SETS - 1}")
    spark.conf.set("spark.sql.session.timeZone", ZONES[kind])
    try:
        outcomes = agree(spark, tmp_path, by, policy, range(first, first + SETS))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    row = {"sets": SETS, "seeds": [first, first + SETS - 1], "policy": policy, "zone": ZONES[kind]}
    keep("sets", f"{by}, {kind}", row | {"outcomes": dict(sorted(outcomes.items()))})
