"""Batch delivery against the same job with an identity function, and against a global sort by time.

    python benchmarks/deliver/batch.py [--rows 10000000] [--repeat 3]

Writes results/batch.json. Ratios are within one run; absolute times of the yardstick are printed with them.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import _data

HERE = Path(__file__).parent


def identity(table: Any) -> Any:
    """The same plan, with a function that hands its batches through."""
    import pyarrow as pa

    def same(key: Any, batches: Any) -> Any:
        yield from batches

    same.__annotations__ = {
        "key": tuple[pa.Scalar, ...],
        "batches": Iterator[pa.RecordBatch],
        "return": Iterator[pa.RecordBatch],
    }
    key = ["run", "destination"]
    ordered = table.repartition(*key).sortWithinPartitions(*key, "arrival", "message")
    return ordered.groupBy(*key).applyInArrow(same, table.schema)


def timed(job: Callable[[], Any]) -> float:
    start = time.perf_counter()
    job().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def main(rows: int, repeat: int, python_rows: int) -> dict[str, Any]:
    from thence.spark import deliver
    from thence.spark.session import local_session

    spark = local_session(conf={"spark.driver.memory": "4g"})
    with tempfile.TemporaryDirectory() as folder:
        table = _data.arrivals(spark, Path(folder), rows)
        jobs = {
            "identity": lambda: identity(table),
            "deliver": lambda: deliver(table, "stamp", roster=_data.ROSTER),
            "orderBy time": lambda: table.orderBy("time"),
        }
        small = _data.arrivals(spark, Path(folder), 64 * 1024)
        timed(lambda: deliver(small, "stamp", roster=_data.ROSTER))  # compile and warm up
        times: dict[str, list[float]] = {name: [] for name in jobs}
        for _ in range(repeat):
            for name, job in jobs.items():
                times[name].append(timed(job))
                print(f"{name}: {times[name][-1]:.1f} s", flush=True)
        counts = {
            row["outcome"]: row["count"]
            for row in deliver(small, "stamp", roster=_data.ROSTER).groupBy("outcome").count().collect()
        }
        held = deliver(small, "stamp", roster=_data.ROSTER).where("held_for > 0").count()
        few = _data.arrivals(spark, Path(folder), python_rows)
        slow = timed(lambda: deliver(few, "stamp", roster=_data.ROSTER, fast_from=1 << 40))
        yard = timed(lambda: identity(few))
    best = {name: min(each) for name, each in times.items()}
    result = {
        "rows": rows,
        "keys": _data.KEYS,
        "processes": _data.PROCESSES,
        "entries a stamp": _data.ENTRIES,
        "seconds": times,
        "median ratio deliver / identity": median(
            d / i for d, i in zip(times["deliver"], times["identity"], strict=True)
        ),
        "ratio of the best": best["deliver"] / best["identity"],
        "rows a second": {name: rows / each for name, each in best.items()},
        "outcomes of the small table": counts,
        "share of rows held": held / (64 * 1024),
        "pure Python engine": {"rows": python_rows, "seconds": slow, "ratio": slow / yard},
    }
    (HERE / "results" / "batch.json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--python-rows", type=int, default=200_000)
    told = parser.parse_args()
    main(told.rows, told.repeat, told.python_rows)
