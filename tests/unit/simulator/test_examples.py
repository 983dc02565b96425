"""The examples of the simulator run, and say what they should."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"


def run(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out


def test_compare_protocols(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run("compare_protocols", capsys).splitlines()
    size = {line.split()[0]: float(line.split()[1]) for line in lines[1:]}
    assert list(size) == ["ks", "ks-hardware", "ci-dc", "prs", "rst"]
    assert size["ks"] < size["ks-hardware"] < size["rst"]


def test_watch_a_partition(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run("watch_a_partition", capsys).splitlines()
    most = {int(line.split()[0]): int(line.split()[2]) for line in lines[1:]}
    assert most[5] > 5 * most[1]
