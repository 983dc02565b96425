"""A sweep gives the same rows and the same traces whoever runs it, whatever dies on the way."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.processes import kill_family
from support.some import some

from thence import cli
from thence.lab.simulator import simulate
from thence.lab.simulator.confidence import estimate
from thence.lab.sweep.driver import LEAST, OVERHEAD, TASKS_PER_CORE, places, sweep
from thence.lab.sweep.grid import Grid, parse_grid
from thence.lab.sweep.task import MEASURES, ResultStore, run_one

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GRID = """
[grid]
protocol = ["ks", "rst"]
processes = [3, 6]
messages = 60
seed = { from = 1, to = 2 }
"""


def files(folder: Path, what: str) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted((folder / what).rglob("*.parquet"))}


def alone(grid: Grid, out: Path) -> None:
    """Run a grid in this process, one scenario after the other."""
    for each in reversed(grid.scenarios):
        spec = json.dumps(each.scenario.row())
        run_one(ResultStore(str(out)), each.id, spec, traces=True, warmup=grid.warmup, batches=grid.batches)


def rows(frame: Any) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in frame.collect()), key=lambda row: row["scenario"])


@pytest.fixture(scope="module")
def done(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    out = tmp_path_factory.mktemp("sweep")
    told: list[tuple[int, int]] = []
    swept = sweep(spark, parse_grid(GRID), str(out), traces=True, progress=lambda *at: told.append(at))
    assert (swept.ran, swept.before) == (8, 0)
    assert told[0] == (0, 8)
    assert told[-1] == (8, 8)
    return out, swept


def test_rows_and_traces_do_not_depend_on_who_runs_them(done: tuple[Path, Any], tmp_path: Path) -> None:
    out, swept = done
    alone(parse_grid(GRID), tmp_path)
    for what in ("results", "traces"):
        found = files(out, what)
        assert len(found) == 8
        assert found == files(tmp_path, what)
    found = rows(swept.results)
    for each in sorted(parse_grid(GRID).scenarios, key=lambda each: each.id):
        row = found.pop(0)
        result = simulate(each.scenario)
        assert result.measures is not None
        assert set(MEASURES) == set(result.measures.estimates)
        assert (row["scenario"], row["status"], row["error"]) == (each.id, "done", None)
        assert row["deliveries"] == result.outcome.deliveries
        assert {name: row[name] for name in MEASURES} == {name: result.measures.mean(name) for name in MEASURES}


def test_the_summary_joins_seeds(done: tuple[Path, Any]) -> None:
    _, swept = done
    results = rows(swept.results)
    for row in some(swept.summary.collect()):
        mine = [r for r in results if (r["protocol"], r["processes"]) == (row["protocol"], row["processes"])]
        over = estimate([r["bytes_per_copy"] for r in mine])
        assert over is not None
        assert (row["seeds"], row["failed"], row["deadlocks"]) == (2, 0, 0)
        assert (row["bytes_per_copy"], row["bytes_per_copy_ci95"]) == (over.mean, over.half)


def test_a_failed_scenario_is_a_row_and_so_is_one_that_kills_its_worker(spark: SparkSession, tmp_path: Path) -> None:
    grid = parse_grid(GRID.replace('["ks", "rst"]', '"ks"').replace("[3, 6]", "3").replace("to = 2", "to = 6"))

    def run(scenario: Any, **how: Any) -> Any:
        import os

        from thence.lab.simulator import simulate

        if scenario.seed == 2:
            raise ValueError("two is too many")
        if scenario.seed == 4:
            os._exit(3)
        return simulate(scenario, **how)

    swept = sweep(spark, grid, str(tmp_path), run=run)
    errors = {row["seed"]: row["error"] for row in rows(swept.results)}
    assert errors[2] == "ValueError: two is too many"
    assert errors[4].startswith("the worker died: ")
    assert [errors[seed] for seed in (1, 3, 5, 6)] == [None] * 4
    again = sweep(spark, grid, str(tmp_path))
    assert (again.ran, again.before) == (0, 6)
    healed = sweep(spark, grid, str(tmp_path), retry=True)
    assert (healed.ran, healed.before) == (2, 4)
    assert {row["status"] for row in rows(healed.results)} == {"done"}


def test_long_scenarios_stay_alone_and_tasks_shrink() -> None:
    works = [1e8, 9e7, 9e7, *[1e6] * 40, *[1e3] * 400]
    found = places(works, 2)
    assert found == sorted(found)
    assert found[:3] == [0, 1, 2]
    assert found[-1] + 1 < len(works) / 2
    loads = [
        sum(w + OVERHEAD for w, at in zip(works, found, strict=True) if at == task) for task in range(found[-1] + 1)
    ]
    left = sum(loads)
    for task, load in enumerate(loads):
        assert load <= max(LEAST, left / (TASKS_PER_CORE * 2)) or found.count(task) == 1
        left -= load


KILLED = """
import sys
from thence.lab.sweep.grid import read_grid
from thence.spark.session import local_session
from thence.lab.sweep.driver import sweep

def run(scenario, **how):
    from time import sleep
    from thence.lab.simulator import simulate
    if scenario.seed > 1:
        sleep(600)
    return simulate(scenario, **how)

sweep(local_session(cores=2, quick=True), read_grid(sys.argv[1]), sys.argv[2], traces=True, run=run)
"""


def test_a_killed_sweep_loses_at_most_what_was_running(
    spark: SparkSession, done: tuple[Path, Any], tmp_path: Path
) -> None:
    (tmp_path / "grid.toml").write_text(GRID)
    out = tmp_path / "out"
    command = [sys.executable, "-c", KILLED, str(tmp_path / "grid.toml"), str(out)]
    swept = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
    sleeping = {each.id for each in parse_grid(GRID).scenarios if each.scenario.seed > 1}
    try:
        # The dearest come first: two scenarios with seed 1 can finish before both cores sleep.
        while len(sleeping.intersection(path.name for path in (out / "running").glob("*"))) < 2:
            assert swept.poll() is None
            time.sleep(0.2)
    finally:
        kill_family(swept)
    kept = {path: path.stat().st_mtime_ns for path in out.rglob("result.parquet")}
    resumed = sweep(spark, parse_grid(GRID), str(out), traces=True)
    assert resumed.ran + resumed.before == 8
    assert 1 <= len(kept) == resumed.before <= 4
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    for what in ("results", "traces"):
        assert files(out, what) == files(done[0], what)
    assert not list((out / "running").glob("*"))


def test_the_command(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grid, said, out = tmp_path / "grid.toml", tmp_path / "sweep.json", tmp_path / "out"
    grid.write_text(GRID.replace("[3, 6]", "[3, 4]").replace('"ks", ', ""))
    plot = tmp_path / "sweep.svg"
    assert cli.main(["sweep", str(grid), "--out", str(out), "--json", str(said), "--plot", str(plot)]) == 0
    shown = capsys.readouterr().out
    assert "4 scenarios run, 0 were finished before" in shown
    report = json.loads(said.read_text())
    assert [(row["protocol"], row["processes"], row["seeds"]) for row in report["settings"]] == [
        ("rst", 3, 2),
        ("rst", 4, 2),
    ]
    assert "<svg" in plot.read_text()
    grid.write_text(GRID.replace('"rst"', '"bss"'))
    assert cli.main(["sweep", str(grid), "--out", str(tmp_path / "none")]) == 2
    assert "grid.toml:3: protocol = 'bss': protocol bss needs broadcast only" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
