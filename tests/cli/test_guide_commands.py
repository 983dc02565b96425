"""The commands and the first Python block of the audit page and the cost page run, on such files."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from thence.cli import main

ROOT = Path(__file__).parents[2]
GUIDES = ("explanation/audit", "laboratory/cost")


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with what the pages name: a run that is violated, one of many that is causal, columns of others."""
    monkeypatch.chdir(tmp_path)
    size = ["simulate", "--processes", "4", "--messages", "120", "--quiet"]
    assert main([*size, "--protocol", "unordered", "--trace", "run.jsonl"]) == 0
    assert main([*size, "--protocol", "ks", "--trace", "trace.jsonl"]) == 0
    for folder in ("runs", "traces"):
        Path(folder).mkdir()
    assert main([*size, "--protocol", "ks", "--trace", "runs/one.parquet"]) == 0
    shutil.copy("trace.jsonl", "traces")


def commands(page: str) -> list[list[str]]:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return [shlex.split(line, comments=True) for kind, text in blocks if not kind for line in text.splitlines()]


@pytest.mark.parametrize("guide", GUIDES)
@pytest.mark.usefixtures("recorded")
def test_every_command(guide: str) -> None:
    found = commands((ROOT / "docs" / f"{guide}.md").read_text(encoding="utf-8"))
    assert len(found) >= 2
    for name, *words in found:
        assert name == "thence"
        if "--columns" in words:
            text = Path("run.jsonl").read_text(encoding="utf-8")
            for ours, theirs in (pair.split("=") for pair in words[words.index("--columns") + 1].split(",")):
                text = text.replace(f'"{ours}":', f'"{theirs}":')
            Path("run.jsonl").write_text(text, encoding="utf-8")
        given = [str(each) for word in words for each in (sorted(Path().glob(word)) if "*" in word else [word])]
        assert main(given) == (1 if "run.jsonl" in words else 0), words


@pytest.mark.parametrize("guide", GUIDES)
@pytest.mark.usefixtures("recorded")
def test_the_first_python_block(guide: str) -> None:
    block = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / f"{guide}.md").read_text(encoding="utf-8"), re.DOTALL)[
        0
    ]
    names: dict[str, object] = {}
    exec(compile(block, f"docs/{guide}.md", "exec"), names)
    assert "run.jsonl" in block
