"""kill -9 in mid-batch, again and again: the sink shows what an undisturbed run shows, order included."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import stream_job
from support.arrivals import Arrivals
from support.tables_of_arrivals import comparable, many, rows_of

from thence import Orderer

FILES = 6
RESULT = Path(__file__).parents[3] / "benchmarks" / "soak" / "results" / "kills.json"
ARROW = pa.schema(
    [
        ("run", pa.string()),
        ("destination", pa.string()),
        ("arrival", pa.int64()),
        ("message", pa.string()),
        ("sender", pa.string()),
        ("time", pa.float64()),
        ("payload", pa.struct([("text", pa.string()), ("place", pa.int64())])),
        ("stamp", pa.binary()),
        ("clock", pa.map_(pa.string(), pa.int64())),
        ("depends_on", pa.list_(pa.string())),
    ]
)


def prepare(folder: Path, runs: list[Arrivals], files: int) -> list[dict[str, Any]]:
    rows = rows_of(runs)
    (folder / "in").mkdir(parents=True)
    for part in range(files):
        chunk = rows[part * len(rows) // files : (part + 1) * len(rows) // files]
        file = folder / "in" / f"{part:03}.parquet"
        pq.write_table(pa.Table.from_pylist(chunk, schema=ARROW), file)
        os.utime(file, (1_700_000_000 + part, 1_700_000_000 + part))
    (folder / "roster.json").write_text(json.dumps(list(runs[0].roster.names)))
    return rows


def start(folder: Path) -> subprocess.Popen[bytes]:
    log = (folder / "log").open("ab")
    command = [sys.executable, stream_job.__file__, str(folder)]
    return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def kill_in_mid_batch(folder: Path, rng: Random) -> bool:
    """Start the job, wait for a micro-batch that is new, a moment longer, and kill the whole family before it commits.

    Tell whether that was done; the job may be too quick.
    """
    offsets, commits = folder / "checkpoint" / "offsets", folder / "checkpoint" / "commits"
    batch = len(list(offsets.glob("[0-9]*")))
    moment = rng.random() / 2
    job = start(folder)
    while job.poll() is None:
        if (offsets / str(batch)).exists():
            time.sleep(moment)
            if not (commits / str(batch)).exists():
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()
                if not (commits / str(batch)).exists():
                    print(f"killed in micro-batch {batch}, {moment:.2f} s after it began")
                    return True
            batch += 1
        time.sleep(0.01)
    return False


def check(folder: Path, runs: list[Arrivals], rows: list[dict[str, Any]], spark: Any) -> None:
    orderer = Orderer("stamp", roster=runs[0].roster)
    ours = [out for row in rows for out in orderer.push(row)]
    read = spark.read.parquet(str(folder / "out")).collect()
    assert comparable(row.asDict(recursive=True) for row in read) == comparable(ours)


def crash(folder: Path, kills: int, seed: int, files: int, spark: Any) -> int:
    """Kill and restart; return how many kills were in mid-batch."""
    rng = Random(seed)
    print(f"seed {seed}")
    runs = many("stamp", [seed, seed + 1], messages=60)
    rows = prepare(folder, runs, files)
    cut = sum(kill_in_mid_batch(folder, rng) for _ in range(kills))
    job = start(folder)
    assert job.wait() == 0, (folder / "log").read_text()[-3000:]
    check(folder, runs, rows, spark)
    return cut


@pytest.mark.timeout(400)
def test_a_kill(tmp_path: Path, spark: Any) -> None:
    assert crash(tmp_path, kills=1, seed=1, files=3, spark=spark) == 1


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_twenty_kills(tmp_path: Path, spark: Any) -> None:
    hit, round_ = 0, 0
    while hit < 20:
        hit += crash(tmp_path / str(round_), kills=5, seed=10 + round_, files=FILES, spark=spark)
        round_ += 1
    RESULT.write_text(
        json.dumps({"kills in mid-batch": hit, "streams": round_, "first seed": 10, "equal": True}) + "\n"
    )
