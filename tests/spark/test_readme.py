"""Every command of the README, word for word, in an empty folder."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(600)
def test_commands_of_the_readme(tmp_path: Path) -> None:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    (block,) = [text for language, text in blocks if not language and "whence audit" in text]
    lines = [line for line in block.splitlines() if line]
    assert len(lines) > 4
    for line in lines:
        name, *arguments = shlex.split(line)
        assert name == "whence"
        ran = subprocess.run(
            [sys.executable, "-m", "whence.cli", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, f"{line}: {ran.stdout}{ran.stderr}"
