"""Hostile bytes found by coverage (`atheris`), for every protocol, until THENCE_RUNS inputs or THENCE_SECONDS.

Each protocol has a process of its own: the fuzzer ends the one it runs in. It sees branches of bytecode only, so it
searches first in a copy of the package without compiled modules, and then goes on from what it kept there, on the
package as it is installed. What it found is kept in benchmarks/soak/results/guided.json: how many inputs were tried,
how many reached something new, how many branches. THENCE_SEED sets the seed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.hostile import names
from support.soak import HOW, keep

import thence

RUNS = int(os.environ.get("THENCE_RUNS", "50000"))
SECONDS = int(os.environ.get("THENCE_SECONDS", "120"))
SEED = int(os.environ.get("THENCE_SEED", "1"))
HARNESS = Path(__file__).with_name("guided_fuzz.py")
PACKAGE = Path(thence.__file__).parent


@pytest.fixture(scope="module")
def uncompiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a copy of the package without compiled modules."""
    folder = tmp_path_factory.mktemp("uncompiled")
    shutil.copytree(PACKAGE, folder / "thence", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return folder


def fuzzed(package: Path, name: str, corpus: Path, folder: Path) -> dict[str, int]:
    """Fuzz one protocol from a corpus, which grows, and return what was tried and reached."""
    flags = [f"-seed={SEED}", "-max_len=2000", f"-artifact_prefix={folder}/"]
    limits = [f"-runs={RUNS}", f"-max_total_time={SECONDS}"]
    began = time.monotonic()
    ran = subprocess.run(
        [sys.executable, str(HARNESS), name, str(corpus), *flags, *limits],
        capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(package)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-4000:]
    done = re.findall(r"#(\d+)\s+DONE\s+cov: (\d+) ft: \d+ corp: (\d+)/", ran.stderr)
    assert done, ran.stderr[-4000:]
    tried, branches, kept = map(int, done[-1])
    assert tried >= RUNS or time.monotonic() - began >= SECONDS
    return {"seed": SEED, "inputs": tried, "kept": kept, "branches": branches}


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", names())
def test_no_guided_bytes_break_a_member(name: str, tmp_path: Path, uncompiled: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    keep("guided", f"{name}, uncompiled", fuzzed(uncompiled, name, corpus, tmp_path))
    keep("guided", f"{name}, {HOW}", fuzzed(PACKAGE.parent, name, corpus, tmp_path))
