"""`whence doctor` for real: a session, a job, a report. Slow: a JVM of its own."""

from __future__ import annotations

import json
import subprocess
import sys


def test_doctor_starts_spark_and_asks_its_workers() -> None:
    command = [sys.executable, "-m", "whence.cli", "doctor", "--json", "-"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert ran.returncode == 0, ran.stderr
    found = {finding["what"]: finding for finding in json.loads(ran.stdout)["findings"]}
    assert found["spark session"]["status"] == "ok"
    assert found["workers"]["status"] == "ok"
