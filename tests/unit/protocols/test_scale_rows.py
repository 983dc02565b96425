"""The committed rows from 10 to 1,000 processes: every cell is there, and the script goes on where it was stopped."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def scale(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks/protocols"))
    import scale  # type: ignore[import-not-found]

    return scale  # type: ignore[no-any-return]


def test_every_cell_has_a_row(scale: ModuleType) -> None:
    rows = json.loads(scale.RESULTS.read_text())["rows"]
    found = {(row["protocol"], row["n"], row["fanout"]): row for row in rows}
    assert set(found) == set(scale.cells())
    assert len(rows) == len(found)
    for cell, row in found.items():
        assert row.get("not run", "") == scale.impractical(*cell)
        if cell[0] == "rst" and "bytes" in row:
            assert row["entries"] == cell[1] ** 2


def test_it_goes_on_where_it_was_stopped(
    scale: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = json.loads(scale.RESULTS.read_text())["rows"]
    out = tmp_path / "scale.json"
    out.write_text(json.dumps({"rows": rows[1:]}))
    arguments = ["scale.py", "--seconds", "0.02", "--out", str(out)]
    monkeypatch.setattr("sys.argv", [*arguments, "--minutes", "0"])
    scale.main()
    assert "call again to go on" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", arguments)
    scale.main()
    added = json.loads(out.read_text())["rows"][len(rows) - 1 :]
    assert [(row["protocol"], row["n"], row["fanout"]) for row in added] == [("ks", 10, 1)]
    assert 10 < added[0]["entries"] < 25
