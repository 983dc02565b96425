"""`thence convert` on Spark: the same bytes as in this process."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.traces import random_trace

from thence.cli import main
from thence.core.model.events import Event
from thence.tables.files.jsonl import write_jsonl
from thence.tables.files.parquet import write_parquet

pytestmark = pytest.mark.usefixtures("spark")
SEED = 4


def runs() -> list[Event]:
    return [replace(e, run=run) for run in ("b", "a", "c") for e in random_trace(SEED)]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Two files of JSONL, one of them with a line that is not an event, and a stray file."""
    folder = tmp_path / "trace"
    folder.mkdir()
    events = [replace(event, order=None) for event in runs()]
    write_jsonl(events[:70], folder / "a.jsonl")
    write_jsonl(events[70:], folder / "b.jsonl")
    with (folder / "b.jsonl").open("ab") as stream:
        stream.write(b"nonsense\n")
    (folder / "stray.bin").write_bytes(b"\x00\x01")
    return folder


@pytest.fixture
def unordered(tmp_path: Path) -> Path:
    write_parquet(runs(), tmp_path / "whole.parquet")
    table = pq.read_table(tmp_path / "whole.parquet").drop_columns(["order"])
    pq.write_table(table, tmp_path / "u.parquet", row_group_size=50)
    return tmp_path / "u.parquet"


def written(out: Path) -> dict[str, bytes]:
    files = sorted(out.iterdir()) if out.is_dir() else [out]
    return {path.name if out.is_dir() else "": path.read_bytes() for path in files}


@pytest.mark.parametrize(
    ("given", "to", "more"),
    [
        ("trace", "jsonl", []),
        ("trace", "parquet", ["--files", "3"]),
        ("trace", "shiviz", []),
        ("unordered", "jsonl", []),
        ("unordered", "parquet", ["--files", "4"]),
        ("trace", "jsonl", ["--around", ""]),
    ],
)
def test_both_engines_write_the_same(
    given: str, to: str, more: list[str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    source = request.getfixturevalue(given)
    message = next(event.message for event in runs() if event.kind == "send")
    said = []
    for engine in ("local", "spark"):
        out, told = tmp_path / f"{engine}.{to}", tmp_path / f"{engine}.json"
        options = [message if each == "" else each for each in more]
        code = main(
            ["convert", str(source), "--to", to, "--out", str(out), "--engine", engine, "--json", str(told), *options]
        )
        result = json.loads(told.read_text())
        assert result.pop("engine") == engine
        assert result.pop("out") == str(out)
        places = [(each["file"], each["line"], each["reason"]) for each in result.pop("quarantine")]
        said.append((code, result, places, written(out)))
    assert said[0] == said[1], f"seed {SEED}"
    assert len(said[0][3]) == (int(more[1]) if "--files" in more else 1)


def test_some_rows_with_order_and_some_without(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    events = runs()
    write_parquet(events, tmp_path / "t.parquet")
    table = pq.read_table(tmp_path / "t.parquet")
    orders = [None if place == 5 else place for place in range(len(events))]
    place = table.column_names.index("order")
    pq.write_table(table.set_column(place, table.schema.field("order"), [orders]), tmp_path / "t.parquet")
    given = ["convert", str(tmp_path / "t.parquet"), "--to", "parquet", "--files", "2", "--out", str(tmp_path / "d")]
    assert main([*given, "--engine", "spark"]) == 2
    assert "some rows have an `order` and others none" in capfd.readouterr().err
