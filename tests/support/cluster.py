"""The commands of docs/how-to/cluster.md, run as they stand there, with one worker killed while the job runs.

The folder they run in is laid out as the page assumes: the examples, the data, and thence as a package index has it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyspark

import thence

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "cluster.md"
sys.path.insert(0, str(ROOT / "benchmarks" / "audit"))
import generate  # noqa: E402

ACCOUNTS = 50


def commands(heading: str) -> list[str]:
    """Return the shell blocks below a heading of the page, up to the next heading."""
    section = re.search(rf"^##+ {heading}\n(.*?)(?=^##|\Z)", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert section is not None, f"{PAGE.name} has no heading {heading!r}"
    found = re.findall(r"^```sh\n(.*?)^```$", section[1], re.DOTALL | re.MULTILINE)
    assert found, f"{PAGE.name} has no commands below {heading!r}"
    return found


def build_wheel(dist: Path, *, compiled: bool) -> None:
    """Build a wheel from a copy of the sources: a build folder of earlier builds would end up in it."""
    if "THENCE_WHEELS" in os.environ:  # a folder of wheels that are built already
        shutil.copytree(os.environ["THENCE_WHEELS"], dist)
        return
    copy = dist.parent / "sources"
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    environment = os.environ | {"THENCE_COMPILE": "1" if compiled else "0"}
    subprocess.run([*command, "--wheel-dir", str(dist), str(copy)], env=environment, check=True)


class Walk:
    """A folder, in which a reader follows the page."""

    def __init__(self, folder: Path, rows: int, *, compiled: bool) -> None:
        """Write the data, and let pip find a wheel of these sources under the name of the package."""
        self.folder = folder
        (folder / "examples").symlink_to(ROOT / "examples")
        write_arrivals(folder / "arrivals.parquet", rows)
        write_trace(folder / "trace.parquet", rows)
        build_wheel(folder / "dist", compiled=compiled)
        programs = str(Path(sys.executable).parent)
        self.environment = os.environ | {
            "PATH": os.pathsep.join([str(python_without_thence(folder)), programs, os.environ["PATH"]]),
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_LOCAL_IP": "127.0.0.1",
            # The version of these sources, and the packages that are tested.
            "PIP_FIND_LINKS": f"{folder / 'dist'} {os.environ.get('PIP_FIND_LINKS', '')}".strip(),
            "PIP_CONSTRAINT": str(ROOT / "requirements" / "runtime.txt"),
        }
        if not compiled:  # the one package that is downloaded is here
            self.environment["PIP_NO_INDEX"] = "1"
        for name in ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
            self.environment.pop(name, None)

    def start(self, script: str) -> subprocess.Popen[str]:
        """Start a block of the page; any command of it that fails ends it."""
        return subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, script: str) -> str:
        """Run a block of the page to its end, and return what it printed."""
        return self.ended(self.start(script))

    def ended(self, block: subprocess.Popen[str]) -> str:
        """Wait for a block, and return what it printed."""
        said, errors = block.communicate()
        assert block.returncode == 0, said + errors[-6000:]
        return said

    def follow(self, heading: str) -> dict[str, Any]:
        """Follow the page along one way of shipping, killing a worker that has done a part of the work."""
        (start,), (submit,), (kill, stop) = map(commands, ("Standalone", heading, "If a worker dies"))
        try:
            self.run(start)
            began = time.monotonic()
            job = self.start(submit)
            try:
                while job.poll() is None and not self.shuffled(1):
                    time.sleep(0.02)
                assert job.poll() is None, "the job ended before a worker could be killed:\n" + self.ended(job)
                self.run(kill)
                said = self.ended(job)
            finally:
                job.kill()
            seconds = round(time.monotonic() - began, 1)
        finally:
            self.run(stop)
        log = (self.folder / "cluster" / "master.log").read_text()
        assert "Removing worker" in log, log[-2000:]
        return {"said": said.splitlines()[-1], "seconds": seconds, **self.compare()}

    def shuffled(self, worker: int) -> list[Path]:
        """Return the files that a worker has written for others to read: lost with it, they are made again."""
        return [*(self.folder / "cluster" / f"worker-{worker}").rglob("shuffle_*.data")]

    def compare(self) -> dict[str, Any]:
        """Compare what the cluster wrote with the answers of this process, and count what was compared."""
        answers = self.folder / "answers"
        columns = ["arrival", "id", "position", "outcome", "reason"]
        here = thence.deliver(pq.read_table(self.folder / "arrivals.parquet"), id="id", causes="parent", key="account")
        there = pq.read_table(answers / "ordered").select(columns).sort_by("arrival")
        assert there.equals(here.select(columns).sort_by("arrival").cast(there.schema))
        audited = thence.audit(str(self.folder / "trace.parquet"))
        violations = pq.read_table(answers / "violations").to_pylist()
        names = ("run", "destination", "missing", "early")
        found = {tuple(each[name] for name in names) for each in violations}
        expected = {tuple(each[name] for name in names) for each in audited.violations}
        assert found == expected
        assert len(found) == len(violations) > 0
        (run,) = pq.read_table(answers / "runs").to_pylist()
        assert (run["verdict"], run["violations"]) == (audited.verdict, len(violations))
        outcomes = dict(zip(*map(pa.Array.to_pylist, pc.value_counts(here["outcome"]).flatten()), strict=True))
        assert outcomes.keys() == {"delivered", "blocked"}
        return {"rows": outcomes, "events": run["events"], "violations": len(violations)}


def write_arrivals(folder: Path, rows: int) -> None:
    """Write rows that name the row before them in their account, moved by up to 20 places; one in 50,021 is missing."""
    numbers = np.arange(rows)
    places = np.argsort(numbers + np.random.default_rng(1).random(rows) * 20 * ACCOUNTS)
    places = places[places % 50_021 != 50_020]
    first = (places < ACCOUNTS) | (places % 997 == 0)
    table = pa.table({"account": _named("a", places % ACCOUNTS), "id": _named("e", places),
                      "parent": pc.if_else(pa.array(first), None, _named("e", places - ACCOUNTS)),
                      "arrival": numbers[: len(places)]})  # fmt: skip
    folder.mkdir()
    size = -(-len(table) // 4)
    for part in range(4):
        pq.write_table(table.slice(part * size, size), folder / f"part-{part}.parquet")


def _named(letter: str, numbers: np.ndarray[Any, Any]) -> pa.Array:
    return pc.binary_join_element_wise(letter, pa.array(numbers).cast(pa.string()), "")


def write_trace(folder: Path, events: int) -> None:
    """Write a nearly causal trace, the same traffic again and again where it is long."""
    once = min(events, 1_000_000)
    generate.write(folder, once, 16, files=4)
    if events > once:
        generate.repeat(folder, events // once)


def python_without_thence(folder: Path) -> Path:
    """Make an environment that has all packages of this one but thence, as on a cluster; return its programs."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "workers")], check=True)
    (site,) = (folder / "workers" / "lib").glob("python*/site-packages")
    # Folders named by a .pth file have none of their own read, and an editable install is one.
    (site / "packages.pth").write_text(str(Path(pyspark.__file__).parents[1]) + "\n")
    return folder / "workers" / "bin"
