"""Tables of Delta and Iceberg, filled by `into_table` in a process that is killed in mid-commit, again and again.

Append and MERGE run side by side; each kill ends both, at a commit of one and of the other in turn.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
from support.lake import FORMAT_OF, STREAMS, write_chains
from support.soak import keep

ROOT = Path(__file__).parents[2]
KILLS, SEED = 20, 1
CHAINS = {"accounts": 8, "length": 60}
COMMITS = {"delta": "_delta_log/*.json", "iceberg": "metadata/v*.metadata.json"}


def data(table: Path) -> set[Path]:
    return {file for file in table.rglob("*.parquet") if file.parent.name != "_delta_log"}


def run_and_kill(command: list[str], kind: str, table: Path, delay: float) -> bool | None:
    """Kill the job when its next data file appears; return whether its commit was missing, None if the job ended."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])}
    before = data(table)
    job = subprocess.Popen(
        command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while job.poll() is None:
            known = set(table.glob(COMMITS[kind]))
            if delay >= 0 and data(table) - before:
                time.sleep(delay)
                return set(table.glob(COMMITS[kind])) == known
            time.sleep(0.005)
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    assert job.returncode == 0
    return None


@pytest.mark.parametrize(("version", "kind"), FORMAT_OF.items())
def test_a_table_has_every_row_once_and_in_order_however_often_the_job_is_killed(
    version: str, kind: str, tmp_path: Path
) -> None:
    python = ROOT / f".venv-spark-{version}" / "bin" / "python"
    assert python.exists(), "make spark-versions makes the environments"
    folder = tmp_path / "lake"
    write_chains(folder, files=2 * KILLS, seed=SEED, **CHAINS)
    (folder / "chains.json").write_text(json.dumps(CHAINS))
    random, uncommitted = Random(f"kills {SEED}"), dict.fromkeys(STREAMS, 0)
    command = [str(python), str(ROOT / "tests" / "support" / "lake.py"), kind, str(folder)]
    killed = dict.fromkeys(STREAMS, 0)
    while sum(killed.values()) < KILLS:
        mode = min(STREAMS, key=lambda each: killed[each])
        table = folder / "warehouse" / mode if kind == "delta" else folder / "warehouse" / "db" / mode
        missing = run_and_kill(command, kind, table, random.choice([0, random.uniform(0, 0.4)]))
        assert missing is not None, f"the job ended after {killed} kills"
        killed[mode] += 1
        uncommitted[mode] += missing
        print(killed, uncommitted, file=sys.stderr, flush=True)
    assert run_and_kill(command, kind, folder, -1) is None
    counted = json.loads((folder / "counted.json").read_text())
    for mode, counts in counted.items():
        row = counts | {"kills": KILLS, "kills at its commit": killed[mode], "before it": uncommitted[mode]}
        row |= {"spark": version, "seed": SEED}
        keep("lakehouse", f"{kind} {mode}", row)
    wrong = {"lost": 0, "doubled": 0, "out of order": 0}
    assert {mode: {name: counts[name] for name in wrong} for mode, counts in counted.items()} == dict.fromkeys(
        STREAMS, wrong
    )
