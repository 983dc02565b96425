"""Findings as Parquet files: `runs.parquet` and one file for each list, written a few rows at a time.

Invariant: a file holds what `--json` has under the same name, in the same order; `violations.parquet` has the paths
too. A folder that holds Parquet files already is not written to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from thence.errors import MisuseError
from thence.tables.contract.spark_to_arrow_types import schema_of_types
from thence.tables.judge.proof_path import PATH_TYPE
from thence.tables.judge.result import COLUMNS, RUN_TYPES, AuditResult, ListName, path_rows

OUTPUT_BATCH = 20_000
"""Rows that are held at a time."""
_NUMBERS = ("index", "order", "line")


def write_findings(result: AuditResult, folder: Path, *, paths: int) -> None:
    """Write all findings of a result into a new or empty folder."""
    refuse_full(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "runs.parquet", schema_of_types(RUN_TYPES), result.run_rows)
    for name in COLUMNS:
        _write(folder / f"{name}.parquet", _schema(name), _rows(result, name, paths))


def refuse_full(folder: Path) -> None:
    """Refuse a folder that holds Parquet files already."""
    if any(folder.glob("*.parquet")):
        raise MisuseError(f"{folder} holds Parquet files already; a new or empty folder is accepted")


def _schema(name: ListName) -> pa.Schema:
    fields = [(column, pa.int64() if column in _NUMBERS else pa.string()) for column in COLUMNS[name]]
    return pa.schema(fields + ([("path", PATH_TYPE)] if name == "violations" else []))


def _rows(result: AuditResult, name: ListName, paths: int) -> Iterator[Mapping[str, object]]:
    if name != "violations":
        yield from result.rows(name)
        return
    for row, path in result.proved(paths):
        yield {**row, "path": path_rows(path)}


def _write(path: Path, schema: pa.Schema, rows: Iterable[Mapping[str, object]]) -> None:
    stream = iter(rows)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while some := list(islice(stream, OUTPUT_BATCH)):
            writer.write_batch(pa.RecordBatch.from_pylist(some, schema=schema))
