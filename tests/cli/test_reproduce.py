"""`thence reproduce`: files, the same ones again, resuming, what is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from thence import cli
from thence.cli import _packages
from thence.lab.sweep import task as sweep_task


def files(out: Path) -> dict[str, bytes]:
    paths = (path for path in sorted(out.rglob("*")) if path.is_file() and "runs" not in path.parts)
    return {str(path.relative_to(out)): path.read_bytes() for path in paths}


def test_quick_writes_page_rows_pictures_and_verdicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, result = tmp_path / "out", tmp_path / "result.json"
    assert cli.main(["reproduce", "bounded", "genuine", "--quick", "--out", str(out), "--json", str(result)]) == 0
    shown = capsys.readouterr().out
    assert "three epoch values suffice" in shown
    assert "not determinable" in shown
    made = json.loads(result.read_text())
    assert made["command"] == "thence reproduce bounded genuine --quick"
    assert made["failed"] == []
    claims = {claim["claim"]: claim for paper in made["papers"] for claim in paper["claims"]}
    assert claims["latency-a-causal"]["verdict"] == "reproduced"
    assert claims["a-causal-printed"]["verdict"] == claims["b-sends"]["verdict"] == "differs"
    page = (out / "index.html").read_text()
    assert page.count("data:image/svg+xml") == 2
    assert "thence reproduce bounded genuine --quick" in page
    with (out / "data" / "genuine.crashes.csv").open() as stream:
        assert sum(int(row["crashes"]) for row in csv.DictReader(stream)) > 20
    names = {path.name for path in (out / "plots").iterdir()}
    assert names == {f"{name}.{end}" for name in ("bounded-length", "genuine-table-1") for end in ("png", "svg")}
    assert json.loads((out / "reproduce.json").read_text())["papers"] == made["papers"]


def test_the_same_seed_gives_the_same_files_and_nothing_is_run_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["reproduce", "costs", "--quick", "--processes", "4", "--out"]
    assert cli.main([*command, str(tmp_path / "one")]) == 0
    before = files(tmp_path / "one")
    assert cli.main([*command, str(tmp_path / "two")]) == 0
    assert files(tmp_path / "two") == before

    def never(*_: object, **__: object) -> None:
        raise AssertionError("run again")

    monkeypatch.setattr(sweep_task, "run_one", never)
    assert cli.main([*command, str(tmp_path / "one")]) == 0
    assert files(tmp_path / "one") == before


def test_a_scenario_that_fails_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_one, done = sweep_task.run_one, []

    def failing(store: sweep_task.ResultStore, id: str, spec: str, **how: object) -> object:
        run = None if done else _broken
        done.append(id)
        return run_one(store, id, spec, **how, **({"run": run} if run else {}))  # type: ignore[arg-type]

    monkeypatch.setattr(sweep_task, "run_one", failing)
    command = ["reproduce", "costs", "--quick", "-n", "4", "--out", str(tmp_path)]
    assert cli.main(command) == 1
    assert "FAILED: " in (shown := capsys.readouterr().out)
    assert "broken on purpose" in shown
    assert "Some claims cannot be shown" in (tmp_path / "index.html").read_text()
    assert cli.main(command) == 0, "what failed is run again"
    assert len(done) == 38


def _broken(*_: object, **__: object) -> None:
    raise ValueError("broken on purpose")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "no paper 'nonsense'; there are ks98, ci-dc, separators, genuine, bounded, costs"),
        (["--full", "--quick"], "exclude each other"),
        (["separators", "-n", "7"], "separators has no run with that number of processes; at this scale it has 6, 10"),
        (["-n", "1000", "ci-dc"], "ci-dc has no run with that number"),
        (["-n", "0", "--quick"], "nothing is measured with 0 processes; at this scale there are 3, 4, 5, 6, 8, 10, 12"),
        (["ci-dc", "-n", "10", "-n", "11"], "nothing is measured with 11 processes; at this scale there are 10, "),
        (["genuine", "-n", "7"], "nothing is measured with 7 processes; at this scale there are no numbers"),
    ],
)
def test_what_cannot_be_done_is_refused(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["reproduce", *arguments, "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_without_spark_it_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _packages.find_spec
    monkeypatch.setattr(_packages, "find_spec", lambda name: None if name == "pyspark" else found(name))
    assert cli.main(["reproduce", "bounded", "--out", str(tmp_path / "out")]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert 'pip install "thence[spark]"; --quick or --cores 1 needs no pyspark' in told
