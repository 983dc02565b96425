"""Traces in files: Parquet whose row groups the workers open themselves, and whatever else a reader of ours can read.

Invariant: the result is that of `audit` on the same rows. Footers are read first, here; if they say enough, no row
passes through the JVM (`tables.judge.route`). Else the workers read the files and Spark moves the rows. A file that is
no trace is set aside whole, and said so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from thence.tables.engines.spark.audit import Job, audit_frame, check_sizes, pointers
from thence.tables.engines.spark.event_columns import with_event_columns
from thence.tables.engines.spark.frame_layout import look_at
from thence.tables.engines.spark.read_events import SHORTEST, SPLIT_BYTES, in_this_folder, read_events
from thence.tables.engines.spark.results import AuditResult
from thence.tables.engines.spark.versions import repartition_by_id
from thence.tables.files.formats import Format
from thence.tables.files.paths import Paths
from thence.tables.files.read import Trace, open_trace
from thence.tables.files.source import Quarantined, is_packed
from thence.tables.judge import findings
from thence.tables.judge.normal_table import refused_table
from thence.tables.judge.packed_rows import PACKED_DDL as PACKED
from thence.tables.judge.packed_rows import packed_rows_of
from thence.tables.judge.partition_plan import CHUNK_ROWS, TASKS, Plan
from thence.tables.judge.route import choose_route
from thence.tables.judge.row_groups import RowGroup, RowGroupPlace, read_footers, read_groups

COMPRESSION = "zstd"
"""Of packed rows, which Java copies several times; many tasks open them. (A run that one task judges whole is better
off without.)
"""
PACK_ROWS = 1_000_000
"""Rows that a task packs at a time, about."""


def audit_files(
    spark: SparkSession,
    paths: Paths,
    *,
    columns: Mapping[str, str] | None = None,
    kinds: Mapping[str, str] | None = None,
    chunk_rows: int = CHUNK_ROWS,
    block: int | None = None,
) -> AuditResult:
    """Audit files on Spark, in every format that `thence.audit` reads.

    Args:
        spark: the session that does the work.
        paths: files, folders or globs that the driver can list and the workers can open.
        columns: the trace's own names for the columns of the contract, as in `{"process": "pid"}`.
        kinds: the trace's own values of `kind`, as in `{"PRODUCED": "send"}`.
        chunk_rows: how many rows one task judges at a time.
        block: how many columns of the clocks a task keeps at a time; as many as fit if not given.
    """
    return audit_trace(spark, open_trace(paths, columns=columns, kinds=kinds), chunk_rows=chunk_rows, block=block)


def audit_trace(
    spark: SparkSession, trace: Trace, *, chunk_rows: int = CHUNK_ROWS, block: int | None = None
) -> AuditResult:
    """Audit the tables of a trace; logs with clocks are for `tables.explain.clock_findings`."""
    check_sizes(chunk_rows, block)
    files = {path: kind for path, kind in trace.files.items() if kind != "shiviz"}
    frame = with_event_columns(read_events(spark, files, trace.judged, needs=False, whole=trace.whole), located=True)
    grouped = set(files.values()) == {"parquet"} and trace.in_our_names
    footers = read_footers(files) if grouped else None
    route = choose_route(footers=footers, look=lambda: _look(frame, files, chunk_rows), chunk_rows=chunk_rows)
    refused = [*trace.quarantine]
    if footers is None or not route.by_groups:
        return audit_frame(frame, route=route, chunk_rows=chunk_rows, block=block, refused=_set_aside(spark, refused))
    refused += footers.refused
    whole = route.name == "row groups"
    packed = pointers(spark, route) if whole else _split(spark, footers.groups, route.plan)
    return Job(frame, route, block, packed, keep=whole).result(_set_aside(spark, refused))


def _look(frame: DataFrame, files: Mapping[Path, Format], chunk_rows: int) -> Plan:
    """Return the plan of a frame; where no run can be large, no look at the runs comes first."""
    size = sum(path.stat().st_size for path in files if path.exists())
    rows = size // SHORTEST + 1
    plain = all(kind == "jsonl" and not is_packed(path) for path, kind in files.items())
    if not plain or size > SPLIT_BYTES or rows > chunk_rows:
        return look_at(frame, chunk_rows)
    return Plan(shared=1 + TASKS * size // SPLIT_BYTES, rows=rows)


def _split(spark: SparkSession, groups: list[RowGroup], plan: Plan) -> DataFrame:
    """Return the rows of all row groups, packed; the workers open the files and split the rows."""
    count = min(len(groups), max(TASKS, plan.rows // PACK_ROWS))
    places = [(place % count, *group.place) for place, group in enumerate(groups)]
    tasks = spark.createDataFrame(places, "task int, file string, group int, start bigint, rows bigint")

    def split(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        named = [RowGroupPlace(**row) for batch in batches for row in batch.drop_columns(["task"]).to_pylist()]
        if named:
            yield from packed_rows_of(read_groups(named).combine_chunks(), plan, COMPRESSION)

    return repartition_by_id(tasks, count, F.col("task")).mapInArrow(in_this_folder(split), PACKED)


def _set_aside(spark: SparkSession, refused: Sequence[Quarantined]) -> list[DataFrame]:
    """Return files that are no traces as rows of the tagged frame."""
    if not refused:
        return []
    rows = pa.concat_tables([refused_table(each) for each in refused])
    return [spark.createDataFrame(rows, findings.DDL)]
