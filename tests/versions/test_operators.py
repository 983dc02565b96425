"""All operators on the Spark that is installed, by one program: session, Connect, lakehouse.

`make spark-versions` runs this for each older Spark, in an environment of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

ROOT = Path(__file__).resolve().parents[2]
OF_SPARK = "Starting Streaming TransformWithStateInPandas Python worker."
"""What Spark's worker prints before it loads anything of ours."""

SECONDS = 1700
"""Some twenty times what it takes on an idle machine: a busy one took 470 seconds for Spark 4.2 with Delta."""


def test_this_is_the_spark_that_was_asked_for() -> None:
    assert pyspark.__version__.startswith(os.environ.get("THENCE_SPARK", "4.") + "." * ("THENCE_SPARK" in os.environ))


@pytest.mark.timeout(SECONDS + 100)
def test_operators_are_equal_to_their_twins_and_silent() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "versions" / "operators.py")],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True,
        timeout=SECONDS, check=False,
    )  # fmt: skip
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stderr[-3000:]
    said = [line for line in done.stdout.splitlines() if line.strip() not in ("", OF_SPARK)]
    assert all(line.endswith("equal") for line in said), said
    assert len(said) >= 7
    warned = [line for line in done.stderr.splitlines() if "thence" in line or "Warning" in line]
    assert [line for line in warned if "PySpark does not yet fully support pandas >= 3.0.0" not in line] == []
