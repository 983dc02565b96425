"""How often a command opens its file: JSON lines and CSV once, Parquet for its first bytes, its footer and its rows."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from thence import cli
from thence.lab.simulator import Scenario, simulate
from thence.tables.files.line_reader import BLOCK

COLUMNS = ("run", "process", "index", "kind", "message", "destinations", "order")
WATCHED: list[str] = []
OPENED: list[str] = []


def note(event: str, arguments: tuple[Any, ...]) -> None:
    """Note what Python opens; a hook cannot be removed, so it looks at the names that are watched now."""
    if event == "open" and WATCHED and str(arguments[0]) in WATCHED:
        OPENED.append("python")


sys.addaudithook(note)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace that is longer than what is read at once, and its arrivals, as JSON lines, Parquet and CSV."""
    folder = tmp_path_factory.mktemp("opened")
    made = simulate(Scenario(messages=1300), trace=True, arrivals=True, measure=False)
    assert made.recorder is not None
    assert made.arrivals is not None
    for suffix in ("jsonl", "parquet"):
        assert made.recorder.write(folder / f"trace.{suffix}") > 11_000
        made.arrivals.write(folder / f"arrivals.{suffix}")
    assert (folder / "trace.jsonl").stat().st_size > BLOCK
    with (folder / "trace.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        for line in (folder / "trace.jsonl").read_text().splitlines():
            row = json.loads(line)
            row["destinations"] = json.dumps(row["destinations"]) if "destinations" in row else ""
            writer.writerow([row[name] for name in COLUMNS])
    return folder


COMMANDS = {
    "audit": ["audit", "trace"],
    "cost": ["cost", "trace", "--protocols", "ks", "--sample", "500"],
    "show": ["show", "trace", "--out", "page.html"],
    "deliver": ["deliver", "arrivals", "--by", "stamp", "--out", "delivered.jsonl", "--overwrite"],
}


@pytest.mark.parametrize(
    ("command", "suffix", "python", "arrow"),
    [
        ("audit", "jsonl", 1, 0), ("audit", "csv", 1, 0), ("audit", "parquet", 1, 2),
        ("cost", "jsonl", 1, 0), ("cost", "csv", 1, 0), ("cost", "parquet", 1, 2),
        ("show", "jsonl", 1, 0), ("show", "csv", 1, 0), ("show", "parquet", 1, 3),  # for the page once more
        ("deliver", "jsonl", 1, 0), ("deliver", "parquet", 1, 2),
    ],
)  # fmt: skip
def test_a_file_is_opened_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: str, suffix: str, python: int, arrow: int
) -> None:
    verb, table, *options = COMMANDS[command]
    path = folder / f"{table}.{suffix}"
    opened = pq.ParquetFile.__init__

    def counted(self: pq.ParquetFile, source: Any, **named: Any) -> None:
        OPENED.append("arrow")
        opened(self, source, **named)

    monkeypatch.chdir(folder)
    monkeypatch.setattr(pq.ParquetFile, "__init__", counted)
    path.touch()  # a footer that another test read counts as another file's
    OPENED.clear()
    WATCHED.append(str(path))
    try:
        assert cli.main([verb, str(path), *options, "--quiet"]) == 0
    finally:
        WATCHED.clear()
    assert (OPENED.count("python"), OPENED.count("arrow")) == (python, arrow)
