"""Hostile bytes found by coverage (`atheris`), for every protocol; THENCE_RUNS and THENCE_SEED set number and seed.

Each protocol has a process of its own: the fuzzer ends the one it runs in. What it found is kept in
benchmarks/soak/results/guided.json: how many inputs were tried, how many reached something new, how many branches.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.hostile import names
from support.soak import keep

RUNS = int(os.environ.get("THENCE_RUNS", "20000"))
SEED = int(os.environ.get("THENCE_SEED", "1"))
HARNESS = Path(__file__).with_name("guided_fuzz.py")


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", names())
def test_no_guided_bytes_break_a_member(name: str, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    flags = [f"-runs={RUNS}", f"-seed={SEED}", "-max_len=2000", f"-artifact_prefix={tmp_path}/"]
    fuzzed = subprocess.run(
        [sys.executable, str(HARNESS), name, str(corpus), *flags], capture_output=True, text=True, check=False
    )
    assert fuzzed.returncode == 0, fuzzed.stderr[-4000:]
    done = re.findall(r"#(\d+)\s+DONE\s+cov: (\d+) ft: \d+ corp: (\d+)/", fuzzed.stderr)
    assert done, fuzzed.stderr[-4000:]
    tried, branches, kept = map(int, done[-1])
    assert tried >= RUNS
    keep("guided", name, {"seed": SEED, "inputs": tried, "kept": kept, "branches": branches})
