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
    commands.append(["demo", "--out", "demo", "--orders", "400", "--json", "demo.json"])
    ran = subprocess.run(
        [sys.executable, "-c", ALL, json.dumps(commands)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert "<- too early" in ran.stdout
    made = json.loads((tmp_path / "demo.json").read_text())
    assert made["failures"] == []
    assert made["audit"]["violations"] > 40
    assert (made["deliver"]["verdict"], made["deliver"]["blocked"]) == ("causal", 2)
    assert sum(made["deliver"]["held_seconds"].values()) == made["deliver"]["held"] > 40
    assert made["stream"] == {"rows": 1199, "waited_for": "order-200", "held": 2, "released": 1}
    assert (made["live"]["verdict"], made["live"]["lost"]) == ("causal", 0)
    pages = [(tmp_path / "demo" / name).read_text() for name in ("index.html", "violation.html")]
    assert pages[0].count("data:image/svg+xml") == 2
    assert "payment-" in pages[1]
