"""`thence sweep`: simulations over a grid, spread by Spark, resumable."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from thence.cli._common import CORES, JsonFile, SparkCores, console, finish, start_spark, write_json
from thence.cli._console import Console, table
from thence.cli._packages import require_packages
from thence.core.model.plain import Row
from thence.errors import MisuseError

EXAMPLE = "thence sweep grid.toml --out sweep-results"
SHOWN_SETTINGS = 40
MEASURED = ("entries_per_copy", "facts_per_copy", "bytes_per_copy", "bytes_per_message", "log_size", "latency_per_copy")


def command(
    grid: Annotated[
        Path, typer.Argument(metavar="GRID.toml", help="The grid of scenarios; see docs/laboratory/sweep.md.")
    ],
    out: Annotated[
        str, typer.Option(metavar="DIR", help="Folder for the results; finished scenarios in it are not run again.")
    ],
    traces: Annotated[bool, typer.Option("--traces", help="Also keep the trace of every scenario.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Run failed scenarios again.")] = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also draw a plot: .png, .svg, or both if the name has no ending."),
    ] = None,
    x: Annotated[str, typer.Option(help="Axis of the plot: a key of the grid.")] = "processes",
    y: Annotated[str, typer.Option(help="Measure of the plot.")] = "bytes_per_message",
    by: Annotated[str, typer.Option(help="Lines of the plot: a key of the grid.")] = "protocol",
    cores: SparkCores = CORES,
    json_file: JsonFile = None,
) -> None:
    """Simulate every scenario of a grid on Spark; average over the seeds, with confidence intervals.

    Exit code 1 if a scenario failed, or waits forever although nothing was lost.
    """
    from thence.lab.sweep.grid import read_grid

    plan = read_grid(grid)
    require_packages("pyspark", "pyarrow", *(["matplotlib"] if plot is not None else []))
    from thence.lab.sweep.driver import sweep as run_sweep
    from thence.lab.sweep.task import MEASURES, SETTING

    for name, known in ((x, SETTING), (by, SETTING), (y, MEASURES)):
        if name not in known:
            raise MisuseError(f"no {name!r} to draw; there are {', '.join(known)}")
    spark = start_spark(cores, quick=True)
    with bar() as show:
        done = run_sweep(spark, plan, out, traces=traces, retry=retry, progress=show)
    rows = [row.asDict() for row in done.summary.orderBy("protocol", "processes", *SETTING).collect()]
    wrong = done.results.where("status = 'failed'").select("scenario", "error").orderBy("scenario").collect()
    failures = [row.asDict() for row in wrong]
    result = {"out": out, "ran": done.ran, "before": done.before, "failed": failures, "settings": rows}
    _show(result, console(json_file))
    write_json(json_file, result)
    if plot is not None:
        from thence.show.plots import save, sweep_plot

        save(sweep_plot(rows, x=x, y=y, by=by), plot)
    if failures or any(row["deadlocks"] for row in rows):
        finish(1)


@contextmanager
def bar() -> Iterator[Callable[[int, int], None] | None]:
    """Show how many scenarios are finished, on a terminal; nothing when piped."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console as Terminal
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    with Progress(
        *Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn(),
        console=Terminal(stderr=True), transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task("Sweeping", total=None)
        yield lambda finished, of: bar.update(task, completed=finished, total=of)


def _show(result: Row, out: Console) -> None:
    rows = result["settings"]
    varied = [name for name in _settings(rows) if len({str(row[name]) for row in rows}) > 1 or name == "protocol"]
    body = [
        [*(row[name] for name in varied), row["seeds"], *(_interval(row, name) for name in MEASURED)] for row in rows
    ]
    out.print(f"{result['ran']} scenarios run, {result['before']} were finished before; results in {result['out']}")
    out.print(table(*varied, "seeds", *MEASURED, rows=body[:SHOWN_SETTINGS]))
    if len(rows) > SHOWN_SETTINGS:
        out.print(f"... and {len(rows) - SHOWN_SETTINGS} more settings; --json has them all")
    for row in [row for row in rows if row["deadlocks"]][:SHOWN_SETTINGS]:
        words = ", ".join(f"{name} {row[name]}" for name in varied)
        out.print(f"DEADLOCK: {row['deadlocks']} of {row['seeds']} runs of {words}")
    for each in result["failed"][:SHOWN_SETTINGS]:
        out.print(f"FAILED: {each['scenario']}: {each['error']}")


def _settings(rows: list[Row]) -> list[str]:
    from thence.lab.sweep.task import SETTING

    return [name for name in SETTING if rows and name in rows[0]]


def _interval(row: Row, name: str) -> str | None:
    mean, half = row[name], row[f"{name}_ci95"]
    return None if mean is None else f"{mean:.4g}" if half is None else f"{mean:.4g} ± {half:.2g}"
