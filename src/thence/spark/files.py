"""Traces in files: Parquet that the workers open themselves, so that no row passes through the JVM, and JSONL.

Law. The result is that of `audit` on the same files. Footers are read first, by the workers; if every row group
holds one run and ranges of `order` do not overlap within a run, each chunk is a list of row groups, read where
it is judged. If they do overlap, the workers part the rows of each row group by chunk first. If some hold several runs,
or rows without `order`, the files are read through Spark. A file that is no trace is set aside whole, and said so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from thence.kernels import found
from thence.kernels.rows import NORMAL, kind_codes
from thence.spark import pieces as P
from thence.spark.auditing import CHUNK_ROWS, AuditResult, audit_normal, run_plan
from thence.spark.normal import normalise
from thence.spark.plan import TASKS, Large, Plan, evenly
from thence.spark.reading import SHORTEST, SLICE, read_events
from thence.trace.parquet_reader import unfit
from thence.trace.paths import find_files
from thence.trace.source import is_packed

COMPRESSION = "zstd"
"""Of pieces, which Java copies several times; many tasks open them. (A run that one task judges whole is better off
without.)"""
PACK_ROWS = 1_000_000
"""Rows that a task parts into pieces, about."""
_FOOTER = (
    "file string, part int, start bigint, rows bigint, run string, low bigint, high bigint, "
    "plain boolean, shape string, reason string"
)
_READ = ("run", "process", "index", "kind", "message", "destinations", "label", "order")
_CODED = {"run", "process", "kind", "label", "destinations"}


def audit_files(
    spark: SparkSession, paths: Any, *, chunk_rows: int = CHUNK_ROWS, block: int | None = None
) -> AuditResult:
    """Audit Parquet files, folders or globs that the driver can list and the workers can open."""
    files = [str(file.path) for file in find_files(paths)]
    parts = _footers(spark, files)
    refused = [part for part in parts if part["reason"] is not None]
    set_aside = _set_aside(spark, refused) if refused else None
    frame = _read(spark, parts)
    groups = [part for part in parts if part["reason"] is None and part["rows"]]
    plan, rows = _plan(groups, chunk_rows)
    if plan is not None:
        return run_plan(frame, spark.createDataFrame(rows, P.DDL), plan, block=block, refused=set_aside)
    plan = _mixed(groups, chunk_rows)
    if plan is not None:
        packed = _packed(spark, groups, plan)
        return run_plan(frame, packed, plan, block=block, refused=set_aside, keep=False)
    result = audit_normal(frame, chunk_rows=chunk_rows, block=block)
    return result if set_aside is None else result.with_refused(set_aside)


def audit_jsonl(
    spark: SparkSession, paths: Any, *, chunk_rows: int = CHUNK_ROWS, block: int | None = None
) -> AuditResult:
    """Audit JSONL files, folders or globs; where no run can be large, no look at the runs comes first."""
    files = [file.path for file in find_files(paths)]
    frame = normalise(read_events(spark, dict.fromkeys(files, "jsonl")))
    size = sum(path.stat().st_size for path in files if path.exists())
    rows = size // SHORTEST + 1
    if size > SLICE or rows > chunk_rows or any(is_packed(path) for path in files):
        return audit_normal(frame, chunk_rows=chunk_rows, block=block)
    plan = Plan(shared=1 + TASKS * size // SLICE, rows=rows)
    return run_plan(frame, P.pack(frame, plan, chunk_rows), plan, block=block)


def _read(spark: SparkSession, parts: list[dict[str, Any]]) -> DataFrame:
    """Return the files as Spark reads them, normalised, each row with its file; files of one schema together."""
    shapes: dict[str, list[str]] = {}
    for part in parts:
        if part["reason"] is None and part["part"] == 0:
            shapes.setdefault(part["shape"], []).append(part["file"])
    if not shapes:
        return normalise(spark.createDataFrame([], "run string, process string, index bigint, kind string"))
    frames = [spark.read.parquet(*files).withColumn("file", F.col("_metadata.file_path")) for files in shapes.values()]
    return reduce(lambda one, two: one.unionByName(two, allowMissingColumns=True), map(normalise, frames))


def _footers(spark: SparkSession, files: list[str]) -> list[dict[str, Any]]:
    """Return the row groups of files: numbers in the order of chunks."""
    names = spark.createDataFrame([(file,) for file in files], "file string")
    parts = min(len(files), 64)
    frame = names.repartition(parts).mapInArrow(_read_footers, _FOOTER)
    return [row.asDict() for row in sorted(frame.collect(), key=lambda row: (row["file"], row["part"]))]


def _read_footers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = [part for name in batch.column(0).to_pylist() for part in _groups(name)]
        yield pa.RecordBatch.from_pylist(rows, schema=_FOOTER_SCHEMA)


_FOOTER_SCHEMA = pa.schema(
    [
        ("file", pa.string()), ("part", pa.int32()), ("start", pa.int64()), ("rows", pa.int64()), ("run", pa.string()),
        ("low", pa.int64()),
        ("high", pa.int64()), ("plain", pa.bool_()), ("shape", pa.string()), ("reason", pa.string()),
    ]
)  # fmt: skip


def _groups(name: str) -> Iterator[dict[str, Any]]:
    """Yield the row groups of one file, or why it cannot be used."""
    row: dict[str, Any] = dict.fromkeys(_FOOTER_SCHEMA.names) | {"file": name, "part": 0, "plain": False}
    try:
        with pq.ParquetFile(name) as file:
            reason = unfit(file.schema_arrow)
            if reason is not None:
                yield row | {"reason": f"{reason}; its {file.metadata.num_rows} rows are set aside"}
                return
            row["shape"] = str([(field.name, str(field.type)) for field in file.schema_arrow])
            start = 0
            for number in range(file.metadata.num_row_groups):
                group = file.metadata.row_group(number)
                run, order = (_range(group, column) for column in ("run", "order"))
                plain = run is not None and order is not None and run[0] == run[1]
                ends = {"run": run[0], "low": order[0], "high": order[1]} if run and order else {}
                yield row | {"part": number, "start": start, "rows": group.num_rows, "plain": plain} | ends
                start += group.num_rows
            if start == 0:
                yield row | {"rows": 0, "start": 0}
    except (OSError, EOFError, pa.ArrowException) as error:
        yield row | {"reason": f"it cannot be read as Parquet: {(str(error).splitlines() or [''])[0]}"}


def _range(group: Any, name: str) -> tuple[Any, Any] | None:
    """Return the least and the greatest value of a column without nulls, if the footer says them."""
    for place in range(group.num_columns):
        column = group.column(place)
        if column.path_in_schema == name:
            stats = column.statistics
            known = stats is not None and stats.has_min_max and stats.has_null_count and stats.null_count == 0
            return (stats.min, stats.max) if known else None
    return None


def _plan(groups: list[dict[str, Any]], chunk_rows: int) -> tuple[Plan | None, list[tuple[Any, ...]]]:
    """Make chunks of row groups, if they are plain enough."""
    runs = _by_run(groups)
    if not runs:
        return None, []
    rows: list[tuple[Any, ...]] = []
    large: dict[str, Large] = {}
    for run, own in runs.items():
        if any(one["high"] >= two["low"] for one, two in pairwise(own)):
            return None, []
        total = sum(each["rows"] for each in own)
        size = total if total <= chunk_rows else min(chunk_rows, -(-total // 4))
        chunks = _filled(own, size)
        cuts = tuple(each[0]["low"] for each in chunks[1:]) if len(chunks) > 1 else None
        large[run] = Large(1 + len(rows), cuts)
        for number, chunk in enumerate(chunks):
            payload = json.dumps({"parts": [(g["file"], g["part"], g["start"]) for g in chunk]}).encode()
            count = sum(g["rows"] for g in chunk)
            rows.append((1 + len(rows), run, number if cuts is not None else None, count, bytearray(payload)))
    return Plan(large, 1, sum(row[3] for row in rows)), rows


def _by_run(groups: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the row groups of each run in their order; none at all unless each is of one run and has `order`."""
    if not all(group["plain"] for group in groups):
        return {}
    runs: dict[str, list[dict[str, Any]]] = {}
    for group in sorted(groups, key=lambda each: (each["run"], each["low"])):
        runs.setdefault(group["run"], []).append(group)
    return runs


def _mixed(groups: list[dict[str, Any]], chunk_rows: int) -> Plan | None:
    """Plan chunks of runs whose row groups overlap, as where each process has a file, if the footers say enough."""
    sizes = {run: sum(each["rows"] for each in own) for run, own in _by_run(groups).items()}
    small = sum(rows for rows in sizes.values() if rows <= chunk_rows)
    shared = 1 + small // chunk_rows
    slot = shared
    large: dict[str, Large] = {}
    for run, own in _by_run(groups).items():
        if sizes[run] > chunk_rows:
            high = max(each["high"] for each in own)
            cut = evenly(slot, sizes[run], own[0]["low"], high, chunk_rows)
            if cut is None:
                return None
            large[run] = cut
            slot += cut.chunks
    return Plan(large, shared, sum(sizes.values())) if large else None


def _packed(spark: SparkSession, groups: list[dict[str, Any]], plan: Plan) -> DataFrame:
    """Return the rows of all row groups in pieces; the workers open the files and part the rows."""
    count = min(len(groups), max(TASKS, plan.rows // PACK_ROWS))
    names = [(place % count, each["file"], each["part"], each["start"]) for place, each in enumerate(groups)]
    tasks = spark.createDataFrame(names, "task int, file string, part int, start bigint")

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = [(row["file"], row["part"], row["start"]) for batch in batches for row in batch.to_pylist()]
        if parts:
            yield from P.parts(read_part({"parts": parts}).combine_chunks(), plan, COMPRESSION)

    return tasks.repartitionById(count, F.col("task")).mapInArrow(pack, P.DDL)


def _filled(groups: list[dict[str, Any]], size: int) -> list[list[dict[str, Any]]]:
    chunks: list[list[dict[str, Any]]] = []
    held = size
    for group in groups:
        if held + group["rows"] // 2 >= size:
            chunks.append([])
            held = 0
        chunks[-1].append(group)
        held += group["rows"]
    return chunks


def read_part(spec: dict[str, Any]) -> pa.Table:
    """Return the row groups that a piece names, as a normal table."""
    tables = []
    for name, number, start in spec["parts"]:  # the path of each, its row group, the row it begins with
        with pq.ParquetFile(name, read_dictionary=_coded(name)) as file:
            columns = [column for column in _READ if column in file.schema_arrow.names]
            tables.append(_normal(file.read_row_group(number, columns=columns, use_threads=False), name, start))
    return pa.concat_tables(tables, promote_options="permissive")


def _coded(name: str) -> list[str]:
    """Return the leaf columns of a file that are best read as dictionaries."""
    schema = pq.read_metadata(name).schema
    leaves = (schema.column(place) for place in range(len(schema)))
    return [leaf.path for leaf in leaves if leaf.path.split(".")[0] in _CODED and leaf.physical_type == "BYTE_ARRAY"]


def _normal(table: pa.Table, file: str, start: int) -> pa.Table:
    kind, odd = kind_codes(table.column("kind"))
    count = len(table)
    columns: dict[str, Any] = {"kind": kind, "odd": odd}
    columns["file"] = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([file]))
    columns["line"] = pa.array(np.arange(start + 1, start + count + 1))
    for name in NORMAL.names:
        if name in table.column_names and name not in columns:
            columns[name] = _as(table.column(name), NORMAL.field(name).type)
        elif name not in columns:
            columns[name] = pa.nulls(count, NORMAL.field(name).type)
    return pa.table({name: columns[name] for name in NORMAL.names})


def _as(column: Any, kind: Any) -> Any:
    """Cast a column to a type of the normal table; dictionaries of strings stay."""
    found = column.type
    if pa.types.is_dictionary(found) and pa.types.is_string(found.value_type):
        return column
    if pa.types.is_list(found) and pa.types.is_dictionary(found.value_type):
        return column
    return column if found == kind else column.cast(kind)


def _set_aside(spark: SparkSession, refused: list[dict[str, Any]]) -> DataFrame:
    rows = [(found.QUARANTINE, part["file"], part["reason"]) for part in refused]
    frame = spark.createDataFrame(rows, "tag string, file string, reason string")
    names = [name.split()[0] for name in found.DDL.split(", ")]
    kinds = dict(each.split() for each in found.DDL.split(", "))
    return frame.select(*(F.col(n) if n in frame.columns else F.lit(None).cast(kinds[n]).alias(n) for n in names))
