"""One task of a sweep, without Spark: runs a scenario and writes its result.

Invariant: a scenario's files depend on the scenario alone: same seed, same bytes, whichever process runs it. They are
written under another name and then moved, the trace first and the result last, so a result that is there is whole, and
its trace too. A scenario that fails is a result with its error. How long it took stands in a table of its own, since no
two runs agree.

    DIR/results/scenario=ID/result.parquet      one row
    DIR/traces/scenario=ID/trace.parquet        if asked for
    DIR/timings/scenario=ID/timing.parquet      one row
    DIR/running/ID                              while it runs
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from thence.core.model.plain import Row
from thence.lab.simulator import Result, Scenario, scenario_of, simulate
from thence.lab.simulator.metrics import PER_COPY, STAMPS
from thence.tables.contract.spark_to_arrow_types import schema_of_types

RESULT, TRACE, TIMING = "result.parquet", "trace.parquet", "timing.parquet"
SETTING = {
    "protocol": "string", "processes": "int", "messages": "bigint", "fanout": "string", "workload": "string",
    "rate": "double", "delay": "string", "fifo": "boolean", "to_self": "boolean", "labels": "int", "bound": "bigint",
    "crashes": "int", "links": "int", "loss": "double", "duplicates": "double", "partitions": "string",
    "options": "string",
}  # fmt: skip
"""what a scenario says but for its seed and name; partitions and options as JSON"""
OUTCOME = {
    "sent": "bigint", "copies": "bigint", "deliveries": "bigint", "held_copies": "bigint", "deferred_sends": "bigint",
    "doubled_copies": "bigint", "lost_copies": "bigint", "hops": "bigint", "simulated_seconds": "double",
    "crashed": "int", "stuck": "bigint", "deadlock": "boolean", "early": "bigint", "log_size_max": "bigint",
    "held_at_once": "double", "measured_messages": "bigint", "measured_copies": "bigint",
}  # fmt: skip
MEASURES = (
    *(f"{name}_per_copy" for name in PER_COPY), *(f"{name}_per_message" for name in STAMPS),
    "copies_per_message", "deferred", "log_size",
)  # fmt: skip
"""each a mean over the steady state, with `<name>_ci95`, half of its 95 % interval from batch means"""

SWEEP_COLUMNS: dict[str, str] = {
    "run": "string",
    "seed": "bigint",
    **SETTING,
    "status": "string",
    "error": "string",
    **OUTCOME,
    **{f"{name}{end}": "double" for name in MEASURES for end in ("", "_ci95")},
}
RESULT_SCHEMA = schema_of_types(SWEEP_COLUMNS)
TIMING_SCHEMA = pa.schema([("seconds", pa.float64()), ("cpu_seconds", pa.float64())])

Simulate = Callable[..., Result]
"""`thence.lab.simulator.simulate`, or what a test puts in its place"""


@dataclass(frozen=True, slots=True)
class ResultStore:
    """A folder that the driver and the workers both see: a path, or an address that pyarrow knows (s3://, hdfs://)."""

    address: str

    def _open(self) -> tuple[fs.FileSystem, str]:
        if "://" in self.address:
            found, path = fs.FileSystem.from_uri(self.address)
            return found, path
        return fs.LocalFileSystem(), os.path.abspath(self.address)

    def write(self, name: str, data: bytes) -> None:
        """Write a file, whole or not at all."""
        files, base = self._open()
        folder, _, last = f"{base}/{name}".rpartition("/")
        files.create_dir(folder, recursive=True)
        hidden = f"{folder}/.{last}.{os.getpid()}"
        with files.open_output_stream(hidden) as stream:
            stream.write(data)
        files.move(hidden, f"{folder}/{last}")

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        files, base = self._open()
        try:
            files.delete_file(f"{base}/{name}")
        except FileNotFoundError:
            pass

    def names(self, under: str) -> list[str]:
        """Return the files below a folder, by their paths in it."""
        files, base = self._open()
        selector = fs.FileSelector(f"{base}/{under}", recursive=True, allow_not_found=True)
        start = len(f"{base}/{under}/")
        return sorted(i.path[start:] for i in files.get_file_info(selector) if i.type == fs.FileType.File)

    def read(self, name: str) -> pa.Table:
        """Return a Parquet file as a table."""
        files, base = self._open()
        return pq.ParquetFile(files.open_input_file(f"{base}/{name}")).read()

    def finished(self) -> set[str]:
        """Return the ids of scenarios that have a result."""
        return {folder.removeprefix("scenario=") for folder, _, last in _split(self.names("results")) if last == RESULT}


def _split(names: list[str]) -> list[tuple[str, str, str]]:
    return [name.rpartition("/") for name in names]


def run_one(
    store: ResultStore, id: str, spec: str, *, traces: bool, warmup: float, batches: int, run: Simulate = simulate
) -> Row:
    """Run a scenario and write its files; return how it went."""
    store.write(f"running/{id}", b"")
    started, cpu = perf_counter(), process_time()
    row, trace = _row(json.loads(spec), traces=traces, warmup=warmup, batches=batches, run=run)
    if trace is not None:
        store.write(f"traces/scenario={id}/{TRACE}", trace)
    timing = {"seconds": perf_counter() - started, "cpu_seconds": process_time() - cpu}
    store.write(f"timings/scenario={id}/{TIMING}", _parquet([timing], TIMING_SCHEMA))
    write_result(store, id, row)
    store.remove(f"running/{id}")
    return {"scenario": id, "status": row["status"], "error": row["error"], **timing}


def write_result(store: ResultStore, id: str, row: Row) -> None:
    """Write a result: from now on the scenario is finished."""
    store.write(f"results/scenario={id}/{RESULT}", _parquet([row], RESULT_SCHEMA))


def failed(spec: Row, error: str) -> Row:
    """Return the result of a scenario that could not be run to its end."""
    return _setting(spec) | {"status": "failed", "error": error}


def _row(spec: Row, *, traces: bool, warmup: float, batches: int, run: Simulate) -> tuple[Row, bytes | None]:
    try:
        scenario = scenario_of(spec)
        result = run(scenario, trace=traces, warmup=warmup, batches=batches)
        return _setting(spec) | _done(result), _trace(result) if traces else None
    except Exception as error:  # a failed scenario is a row, not a dead job
        return failed(spec, f"{type(error).__name__}: {error}"), None


def _setting(spec: Row) -> Row:
    row = {name: spec.get(name, getattr(_DEFAULT, name)) for name in ("run", "seed", *SETTING)}
    row["rate"], row["loss"], row["duplicates"] = (float(row[n]) for n in ("rate", "loss", "duplicates"))
    for name in ("partitions", "options"):
        row[name] = json.dumps(row[name], sort_keys=True)
    return row


_DEFAULT = Scenario()


def _done(result: Result) -> Row:
    outcome, measures = result.outcome, result.measures
    assert measures is not None
    row: Row = {
        "status": "done", "error": None, "sent": outcome.messages, "copies": outcome.copies,
        "deliveries": outcome.deliveries, "held_copies": outcome.holds, "deferred_sends": outcome.deferred,
        "doubled_copies": outcome.duplicates, "lost_copies": outcome.lost, "hops": sum(outcome.hops.values()),
        "simulated_seconds": outcome.seconds, "crashed": len(outcome.crashed), "stuck": len(outcome.stuck),
        "deadlock": outcome.deadlock, "early": measures.early, "log_size_max": measures.log_size_max,
        "held_at_once": measures.held_at_once, "measured_messages": measures.messages,
        "measured_copies": measures.copies,
    }  # fmt: skip
    for name in MEASURES:
        found = measures[name]
        row[name], row[f"{name}_ci95"] = (None, None) if found is None else (found.mean, found.half)
    return row


def _trace(result: Result) -> bytes:
    assert result.recorder is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / TRACE
        result.recorder.write(path)
        return path.read_bytes()


def _parquet(rows: list[Row], schema: pa.Schema) -> bytes:
    """Return rows as a Parquet file; plainly, for one row is neither found nor read sooner with more beside it."""
    sink = pa.BufferOutputStream()
    table = pa.Table.from_pylist(rows, schema=schema)
    pq.write_table(table, sink, compression="none", use_dictionary=False, write_statistics=False)
    return bytes(sink.getvalue())
