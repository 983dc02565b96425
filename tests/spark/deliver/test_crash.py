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

from whence import Orderer

FILES = 6
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


def kill_in_mid_batch(job: subprocess.Popen[bytes], folder: Path, batch: int, rng: Random) -> bool:
    """Wait until that micro-batch has begun, a moment longer, and kill the whole family; tell whether it was alive."""
    offsets, commits = folder / "checkpoint" / "offsets" / str(batch), folder / "checkpoint" / "commits" / str(batch)
    while not offsets.exists() and job.poll() is None:
        time.sleep(0.01)
    time.sleep(rng.random())
    in_time = job.poll() is None
    unfinished = not commits.exists()
    if in_time:
        os.killpg(job.pid, signal.SIGKILL)
    job.wait()
    print(f"killed at micro-batch {batch}: alive {in_time}, in mid-batch {unfinished}")
    return in_time


def check(folder: Path, runs: list[Arrivals], rows: list[dict[str, Any]], spark: Any) -> None:
    orderer = Orderer("stamp", roster=runs[0].roster)
    ours = [out for row in rows for out in orderer.push(row)]
    read = spark.read.parquet(str(folder / "out")).collect()
    assert comparable(row.asDict(recursive=True) for row in read) == comparable(ours)


def crash(folder: Path, kills: int, seed: int, files: int, spark: Any) -> None:
    rng = Random(seed)
    print(f"seed {seed}")
    runs = many("stamp", [seed, seed + 1], messages=60)
    rows = prepare(folder, runs, files)
    for kill in range(kills):
        job = start(folder)
        if not kill_in_mid_batch(job, folder, 1 + kill % (files - 1), rng):
            break
    job = start(folder)
    assert job.wait() == 0, (folder / "log").read_text()[-3000:]
    check(folder, runs, rows, spark)


@pytest.mark.timeout(400)
def test_two_kills(tmp_path: Path, spark: Any) -> None:
    crash(tmp_path, kills=2, seed=1, files=4, spark=spark)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_twenty_kills(tmp_path: Path, spark: Any) -> None:
    for round_ in range(5):
        crash(tmp_path / str(round_), kills=4, seed=10 + round_, files=FILES, spark=spark)
