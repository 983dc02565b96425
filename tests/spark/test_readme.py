"""Every command of the README, word for word, in an empty folder, and the demo."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ALL = """
import json, sys
from thence import cli
for command in json.loads(sys.argv[1]):
    code = cli.main(command)
    if code:
        sys.exit(f"{command}: exit code {code}")
"""


def test_commands_of_the_readme_and_the_demo(tmp_path: Path) -> None:
    """In one process, so that all of them share one Spark; `test_java` starts that one."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    (block,) = [text for language, text in blocks if not language and "thence audit" in text]
    lines = [shlex.split(line) for line in block.splitlines() if line]
    assert len(lines) > 4
    assert all(line[0] == "thence" for line in lines)
    commands = [line[1:] for line in lines if line[1:] != ["doctor"]]
    commands.append(["demo", "--orders", "400", "--out", "demo", "--json", "demo.json"])
    ran = subprocess.run(
        [sys.executable, "-c", ALL, json.dumps(commands)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert "<- too early" in ran.stdout
    made = json.loads((tmp_path / "demo.json").read_text())
    assert made["failures"] == []
    assert made["audit"]["verdict"] == "violated"
    assert made["batch"]["held"] > 100
    assert made["batch"]["outcomes"]["blocked"] == made["stream"]["waiting"] == 2
    assert made["stream"]["blocker"] == "order-200"
    assert made["stream"]["after"]["delivered"] + made["stream"]["after"]["released"] == made["shop"]["arrivals"]
    assert made["live"]["verdict"] == "causal"
    assert (tmp_path / "demo" / "violation.html").exists()
    assert "data:image/svg+xml" in (tmp_path / "demo" / "index.html").read_text()
