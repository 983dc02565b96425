"""All operators on the Spark that is installed, each against its twin in plain Python: session, Connect, command.

`make spark-versions` runs this for each older Spark, in an environment of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}

pytestmark = pytest.mark.timeout(300)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], env=ENVIRONMENT, capture_output=True, text=True, timeout=240, check=False
    )


def test_this_is_the_spark_that_was_asked_for() -> None:
    assert pyspark.__version__.startswith(os.environ.get("THENCE_SPARK", "4.") + "." * ("THENCE_SPARK" in os.environ))


@pytest.mark.parametrize("session", ["local[2]", "connect"])
def test_batches_streams_audits_and_what_waits_are_equal(session: str) -> None:
    done = run(str(ROOT / "tests" / "spark" / "elsewhere.py"), session)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.strip().endswith("equal")


def test_the_command_finds_in_files_what_this_process_finds(tmp_path: Path) -> None:
    traces = [str(tmp_path / name) for name in ("one.jsonl", "two.parquet")]
    for seed, trace in enumerate(traces):
        how = ("--protocol", "fifo", "--messages", "300", "--seed", str(seed), "--trace", trace)
        written = run("-m", "thence", "simulate", *how)
        assert written.returncode == 0, written.stderr
    answers = {}
    for engine in ("local", "spark"):
        out = tmp_path / f"{engine}.json"
        done = run("-m", "thence", "audit", *traces, "--engine", engine, "--json", str(out))
        said = [line for line in done.stderr.splitlines() if "JDK_JAVA_OPTIONS" not in line]
        assert (done.returncode, said) == (1, []), done.stderr
        answer = json.loads(out.read_text())
        assert answer.pop("engine") == engine
        answer.pop("route")
        answers[engine] = answer
    assert answers["spark"] == answers["local"]
