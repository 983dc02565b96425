"""`thence reproduce`: every table and figure of the papers, published values beside measured ones."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thence.cli._common import JsonFile, console, finish, progress, start_spark, working, write_json
from thence.cli._packages import require_packages
from thence.core.model.plain import Row
from thence.errors import MisuseError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from thence.lab.papers.paper import Paper, Scale
    from thence.lab.sweep.grid import Grid, Planned
    from thence.lab.sweep.task import ResultStore
    from thence.tables.result_table import ResultTable

EXAMPLE = "thence reproduce ci-dc separators --out reproduce"


def command(
    papers: Annotated[
        list[str] | None,
        typer.Argument(metavar="PAPER", help="ks98, ci-dc, separators, genuine, bounded or costs; default: all."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the page, rows and pictures.")] = Path(
        "reproduce"
    ),
    full: Annotated[
        bool, typer.Option("--full", help="Use the papers' own counts: takes hours; call again to resume.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Take about a minute: few runs, so some claims stay open.")
    ] = False,
    processes: Annotated[
        list[int] | None, typer.Option("--processes", "-n", metavar="N", help="Only these sizes; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The first seed.")] = 1,
    cores: Annotated[
        int | None,
        typer.Option(min=1, help="Cores of the embedded Spark session; 1: without Spark. Default: 2, with --quick 1."),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Measure again what the papers publish: tables, figures, a verdict for each claim, and one HTML page.

    Exit code 1 if a simulation failed or a protocol broke its promise; verdicts do not change it.
    """
    used = cores or (1 if quick else 2)
    require_packages(
        "matplotlib",
        "networkx",
        "pyarrow",
        *(["pyspark"] if used > 1 else []),
        without={"pyspark": "--quick or --cores 1"},
    )
    from thence.cli.simulate import print_table
    from thence.lab.papers.paper import Scale
    from thence.lab.papers.run import PAPERS, count_verdicts
    from thence.lab.papers.run import reproduce as measured
    from thence.show.reproduced import write_reproduced

    if full and quick:
        raise MisuseError("--full and --quick exclude each other")
    scale = Scale("full" if full else "quick" if quick else "default", tuple(processes or ()), seed)
    wanted = _chosen(papers or [], PAPERS, scale)
    run = _Runner(used)
    made = [measured(PAPERS[name], scale, run, out / "runs" / scale.level / name, during=working) for name in wanted]
    result = write_reproduced(out, made, _command(papers or [], scale))
    shown = console(json_file)
    broken = [problem for each in made for problem in each.broken]
    for each in made:
        if each.findings:
            print_table(_short(each.verdicts(), each.paper.name), shown)
        elif not each.broken:
            print_table(each.paper.tables(each.data)[0], shown)
    if any(each.findings for each in made):
        print_table(count_verdicts(made), shown)
    shown.print(f"The page is {out / 'index.html'}.")
    for problem in broken:
        shown.print(f"FAILED: {problem}")
    write_json(json_file, result | {"failed": broken})
    if broken:
        finish(1)


def _chosen(named: list[str], papers: dict[str, Paper], scale: Scale) -> list[str]:
    """Return the papers to reproduce; a paper without the requested sizes is an error only if it was named."""
    for name in named:
        if name not in papers:
            raise MisuseError(f"no paper {name!r}; there are {', '.join(papers)}")
    asked = [name for name in papers if not named or name in named]
    sizes = {name: scale.pick(*levels) for name in asked if (levels := papers[name].sizes) is not None}
    for name in named:
        if name in sizes and not papers[name].has(scale):
            known = ", ".join(map(str, sizes[name]))
            raise MisuseError(f"{name} has no run with that number of processes; at this scale it has {known}")
    every = sorted({n for each in sizes.values() for n in each})
    for n in scale.processes:
        if n not in every:
            known = ", ".join(map(str, every)) or "no numbers to choose from"
            raise MisuseError(f"nothing is measured with {n} processes; at this scale there are {known}")
    return [name for name in asked if papers[name].has(scale)]


def _command(papers: list[str], scale: Scale) -> str:
    """Return the command that makes the same files again."""
    words = ["thence reproduce", *papers, *([f"--{scale.level}"] if scale.level != "default" else [])]
    words += [f"--processes {n}" for n in scale.processes]
    return " ".join([*words, *([f"--seed {scale.seed}"] if scale.seed != 1 else [])])


def _short(claims: ResultTable, name: str) -> ResultTable:
    """Return the verdicts for a terminal: the thresholds are on the page."""
    from thence.tables.result_table import ResultTable

    return ResultTable(name, claims.columns[:4], tuple(row[:4] for row in claims.rows))


class _Runner:
    """Runs grids like `thence sweep`: in this process one after the other, or spread by an embedded Spark."""

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self.spark: SparkSession | None = None

    def __call__(self, grid: Grid, folder: Path) -> Iterable[Row]:
        from thence.lab.sweep.task import RESULT, ResultStore

        store, done = ResultStore(str(folder)), ResultStore(str(folder)).finished()

        def row(each: Planned) -> Row:
            return dict(store.read(f"results/scenario={each.id}/{RESULT}").to_pylist()[0])

        left = [each for each in grid.scenarios if each.id not in done or row(each)["status"] == "failed"]
        if left and self.cores == 1:
            self._here(grid, left, store)
        elif left:
            self._spread(grid, folder)
        return [row(each) for each in sorted(grid.scenarios, key=lambda each: each.id)]

    def _here(self, grid: Grid, left: list[Planned], store: ResultStore) -> None:
        from thence.lab.sweep.task import run_one

        for each in progress(left, "Simulating", len(left)):
            spec = json.dumps(each.scenario.row())
            run_one(store, each.id, spec, traces=False, warmup=grid.warmup, batches=grid.batches)

    def _spread(self, grid: Grid, folder: Path) -> None:
        from thence.cli.sweep import bar
        from thence.lab.sweep.driver import sweep

        if self.spark is None:
            self.spark = start_spark(self.cores, quick=True)
        with bar() as show:
            sweep(self.spark, grid, str(folder), retry=True, progress=show)
