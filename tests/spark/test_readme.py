"""Every command of the README, word for word, in an empty folder."""

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
from whence import cli
for command in json.loads(sys.argv[1]):
    code = cli.main(command)
    if code:
        sys.exit(f"{command}: exit code {code}")
"""


def test_commands_of_the_readme(tmp_path: Path) -> None:
    """In one process, so that all of them share one Spark; `test_doctor` starts its own."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    (block,) = [text for language, text in blocks if not language and "whence audit" in text]
    lines = [shlex.split(line) for line in block.splitlines() if line]
    assert len(lines) > 4
    assert all(line[0] == "whence" for line in lines)
    commands = [line[1:] for line in lines if line[1:] != ["doctor"]]
    ran = subprocess.run(
        [sys.executable, "-c", ALL, json.dumps(commands)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
