"""A writer of whole transactions that is killed: whatever a reader sees is the source after some commit.

Three kills, in the environment of each Spark with a lakehouse; rows in benchmarks/soak/results/lakehouse_whole.json:

    THENCE_SPARK=4.2 PYTHONPATH=src .venv-spark-4.2/bin/python -m pytest -m soak tests/versions
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyspark
import pytest
from support.processes import kill_family
from support.soak import keep
from versions import lake, whole_transactions

ROOT = Path(__file__).resolve().parents[2]
KILLED_AT = (3, 4, 8)
"""Number of the MERGE; a micro-batch has up to five, the last that of positions."""
KIND = lake.FORMAT_OF.get(".".join(pyspark.__version__.split(".")[:2]))


def killed_writers(kind: str, tmp_path: Path) -> None:
    shop = whole_transactions.write_records(tmp_path, commits=20, files=4)
    for number in KILLED_AT:
        if run(kind, tmp_path, number) == 0:
            break  # everything was written before this kill
    assert run(kind, tmp_path, 0) == 0
    killed = Counter((tmp_path / "killed.txt").read_text().splitlines())
    assert sum(count for where, count in killed.items() if not where.startswith("0")) >= 2, killed
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
    row = {"kills": dict(sorted(killed.items())), "commits": len(shop.states) - 1, "states seen": len(states)}
    keep("lakehouse_whole", f"{kind}, Spark {pyspark.__version__}", row | {"distinct": between, "wrong": 0})


def run(kind: str, folder: Path, number: int) -> int:
    """Run the writer, which is killed at a MERGE or ends; return its exit code."""
    command = [sys.executable, whole_transactions.__file__, kind, str(folder), str(number)]
    writer = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, start_new_session=True)
    try:
        return writer.wait(timeout=600)
    finally:
        kill_family(writer)


if KIND is not None:

    @pytest.mark.soak
    def test_a_killed_writer_leaves_the_tables_at_a_commit(tmp_path: Path) -> None:
        killed_writers(str(KIND), tmp_path)
