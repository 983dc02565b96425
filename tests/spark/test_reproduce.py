"""`whence reproduce` spread by Spark writes the files that one process writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_spark_changes_nothing(tmp_path: Path) -> None:
    made = []
    for cores in ("1", "2"):
        out = tmp_path / cores
        arguments = ["reproduce", "costs", "--quick", "-n", "4", "--cores", cores, "--out", str(out)]
        ran = subprocess.run([sys.executable, "-m", "whence.cli", *arguments], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        names = ("index.html", "reproduce.json", "data/costs.runs.csv")
        made.append({name: (out / name).read_bytes() for name in names})
    assert made[0] == made[1]
