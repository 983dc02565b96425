"""Simulations over a grid, spread by Spark.

    from thence.lab.sweep.grid import read_grid
    from thence.spark import sweep
    done = sweep(spark, read_grid("grid.toml"), "sweep-results")
    done.results                      # one row per scenario
    done.summary                      # one row per setting: means over its seeds with 95 % intervals

Invariant: the longest scenarios start first, each in a task of its own; short ones share a task, ever fewer of them, so
that cores stay busy although scenarios differ a thousandfold. Each task writes its files itself and whole
(`thence.lab.sweep.task`), into a folder that driver and workers both see: finished scenarios stay finished if the
sweep is killed, and are not run again. The rows and the traces do not depend on the number of executors. If a
worker dies, what was running is tried once more, one at a time; what kills its worker again becomes a row with its
error.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Event, Thread
from time import perf_counter
from typing import TYPE_CHECKING

import pyarrow as pa

from thence.core.model.plain import Row
from thence.lab.simulator import simulate
from thence.lab.simulator.confidence import estimate
from thence.lab.sweep.grid import Grid, Planned
from thence.lab.sweep.task import (
    MEASURES,
    RESULT,
    RESULT_SCHEMA,
    SETTING,
    SWEEP_COLUMNS,
    ResultStore,
    Simulate,
    failed,
    run_one,
    write_result,
)
from thence.tables.contract.spark_to_arrow_types import schema_of_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCENARIOS = "scenario string, place int, work double, spec string"
RUNS = "scenario string, status string, error string, seconds double, cpu_seconds double"
RESULTS = ", ".join(f"{name} {kind}" for name, kind in ({"scenario": "string"} | SWEEP_COLUMNS).items())
SUMMARY = ", ".join(
    [
        *(f"{name} {kind}" for name, kind in SETTING.items()),
        "seeds int, failed int, deadlocks int",
        *(f"{name} double, {name}_ci95 double" for name in MEASURES),
    ]
)
TASKS_PER_CORE = 3
OVERHEAD = 10_000.0
"""microseconds that any scenario takes: its files"""
LEAST = 500_000.0
"""microseconds of work below which a task is not worth its start, if there are more"""
POLL = 0.5
_RUNS_ARROW = schema_of_types(dict(part.split() for part in RUNS.split(", ")))
_SUMMARY_ARROW = schema_of_types(dict(part.split() for part in SUMMARY.split(", ")))

Batches = Iterator[pa.RecordBatch]
SweepProgress = Callable[[int, int], None]
"""called with the number of finished scenarios and of all"""


@dataclass(frozen=True, slots=True)
class Swept:
    """The result of a sweep: two frames over its files, and the numbers of new and earlier scenarios."""

    results: DataFrame
    summary: DataFrame
    ran: int
    before: int


def sweep(
    spark: SparkSession,
    grid: Grid,
    out: str,
    *,
    traces: bool = False,
    retry: bool = False,
    progress: SweepProgress | None = None,
    run: Simulate = simulate,
) -> Swept:
    """Run the scenarios of a grid that are not finished yet, spread over the tasks of a Spark session.

    Args:
        spark: the session that runs them.
        grid: the scenarios, as `thence.lab.sweep.grid` reads them from a file.
        out: the folder of the results; a later call with the same folder continues there.
        traces: also record each execution.
        retry: run scenarios again that failed before.
        progress: called with the number of finished scenarios and the number of all.
        run: simulates one scenario; for tests.
    """
    store = ResultStore(str(out))
    wanted = list(grid.scenarios)
    ids = {each.id for each in wanted}
    before = store.finished() & ids
    if retry or traces:
        before -= _again(store, before, retry=retry, traces=traces)
    left = [each for each in wanted if each.id not in before]
    if left:
        work = _Work(spark, store, {"traces": traces, "warmup": grid.warmup, "batches": grid.batches, "run": run})
        with _Watch(store, ids - before, len(before), progress):
            work.through(left)
    results = results_of(spark, out, wanted)
    return Swept(results, summary(results), len(left), len(before))


def _again(store: ResultStore, before: set[str], *, retry: bool, traces: bool) -> set[str]:
    """Return what must be run again although it has a result: failed ones if asked, and ones that lack their trace."""
    traced = {name.rpartition("/")[0].removeprefix("scenario=") for name in store.names("traces")}
    found = set()
    for id in sorted(before):
        if retry or id not in traced:
            status = store.read(f"results/scenario={id}/{RESULT}").column("status")[0].as_py()
            if (retry and status == "failed") or (traces and id not in traced and status == "done"):
                found.add(id)
    return found


def places(works: Sequence[float], cores: int) -> list[int]:
    """Divide scenarios, longest first, into tasks that shrink as the work does.

    A task takes scenarios until it has a `TASKS_PER_CORE`-th of what is left for each core, but at least `LEAST`: long
    ones stay alone, short ones go together, and the last tasks are so small that cores finish at about the same time.
    """
    left = sum(work + OVERHEAD for work in works)
    least = min(LEAST, left / (TASKS_PER_CORE * cores))
    found, task, taken, most = [], -1, 0.0, 0.0
    for work in works:
        if task < 0 or taken + work + OVERHEAD > most:
            task, taken, most = task + 1, 0.0, max(least, left / (TASKS_PER_CORE * cores))
        found.append(task)
        taken += work + OVERHEAD
        left -= work + OVERHEAD
    return found


def _running(store: ResultStore, how: Row) -> Callable[[Batches], Batches]:
    """Return the function of a task, which runs its scenarios one after the other and reports each result."""

    def work(batches: Batches) -> Batches:
        if not gc.get_freeze_count():  # PySpark collects after each task: what is loaded need not be looked at again
            gc.freeze()
        for batch in batches:
            for row in batch.to_pylist():
                done = run_one(store, row["scenario"], row["spec"], **how)
                yield pa.RecordBatch.from_pylist([done], schema=_RUNS_ARROW)

    return work


@dataclass(slots=True)
class _Work:
    spark: SparkSession
    store: ResultStore
    how: Row

    def through(self, left: list[Planned]) -> None:
        """Run scenarios until each has a result."""
        for name in self.store.names("running"):
            self.store.remove(f"running/{name}")
        while left:
            problem = self._job(left)
            done = self.store.finished()
            dead = set(self.store.names("running")) & {each.id for each in left} - done
            if problem is not None and not dead and all(each.id not in done for each in left):
                raise problem  # no scenario was run: the error is not a scenario's fault
            for each in [each for each in left if each.id in dead]:
                self._alone(each)
            done = self.store.finished()
            left = [each for each in left if each.id not in done]

    def _job(self, some: list[Planned]) -> Exception | None:
        from thence.tables.engines.spark.workers import run_placed

        cores = int(self.spark.conf.get("spark.sql.shuffle.partitions") or 2)
        order = sorted(some, key=lambda each: (-each.work, each.id))  # the longest start first
        rows = [
            (each.id, place, each.work, json.dumps(each.scenario.row()))
            for each, place in zip(order, places([each.work for each in order], cores), strict=True)
        ]
        frame = run_placed(self.spark, rows, SCENARIOS, "place", _running(self.store, self.how), RUNS)
        try:
            frame.write.format("noop").mode("overwrite").save()
        except Exception as error:
            return error
        return None

    def _alone(self, each: Planned) -> None:
        problem = self._job([each])
        if problem is not None and each.id not in self.store.finished():
            reason = (str(problem).splitlines() or [""])[0][:300]
            row = failed(each.scenario.row(), f"the worker died: {reason}")
            write_result(self.store, each.id, row)
        self.store.remove(f"running/{each.id}")


class _Watch:
    """Reports the progress of a sweep, from its results on disk."""

    def __init__(self, store: ResultStore, ids: set[str], before: int, progress: SweepProgress | None) -> None:
        self.store, self.ids, self.before, self.progress = store, ids, before, progress
        self._over = Event()
        self._thread = Thread(target=self._watch, daemon=True)

    def _tell(self) -> None:
        if self.progress is not None:
            self.progress(self.before + len(self.store.finished() & self.ids), self.before + len(self.ids))

    def _watch(self) -> None:
        pause = POLL
        while not self._over.wait(pause):
            start = perf_counter()
            self._tell()
            pause = max(POLL, 10 * (perf_counter() - start))

    def __enter__(self) -> None:
        if self.progress is not None:
            self._tell()
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self.progress is not None:
            self._thread.join()
            self._tell()


# -- results ---------------------------------------------------------------------------------------------------------


def results_of(spark: SparkSession, out: str, planned: Sequence[Planned]) -> DataFrame:
    """Return the results of these scenarios that are there; the workers open the files.

    (Reading the folder through Spark would list it first, with a task for each scenario.)
    """
    store = ResultStore(str(out))

    def read(batches: Batches) -> Batches:
        for batch in batches:
            for id in batch.column(0).to_pylist():
                try:
                    table = store.read(f"results/scenario={id}/{RESULT}")
                except FileNotFoundError:
                    continue
                columns = [
                    pa.array([id] * len(table), pa.string()),
                    *(table.column(name) for name in RESULT_SCHEMA.names),
                ]
                yield from pa.table(columns, names=["scenario", *RESULT_SCHEMA.names]).to_batches()

    return spark.createDataFrame([(each.id,) for each in planned], "scenario string").mapInArrow(read, RESULTS)


def summary(results: DataFrame) -> DataFrame:
    """Return one row per setting: each measure's mean over the seeds with half its 95 % interval.

    With one seed, the interval is that of its batch means.
    """
    return results.groupBy(*SETTING).applyInArrow(_joined, SUMMARY)


def _joined(table: pa.Table) -> pa.Table:
    rows = sorted(table.to_pylist(), key=lambda row: row["seed"])
    good = [row for row in rows if row["status"] == "done"]
    found: Row = {name: rows[0][name] for name in SETTING}
    found |= {"seeds": len(rows), "failed": len(rows) - len(good), "deadlocks": sum(row["deadlock"] for row in good)}
    for name in MEASURES:
        values = [row[name] for row in good if row[name] is not None]
        over = estimate(values)
        alone = good[0][f"{name}_ci95"] if len(values) == len(good) == 1 else None
        found[name] = None if over is None else over.mean
        found[f"{name}_ci95"] = alone if over is None or over.half is None else over.half
    return pa.Table.from_pylist([found], schema=_SUMMARY_ARROW)
