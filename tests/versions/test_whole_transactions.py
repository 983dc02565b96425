"""A writer of whole transactions that is killed: whatever a reader sees is the source after some commit.

Ten kills, in the environment of each Spark that has a lakehouse; rows in benchmarks/soak/results/lakehouse_whole.json:

    THENCE_SPARK=4.2 PYTHONPATH=src .venv-spark-4.2/bin/python -m pytest -m soak tests/versions
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pyspark
import pytest
from support.processes import kill_family
from support.soak import keep
from versions import lake, whole_transactions

ROOT = Path(__file__).resolve().parents[2]
KIND = lake.FORMAT_OF.get(".".join(pyspark.__version__.split(".")[:2]))


@pytest.mark.soak
@pytest.mark.parametrize("kind", [KIND] if KIND else [])
def test_a_killed_writer_leaves_the_tables_at_a_commit(tmp_path: Path, kind: str) -> None:
    kills = int(os.environ.get("THENCE_KILLS", "10"))
    shop = whole_transactions.write_records(tmp_path, commits=40, files=5)
    random, killed = Random(7), 0
    while killed < kills and run(kind, tmp_path, random.randint(1, 6)):
        killed += 1
    assert killed > 2  # it may have written everything before the last kill
    assert run(kind, tmp_path, 0) == 0
    states = [
        {table: {int(number): row for number, row in rows.items()} for table, rows in json.loads(line).items()}
        for line in (tmp_path / "seen.json").read_text().splitlines()
        if line.endswith("}")
    ]
    least = 0
    for state in states:
        least = whole_transactions.reached(shop, state, least)
    assert states[-1] == shop.states[-1]
    between = len({json.dumps(state, sort_keys=True) for state in states})
    keep("lakehouse_whole", f"{kind}, Spark {pyspark.__version__}", {
        "kills": killed, "states seen": len(states), "distinct": between, "commits": len(shop.states), "wrong": 0,
    })  # fmt: skip


def run(kind: str, folder: Path, number: int) -> int:
    """Run the writer, which is killed at a MERGE or ends; return its exit code."""
    command = [sys.executable, whole_transactions.__file__, kind, str(folder), str(number)]
    writer = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, start_new_session=True)
    try:
        return writer.wait(timeout=600)
    finally:
        kill_family(writer)
