"""Events as DataFrames, and what an audit on Spark found, run by run, as plain sets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from support.tables import as_found, by_definition
from support.traces import Knobs, random_trace
from thence.core.model.events import Event
from thence.core.model.order import judge

SCHEMA = pa.schema(
    [
        ("run", pa.string()),
        ("process", pa.string()),
        ("index", pa.int64()),
        ("kind", pa.string()),
        ("message", pa.string()),
        ("destinations", pa.list_(pa.string())),
        ("label", pa.string()),
        ("order", pa.int64()),
    ]
)


def frame(spark: Any, events: Sequence[Event], *, order: bool = True, folder: Path | None = None) -> Any:
    """Return events as a DataFrame in the trace table's columns; in files of a folder, if it is large."""
    names = [name for name in SCHEMA.names if order or name != "order"]
    columns = {name: [getattr(e, name) for e in events] for name in names}
    schema = pa.schema([SCHEMA.field(name) for name in names])
    table = pa.table(columns, schema=schema)
    if folder is None:
        return spark.createDataFrame(table)
    for part in range(2):
        half = table.slice(part * len(table) // 2, (part + 1) * len(table) // 2 - part * len(table) // 2)
        pq.write_table(half, folder / f"{part}.parquet")
    return spark.read.parquet(str(folder / "*.parquet"))


def findings(result: Any) -> dict[str | None, dict[str, object]]:
    """Return what a result says of each run, in the form `support.tables.by_definition` has."""
    rows: dict[str | None, list[dict[str, object]]] = defaultdict(list)
    for row in result.tagged.toArrow().to_pylist():
        rows[row["run"]].append(row)
    return {run: as_found(some) for run, some in rows.items()}


@cache
def small_runs(count: int = 2000) -> list[list[Event]]:
    """Return random runs; the number in a run's name is its seed."""
    return [events for seed in range(count) if (events := random_trace(seed))]


@cache
def long_runs(count: int = 205) -> list[list[Event]]:
    """Return random runs of 1,000 events and more, with long flights."""
    return [random_trace(seed, long_knobs(seed)) for seed in range(5000, 5000 + count)]


def long_knobs(seed: int) -> Knobs:
    """Return what a long run of a seed is like."""
    return Knobs(
        processes=[3, 6, 12, 25, 40][seed % 5], steps=1005, fanout=3, late=[0.05, 0.3][seed % 2], slow=0.3,
        lost=0.03, again=0.01, astray=0.01, labels=((None,), ("red", None))[seed % 3 == 0],
    )  # fmt: skip


def expected(runs: list[list[Event]]) -> dict[str | None, dict[str, object]]:
    """Return what the definition says of each run."""
    return {events[0].run: by_definition(judge(events)) for events in runs}


def check(found: dict[str | None, dict[str, object]], wanted: dict[str | None, dict[str, object]]) -> None:
    """Hold one against the other, run by run."""
    assert found.keys() == wanted.keys()
    for run, said in wanted.items():
        assert found[run] == said, f"{run} (the number is the seed)"
