"""Hostile bytes found by coverage (`atheris`), for every protocol; THENCE_RUNS and THENCE_SEED set number and seed.

Each protocol has a process of its own: the fuzzer ends the one it runs in. It sees branches of bytecode only, and
searches in a copy of the package without compiled modules; the inputs that it kept are then given to the package as
it is installed. What it found is kept in benchmarks/soak/results/guided.json: how many inputs were tried, how many
reached something new, how many branches.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.hostile import names
from support.soak import keep

import thence

RUNS = int(os.environ.get("THENCE_RUNS", "20000"))
SEED = int(os.environ.get("THENCE_SEED", "1"))
HARNESS = Path(__file__).with_name("guided_fuzz.py")
PACKAGE = Path(thence.__file__).parent


@pytest.fixture(scope="module")
def uncompiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a copy of the package without compiled modules."""
    folder = tmp_path_factory.mktemp("uncompiled")
    shutil.copytree(PACKAGE, folder / "thence", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return folder


def fuzzed(package: Path, name: str, corpus: Path, *flags: str) -> str:
    """Return what the fuzzer says at its end."""
    ran = subprocess.run(
        [sys.executable, str(HARNESS), name, str(corpus), *flags],
        capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(package)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-4000:]
    return ran.stderr


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", names())
def test_no_guided_bytes_break_a_member(name: str, tmp_path: Path, uncompiled: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    flags = [f"-seed={SEED}", "-max_len=2000", f"-artifact_prefix={tmp_path}/"]
    said = fuzzed(uncompiled, name, corpus, f"-runs={RUNS}", *flags)
    done = re.findall(r"#(\d+)\s+DONE\s+cov: (\d+) ft: \d+ corp: (\d+)/", said)
    assert done, said[-4000:]
    tried, branches, kept = map(int, done[-1])
    assert tried >= RUNS
    fuzzed(PACKAGE.parent, name, corpus, "-runs=0", *flags)
    keep("guided", name, {"seed": SEED, "inputs": tried, "kept": kept, "branches": branches})
