"""The documented calls in a session that nobody has set up, in zones that are not UTC."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import plain_session

from thence.java import find_java

ZONES = ["America/New_York", "Etc/UTC"]


@pytest.mark.timeout(300)
def test_a_batch_and_a_stream_as_a_new_user_calls_them(tmp_path: Path) -> None:
    variables = {"JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, plain_session.__file__, str(tmp_path), *ZONES]
    ran = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = json.loads((tmp_path / "found.json").read_text())
    micros = 1_711_845_000_000_000
    for zone in ZONES:
        told = found[zone]
        assert told["batch"] == sorted(
            [
                ["d", "a", "delivered", 1, None, [], micros, micros, "2024-03-31 01:30:00"],
                [
                    "d",
                    "b",
                    "delivered",
                    2,
                    None,
                    [],
                    micros + 3_600_000_000,
                    micros + 3_600_000_000,
                    "2024-03-31 02:30:00",
                ],
                ["d", "z", "delivered", 3, None, ["b"], None, None, None],
                [None, "n", "quarantined", None, "no destination", [], None, None, None],
            ],
            key=str,
        )
        assert told["stream"] == told["batch"]
        assert [row[:3] for row in told["no arrival"]] == [row[:3] for row in told["batch"]]
        assert len(told["struct key"]) == 4
        assert told["split"] == [3, 1]
        assert told["waits"] == []
