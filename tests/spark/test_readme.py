"""Every command of the README, word for word, in an empty folder."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from whence import cli

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


def test_commands_of_the_readme(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, so that all of them share one Spark; `test_demo` and `test_doctor` start their own."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    (block,) = [text for language, text in blocks if not language and "whence audit" in text]
    lines = [line for line in block.splitlines() if line]
    assert len(lines) > 4
    for line in lines:
        name, *arguments = shlex.split(line)
        assert name == "whence"
        if arguments == ["doctor"]:
            continue
        assert cli.main(arguments) == 0, f"{line}: {capsys.readouterr()}"
