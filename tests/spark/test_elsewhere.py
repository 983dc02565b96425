"""All operators in other sessions than the shared one: Spark Connect on one core, executors; what a task gets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("elsewhere.py")
SOURCE = Path(__file__).resolve().parents[2] / "src"
RESULT = Path(__file__).resolve().parents[2] / "benchmarks" / "soak" / "results" / "elsewhere.json"

pytestmark = pytest.mark.timeout(1800)


def run(*arguments: str) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.strip().endswith("equal")


def test_equal_through_connect_on_one_core_and_no_task_gets_more_than_a_third(tmp_path: Path) -> None:
    """Of the bytes that a stage sends to Python for one large run, no task gets more than a third.

    Stages that send less than half as much as the greatest one move summaries or many small runs, not its rows. (Copies
    that nobody ever delivers all stand in the summaries: docs/explanation/audit.md says what that costs.)
    """
    run("connect", str(tmp_path))
    (log,) = [file for file in tmp_path.iterdir() if file.is_file()]
    sent: dict[int, list[int]] = defaultdict(list)
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            if not line.startswith('{"Event":"SparkListenerTaskEnd"'):
                continue
            event = json.loads(line)
            mine = [a for a in event["Task Info"]["Accumulables"] if a.get("Name") == "data sent to Python workers"]
            if mine:
                sent[event["Stage ID"]].append(sum(int(a["Update"]) for a in mine))
    assert sent, "no stage sent anything to Python"
    most = max(sum(stage) for stage in sent.values())
    heavy = [stage for stage in sent.values() if sum(stage) > most / 2]  # those that move the rows
    assert all(max(stage) <= sum(stage) / 3 for stage in heavy), heavy


@pytest.mark.soak
@pytest.mark.parametrize("how", ["local[1]", "local-cluster[2,1,1024]", "connect streams"])
def test_equal_elsewhere(how: str) -> None:
    run(how)
    known = json.loads(RESULT.read_text()) if RESULT.is_file() else {}
    RESULT.write_text(json.dumps(known | {how: "equal"}, indent=2, sort_keys=True) + "\n")
