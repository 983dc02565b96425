"""The commands of docs/how-to/cluster.md, as they stand there, on a standalone cluster that loses a worker meanwhile.

Run in an environment that has Spark but not the package, so that the workers can have it only by what is shipped.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import thence

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "cluster"
DATA, PURE, PACKED, STOP = re.findall(
    r"^```sh\n(.*?)^```$", (ROOT / "docs" / "how-to" / "cluster.md").read_text(), re.MULTILINE | re.DOTALL
)

pytestmark = pytest.mark.timeout(600)


def shell(block: str) -> subprocess.Popen[bytes]:
    """Start a block of the page."""
    paths = [str(Path(sys.prefix) / "bin"), str(ROOT / ".venv" / "bin"), os.environ["PATH"]]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    return subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=ROOT, env=clean | {"PATH": os.pathsep.join(paths), "SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip


@pytest.fixture
def cluster() -> Iterator[None]:
    shutil.rmtree(WORK, ignore_errors=True)
    try:
        assert shell(DATA).wait() == 0
        yield
    finally:
        assert shell(STOP).wait() == 0
        assert not (WORK / "standalone" / "pids").exists()


def run_and_kill_a_worker(block: str, out: Path) -> None:
    """Run a block of the page, and kill a worker with its executor as soon as the delivery is being written."""
    job = shell(block)
    try:
        while not (out / "ordered" / "_temporary").exists():
            assert job.poll() is None, "the job ended before it wrote anything"
            time.sleep(0.02)
        assert shell(STOP.strip() + " worker-1").wait() == 0
        assert not (out / "ordered" / "_SUCCESS").exists()
        assert job.wait() == 0
    finally:
        if job.poll() is None:
            job.kill()


def check(out: Path) -> None:
    """Compare every row with what one process finds."""
    columns = ["destination", "position", "message", "outcome", "reason"]
    ours = thence.deliver(str(WORK / "arrivals.parquet"), "stamp").select(columns)
    found = pq.read_table(out / "ordered", columns=columns)
    assert len(found) == len(ours) > 90_000
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, ours.to_pylist()))
    audited = thence.audit(str(WORK / "events.parquet"))
    known = {(row["destination"], row["missing"], row["early"]) for row in audited.violations}
    listed = {
        (row["destination"], row["missing"], row["early"]) for row in pq.read_table(out / "violations").to_pylist()
    }
    assert listed == known != set()
    said = json.loads((out / "result.json").read_text())
    assert said == {"verdict": audited.verdict, "violations": len(known)}


def test_the_pure_wheel_is_enough_and_a_worker_may_die(cluster: None) -> None:
    run_and_kill_a_worker(PURE, WORK / "out-pure")
    check(WORK / "out-pure")


@pytest.mark.soak
def test_a_packed_environment_is_enough_and_a_worker_may_die(cluster: None) -> None:
    run_and_kill_a_worker(PACKED, WORK / "out-packed")
    check(WORK / "out-packed")
