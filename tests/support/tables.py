"""Events as tables and DataFrames, under our column names and others, and findings as plain sets.

Both forms serve to compare an audit with the definition, run by run.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from support.traces import Knobs, random_trace
from thence.core.model.events import Event
from thence.core.model.order import Judgement, judge
from thence.tables.contract.spark_to_arrow_types import arrow_schema
from thence.tables.judge.coded_rows import KIND_CODES, NORMAL


def normal(events: Sequence[Event], *, order: bool = True) -> pa.Table:
    """Return events as a normal table."""
    columns: dict[str, list[object]] = {name: [getattr(e, name, None) for e in events] for name in NORMAL.names}
    columns["kind"] = [KIND_CODES[e.kind] for e in events]
    if not order:
        columns["order"] = [None] * len(events)
    return pa.table(columns, schema=NORMAL)


def by_definition(found: Judgement) -> dict[str, object]:
    """Return what the definition says, as counters."""
    return {
        "events": found.events,
        "messages": found.messages,
        "gaps": len(found.gaps),
        "violation": Counter((v.missing, v.destination, v.early) for v in found.violations),
        "possible": Counter((v.missing, v.destination, v.early) for v in found.possible),
        "undelivered": Counter((c.message, c.destination) for c in found.undelivered),
        "duplicate": Counter((c.message, c.destination) for c in found.duplicates),
        "misdelivered": Counter((c.message, c.destination) for c in found.misdelivered),
        "quarantine": Counter(
            (q.event.process, q.event.index, q.event.kind, q.event.message, q.reason) for q in found.quarantine
        ),
    }


def as_found(rows: list[dict[str, object]]) -> dict[str, object]:
    """Return the rows of a tagged table of one run, as counters."""
    result: dict[str, object] = {"events": 0, "messages": 0, "gaps": 0}
    picked: dict[str, Counter[tuple[object, ...]]] = {
        tag: Counter() for tag in ("violation", "possible", "undelivered", "duplicate", "misdelivered", "quarantine")
    }
    for row in rows:
        tag = str(row["tag"]).replace("absent", "violation")
        if tag == "run":
            for name in ("events", "messages", "gaps"):
                result[name] += row[name] or 0  # type: ignore[operator]
        elif tag in ("violation", "possible"):
            picked[tag][row["message"], row["destination"], row["early"]] += 1
        elif tag == "quarantine":
            picked[tag][tuple(row[name] for name in ("process", "index", "kind", "message", "reason"))] += 1
        elif tag in picked:
            picked[tag][row["message"], row["destination"]] += 1
    return result | picked


SCHEMA = pa.schema(list(arrow_schema(nullable=True))[:8])
"""the columns of the trace table up to `order`"""


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


CALLED = {"process": "pid", "index": "seq", "kind": "type", "destinations": "to whom"}
_OWN = {"process": "a program", "index": "an index of words", "line": 7, "Pid": "no pid"}


def other_table(events: Sequence[Event], called: Mapping[str, str] = CALLED) -> pa.Table:
    """Return events as a table in other names, or in ours if none are said."""
    columns = {
        called.get(name, name): pa.array([getattr(e, name) for e in events], SCHEMA.field(name).type)
        for name in SCHEMA.names
    }
    own = {name: pa.array([value] * len(events)) for name, value in _OWN.items()} if called else {}
    return pa.table(columns | own)


def write_other(events: Sequence[Event], path: Path, called: Mapping[str, str] = CALLED) -> None:
    """Write events in other names, in the format that the name of the file says."""
    table = other_table(events, called)
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=max(1, len(table) // 3))
        return
    rows = ({name: value for name, value in row.items() if value is not None} for row in table.to_pylist())
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
