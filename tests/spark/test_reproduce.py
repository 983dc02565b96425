"""`thence reproduce` spread by Spark writes the files that one process writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from thence.cli import main


@pytest.mark.soak
def test_spark_changes_nothing(spark: object, tmp_path: Path) -> None:
    made = []
    for cores in ("1", "2"):
        out = tmp_path / cores
        assert main(["reproduce", "costs", "--quick", "-n", "4", "--cores", cores, "--out", str(out)]) == 0
        names = ("index.html", "reproduce.json", "data/costs.runs.csv")
        made.append({name: (out / name).read_bytes() for name in names})
    assert made[0] == made[1]
