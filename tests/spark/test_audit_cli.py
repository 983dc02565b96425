"""`thence audit --engine spark` says what `--engine local` says, in the same JSON and the same words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.odd_files import CORPUS, OddFile, audit_case, check_case
from support.tables import small_runs
from support.traces import random_trace, spoil

from thence.cli import main
from thence.tables.files.jsonl import write_jsonl
from thence.tables.files.parquet import write_parquet

pytestmark = pytest.mark.usefixtures("spark")


def call(capsys: pytest.CaptureFixture[str], verb: str, file: Path, engine: str, *more: str) -> tuple[int, str, Any]:
    out = file.parent / f"{engine}.json"
    code = main([verb, str(file), "--engine", engine, "--json", str(out), *more])
    return code, capsys.readouterr().out, json.loads(out.read_text())


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_both_engines_say_the_same(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [*small_runs()[:4], *(spoil(random_trace(seed), seed) for seed in range(12, 17))]
    file = tmp_path / f"trace.{kind}"
    (write_jsonl if kind == "jsonl" else write_parquet)([e for events in runs for e in events if e.message != ""], file)
    if kind == "jsonl":
        with file.open("ab") as stream:
            stream.write(b'{"run":"run1","kind":"send"}\n{"run":"run2", "proc')
    local, spark = (call(capsys, "audit", file, engine) for engine in ("local", "spark"))
    assert local[0] == spark[0] == 1
    told = [
        {name: value for name, value in each[2].items() if name not in ("engine", "route")} for each in (local, spark)
    ]
    paths = [[row.pop("path") for row in each["violations"]] for each in told]
    assert told[0] == told[1]
    assert [len(path) for path in paths[0][:100]] == [len(path) for path in paths[1][:100]]
    assert (local[2]["engine"], spark[2]["engine"]) == ("local", "spark")
    assert [line for line in local[1].splitlines() if line.startswith("set aside")] == [
        line for line in spark[1].splitlines() if line.startswith("set aside")
    ]
    if kind == "parquet":
        explained = [call(capsys, "explain", file, engine, "--violation", "2") for engine in ("local", "spark")]
        assert explained[0][0] == explained[1][0] == 1
        assert explained[0][1].splitlines()[0].split(":")[1] == explained[1][1].splitlines()[0].split(":")[1]
        second = {name: explained[0][2][name] for name in ("run", "destination", "missing")}
        assert second == {name: told[0]["violations"][1][name] for name in second}


SAMPLE = ("Parquet with a damaged page", "names with [ ] { } * \\\\ : % # ? and spaces")


@pytest.mark.parametrize("case", [case for case in CORPUS if case.kind in SAMPLE], ids=lambda case: case.kind)
def test_a_sample_of_odd_files(case: OddFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is long: `test_odd_audits.py`."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    check_case(case, *audit_case(case, tmp_path / "here", "spark", order=True))


def test_a_long_list_is_brought_a_few_rows_at_a_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from thence.tables.engines.spark import results

    file = tmp_path / "trace.jsonl"
    write_jsonl([e for events in small_runs()[:10] for e in events], file)
    _, _, at_once = call(capsys, "audit", file, "spark", "--paths", "0")
    monkeypatch.setattr(results, "ONE_JOB_ROWS", 0)
    monkeypatch.setattr(results, "ROWS_AT_A_TIME", 20)
    _, _, in_shares = call(capsys, "audit", file, "spark", "--paths", "0")
    assert len(at_once["violations"]) > 20
    assert in_shares == at_once
