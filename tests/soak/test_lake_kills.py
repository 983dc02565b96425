"""Delta under Spark 4.2 and Iceberg under 4.1, filled by append and by MERGE and killed in mid-commit.

Needs the environments that `make spark-versions` makes. In each round two streams of one process fill a table each; the
process is killed until their input is exhausted. THENCE_KILLS (20) kills in mid-commit of each format and mode, as far
as THENCE_MINUTES (8) go. Rows in benchmarks/soak/results/lake_kills.json; what is there counts.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from spark.deliver.kills import PATIENCE, Job
from support.soak import RESULTS, keep
from versions import lake

ROOT = Path(__file__).parents[2]
CHAINS, FILES = {"accounts": 4, "length": 15}, 6
KILLS, MINUTES = (float(os.environ.get(name, most)) for name, most in (("THENCE_KILLS", 20), ("THENCE_MINUTES", 8)))
VERSION_OF = {kind: version for version, kind in lake.FORMAT_OF.items()}
LOGS = {"delta": ("{}/_delta_log", "*.json"), "iceberg": ("db/{}/metadata", "v*.metadata.json")}
COMMITTED, CUT_OFF = "table committed, micro-batch not", "table not committed"


class Table:
    """One stream into a table, as the folders of its checkpoint and its table show it."""

    def __init__(self, kind: str, folder: Path, mode: str) -> None:
        self.mode, self.checkpoint = mode, folder / f"checkpoint-{mode}"
        where, self.pattern = LOGS[kind]
        self.log = folder / "warehouse" / where.format(mode)
        self.past = self.versions = 0

    def count(self, folder: str) -> int:
        return sum(each.name.isdigit() for each in (self.checkpoint / folder).glob("[0-9]*"))

    def look(self) -> bool:
        """Say whether the table has committed what the checkpoint has not."""
        committed, found = self.count("commits"), sum(1 for _ in self.log.glob(self.pattern))
        if committed != self.past or not committed:
            self.past, self.versions = committed, found
        return found > self.versions

    def stage(self) -> str:
        """Say how far the last micro-batch went."""
        after = self.look()
        if self.count("offsets") == self.count("commits"):
            return "between micro-batches"
        return COMMITTED if after else CUT_OFF


def killed(job: Job, tables: list[Table], random: Random) -> Counter[str] | None:
    """Kill a job in a micro-batch of one of its tables; None if it came to its end."""
    before = sum(each.count("commits") for each in tables)
    target = random.choice([each for each in tables if each.count("commits") < FILES] or tables)
    aim = random.choice(["table", "offsets"])
    enough, deadline, over = target.count("commits") + 1, time.monotonic() + PATIENCE, False
    while job.process.poll() is None and not over:
        assert time.monotonic() < deadline, job.folder / "log"
        after = [each.look() for each in tables][tables.index(target)]
        if target.count("commits") >= enough:
            over = target.count("offsets") > target.count("commits") and (after or aim == "offsets")
        time.sleep(0.002)
    if job.process.poll() is None:
        time.sleep(random.random() * (0.02 if aim == "table" else 1.5))
    if job.process.poll() is not None:
        return None
    job.kill()
    counted = Counter(f"{each.mode}: {each.stage()}" for each in tables)
    counted["kills"] += 1
    counted["micro-batches committed by killed processes"] += sum(each.count("commits") for each in tables) - before
    return counted


def a_round(kind: str, folder: Path, seed: int) -> dict[str, object]:
    random, counted = Random(seed), Counter[str]()
    lake.write_chains(folder, files=FILES, seed=seed, **CHAINS)
    (folder / "chains.json").write_text(json.dumps(CHAINS))
    tables = [Table(kind, folder, mode) for mode in lake.STREAMS]
    python = ROOT / f".venv-spark-{VERSION_OF[kind]}" / "bin" / "python"
    command = ["env", f"PYTHONPATH={ROOT / 'src'}", python, lake.__file__, kind, folder]
    jobs = [Job(folder, command)]
    try:
        while True:
            jobs[-1].go()
            jobs.append(Job(folder, command))  # it starts Spark while the other one works
            found = killed(jobs[-2], tables, random)
            if found is None:
                assert jobs[-2].ended()
                break
            counted.update(found)
            print(kind, seed, dict(counted), flush=True)
    finally:
        for job in jobs:
            job.kill()
    right = {"rows": CHAINS["accounts"] * CHAINS["length"], "lost": 0, "doubled": 0, "out of order": 0}
    assert json.loads((folder / "counted.json").read_text()) == dict.fromkeys(lake.STREAMS, right), seed
    assert counted["micro-batches committed by killed processes"] > 0
    return {"seed": seed, "tables": right, **dict(sorted(counted.items()))}


def in_mid_commit(kind: str, mode: str) -> int:
    file = RESULTS / "lake_kills.json"
    kept = json.loads(file.read_text()) if file.exists() else {}
    return sum(
        row.get(f"{mode}: {stage}", 0)
        for key, row in kept.items()
        if key.startswith(f"{kind}, ")
        for stage in (COMMITTED, CUT_OFF)
    )


@pytest.mark.parametrize("kind", VERSION_OF)
def test_tables_killed_in_mid_commit(tmp_path: Path, kind: str) -> None:
    end, seed = time.monotonic() + 60 * MINUTES / len(VERSION_OF), 1
    file = RESULTS / "lake_kills.json"
    while min(in_mid_commit(kind, mode) for mode in lake.STREAMS) < KILLS and time.monotonic() < end:
        while file.exists() and f"{kind}, seed {seed}" in json.loads(file.read_text()):
            seed += 1
        (folder := tmp_path / str(seed)).mkdir()
        keep("lake_kills", f"{kind}, seed {seed}", a_round(kind, folder, seed))
    assert min(in_mid_commit(kind, mode) for mode in lake.STREAMS) > 0
