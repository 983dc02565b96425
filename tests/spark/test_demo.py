"""`whence demo` end to end, in a process and a Spark of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from whence.model.order import judge
from whence.trace.jsonl import read_jsonl


def test_demo(tmp_path: Path) -> None:
    out, result = tmp_path / "demo", tmp_path / "demo.json"
    command = [sys.executable, "-m", "whence.cli", "demo", "--out", str(out), "--json", str(result)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "unordered delivers on arrival" in ran.stdout
    assert "<- too early" in ran.stdout
    made = json.loads(result.read_text())
    assert made["failures"] == []
    assert made["runs"]["ks"]["verdict"] == "causal"
    assert made["runs"]["unordered"]["violations"] > 0
    assert len({step["process"] for step in made["liar"]["path"]}) > 1
    assert made["audit"]["ks"] == "causal"
    assert made["audit"]["unordered"] == "violated"
    assert made["deliver"]["held"] > 0
    assert judge(read_jsonl(out / "ks.jsonl", [])).verdict == "causal"
