"""Audit on Spark: verdict, violations and their proofs.

    from thence.spark import audit
    result = audit(events)            # a DataFrame in the trace table's schema, any number of runs
    result.runs                       # one row per run
    result.violations                 # run, destination, early, missing
    result.paths(result.violations)   # the causal path that proves each
    result.close()

Invariant. The result equals `thence.core.model.order.judge` on the rows of every run. One pass over the events is
behind all frames of a result: what it found is one persisted, tagged frame. No row of data passes through the driver;
it sees only numbers (rows and range of `order` of large runs) and whether a run needs another round. No setting of the
session is touched, so audits can run side by side.

Of files (`audit_files`) footers are read first, here; if they say enough, no row passes through the JVM
(`tables.judge.route`). Else the workers read the files and Spark moves the rows. A file that is not a trace is set
aside whole, with the reason.

The stages and the rounds are those of `thence.tables.judge`; this module is the engine: it moves rows between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from thence.errors import MisuseError
from thence.tables.engines.spark.event_columns import in_our_names, with_event_columns
from thence.tables.engines.spark.frame_layout import look_at
from thence.tables.engines.spark.read_events import SHORTEST, SPLIT_BYTES, in_this_folder, read_events
from thence.tables.engines.spark.results import AuditResult
from thence.tables.engines.spark.versions import apply_to_groups, repartition_by_id
from thence.tables.engines.spark.workers import check_frame, check_workers
from thence.tables.files.formats import Format, Paths
from thence.tables.files.read import Trace, open_trace
from thence.tables.files.source import Quarantined, is_packed
from thence.tables.judge import findings
from thence.tables.judge import tasks as stages
from thence.tables.judge.normal_table import completed, refused_table
from thence.tables.judge.packed_rows import PACKED_DDL, packed_rows_of, pointer
from thence.tables.judge.partition_plan import CHUNK_ROWS, FAN, TASKS, Plan
from thence.tables.judge.rounds_over_chunks import Round, judged
from thence.tables.judge.route import Route, choose_route
from thence.tables.judge.row_groups import RowGroup, RowGroupPlace, read_footers, read_groups

FLUSH_ROWS = 1_000_000
"""A task packs about this many rows at a time."""
COMPRESSION = "zstd"
"""Of packed rows, which Java copies several times; many tasks open them. (A run that one task judges whole is better
off without.)
"""
PACK_ROWS = 1_000_000
"""Rows that a task packs at a time, about."""


def audit(
    events: DataFrame,
    *,
    columns: Mapping[str, str] | None = None,
    kinds: Mapping[str, str] | None = None,
    chunk_rows: int = CHUNK_ROWS,
    block: int | None = None,
) -> AuditResult:
    """Audit a table of events on Spark: check that every message was delivered after its causes, and list violations.

    Args:
        events: a DataFrame with the columns of the trace table; those that an audit does not use may be missing, and
            others are ignored.
        columns: the trace's own names for the columns of the contract, as in `{"process": "pid"}`.
        kinds: the trace's own values of `kind`, as in `{"PRODUCED": "send"}`.
        chunk_rows: how many rows one task judges at a time.
        block: how many columns of the clocks a task keeps at a time; as many as fit if not given.
    """
    check_frame(events, "audit")
    check_sizes(chunk_rows, block)
    check_workers(events.sparkSession)
    return audit_frame(with_event_columns(in_our_names(events, columns, kinds)), chunk_rows=chunk_rows, block=block)


def check_sizes(chunk_rows: int, block: int | None) -> None:
    """Reject `chunk_rows` and `block` below 1."""
    if chunk_rows < 1 or (block is not None and block < 1):
        raise MisuseError(f"chunk_rows and block count from 1, found {chunk_rows} and {block}")


def audit_frame(
    frame: DataFrame,
    *,
    chunk_rows: int,
    block: int | None,
    route: Route | None = None,
    refused: Iterable[DataFrame] = (),
) -> AuditResult:
    """Audit a frame of event columns, whose rows travel to their partitions packed.

    `refused` are rows of findings known beforehand.
    """
    route = route or choose_route(look=lambda: look_at(frame, chunk_rows))
    return Job(frame, route, block, pack_frame(frame, route.plan, chunk_rows)).result(refused)


def pointers(spark: SparkSession, route: Route) -> DataFrame:
    """Return packed rows that only name the row groups of each chunk."""
    rows = [
        (
            partition,
            chunk.run,
            chunk.number,
            chunk.rows,
            bytearray(pointer(group.place for group in chunk.stored if isinstance(group, RowGroup))),
        )
        for partition, chunk in enumerate(route.chunks, 1)
    ]
    return spark.createDataFrame(rows, PACKED_DDL)


@dataclass(slots=True)
class Job:
    """One audit under way: the engine of `tables.judge.rounds_over_chunks` on Spark."""

    frame: DataFrame
    route: Route
    block: int | None
    packed: DataFrame
    """The rows, packed."""
    keep: bool = True
    """Pieces are kept for another round; else they are made again."""
    persisted: list[DataFrame] = field(default_factory=list)
    _merged: DataFrame | None = None

    @property
    def plan(self) -> Plan:
        """Return which partition judges which rows."""
        return self.route.plan

    def kept(self, frame: DataFrame) -> DataFrame:
        """Persist a frame until the result is closed."""
        self.persisted.append(frame.persist())
        return frame

    def result(self, refused: Iterable[DataFrame] = ()) -> AuditResult:
        """Return what is found about the frame; `refused` are rows of findings known beforehand."""
        found, troubled = judged(self)
        along_order = set(self.plan.chunked) - troubled
        return AuditResult.of(
            self.frame, self.kept(_union([*found, *refused])), self.persisted, str(self.route), along_order
        )

    def round(self, wanting: set[str] | None) -> Round[DataFrame]:
        """Judge the rows of all partitions, or once more those of some runs, and merge the chunks of each run."""
        packed = _together(self.packed, self.plan.tasks) if wanting is None else self._wanted(wanting)
        if not self.plan.chunked:
            return Round(self._judge(packed))
        if wanting is None and self.keep:
            self.packed = packed = self.kept(packed)
        parts = self.kept(self._judge(packed))
        self._merged = merged = self.kept(self._merge(parts, last_round=wanting is not None))
        troubled, wants = self._state(parts, merged)
        good = (set(self.plan.chunked) if wanting is None else wanting) - troubled - wants
        found = _union([_findings(parts, without=troubled | wants), _findings(merged, only=good)])
        return Round(found.coalesce(max(4, self.plan.tasks // 4)), troubled, wants)  # they are few to a chunk

    def whole(self, runs: Sequence[str]) -> DataFrame:
        """Judge runs whole, one task for each."""
        partition = reduce(
            lambda rest, i: F.when(F.col("run") == runs[i], i).otherwise(rest), range(len(runs)), F.lit(-1)
        )
        packed = self.packed.where(F.col("run").isin(*runs)).select(
            partition.cast("int").alias("partition"), "run", F.lit(None).cast("bigint").alias("chunk"), "payload"
        )
        return self._judge(_together(packed, min(TASKS, len(runs))))

    @property
    def _buckets(self) -> int:
        return max(1, len(self.plan.chunked) and self.plan.partitions // 64)

    def _judge(self, packed: DataFrame) -> DataFrame:
        work = stages.judging(block=self.block, buckets=self._buckets)
        return packed.mapInArrow(in_this_folder(work), findings.DDL)

    def _merge(self, judged: DataFrame, *, last_round: bool) -> DataFrame:
        """Put the summaries of each run together; compare the hashes of ids with them, or by themselves if many."""
        rows = judged.select("tag", "run", "chunk", "index", "payload")
        ids = rows.where(F.col("tag") == findings.IDS)
        summaries, found = rows.where(F.col("tag") == findings.SUMMARY), list[DataFrame]()
        nodes = max(self.plan.large[run].chunks for run in self.plan.chunked)
        while nodes > FAN:  # what a task of the last level takes does not grow with the run
            nodes = -(-nodes // FAN)
            level = self.kept(self._joined(summaries, nodes))
            summaries = level.where(F.col("tag") == findings.SUMMARY).select(*rows.columns)
            found.append(level.where(F.col("tag") != findings.SUMMARY))
        together = summaries.unionByName(ids) if self._buckets == 1 else summaries
        by_run = (
            together.repartition(min(TASKS // 2, len(self.plan.chunked)), "run")
            .sortWithinPartitions("run", "tag", "chunk", "index")
            .groupBy("run")
        )
        found.append(apply_to_groups(by_run, stages.merging(last_round=last_round), findings.DDL))
        if self._buckets > 1:
            found.append(apply_to_groups(ids.groupBy("run", "chunk"), stages.comparing, findings.DDL))
        return reduce(lambda one, two: one.unionByName(two), found)

    def _joined(self, summaries: DataFrame, nodes: int) -> DataFrame:
        """Make one chunk of every `FAN` neighbouring chunks; `nodes` of them at most in a run."""
        numbered = summaries.withColumn("node", F.floor(F.col("chunk") / FAN))
        placed = numbered.repartition(min(self.plan.tasks, nodes * len(self.plan.chunked)), "run", "node")
        in_order = placed.sortWithinPartitions("run", "node", "chunk", "index")
        return apply_to_groups(in_order.groupBy("run", "node"), stages.joining, findings.DDL)

    def _state(self, judged: DataFrame, merged: DataFrame) -> tuple[set[str], set[str]]:
        """Return the runs that are in trouble and those that want another round."""
        open_ones = F.col("tag").isin(findings.TROUBLE, findings.WANT)
        seen = merged.select("run", "tag").unionByName(judged.select("run", "tag")).where(open_ones)
        rows = seen.collect()  # one row for each chunk at most, and one for each run
        troubled = {row["run"] for row in rows if row["tag"] == findings.TROUBLE}
        return troubled, {row["run"] for row in rows if row["tag"] == findings.WANT} - troubled

    def _wanted(self, runs: set[str]) -> DataFrame:
        """Return the packed rows of some runs, each with the messages that its run wants."""
        assert self._merged is not None
        wanted = self._merged.where((F.col("tag") == findings.WANT) & F.col("run").isin(*runs))
        wanted = wanted.select("run", F.col("payload").alias("want"))
        chosen = self.packed.join(F.broadcast(wanted), ["run"]).select("partition", "run", "chunk", "payload", "want")
        return _together(chosen, self.plan.tasks)


def _together(packed: DataFrame, count: int) -> DataFrame:
    """Bring the packed rows of each partition into one of `count` tasks."""
    return repartition_by_id(packed, count, F.col("partition") % count)


def _findings(frame: DataFrame, *, only: set[str] | None = None, without: set[str] | None = None) -> DataFrame:
    chosen = frame.where(F.col("tag").isin(*findings.LISTED_TAGS))
    if only is not None:
        chosen = chosen.where(F.col("run").isin(*only)) if only else chosen.where(F.lit(False))
    if without:
        chosen = chosen.where(F.col("run").isNull() | ~F.col("run").isin(*without))
    return chosen


def _union(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(lambda one, two: one.unionByName(two), (frame.drop("payload", "chunk") for frame in frames))


def tables(batches: Iterable[pa.RecordBatch], plan: Plan) -> Iterator[pa.Table]:
    """Yield rows of a normalised frame as normal tables of about `FLUSH_ROWS` rows."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= FLUSH_ROWS:
            yield completed(pa.Table.from_batches(held), plan.only)
            held, rows = [], 0
    if rows:
        yield completed(pa.Table.from_batches(held), plan.only)


def pack_frame(frame: DataFrame, plan: Plan, chunk_rows: int) -> DataFrame:
    """Return the rows of a normalised frame, packed; `run` need not travel where there is only one."""
    if plan.spread:
        keys = [F.col("run")]
        if "order" in frame.columns:  # neighbours stay together, so that wide rows are few
            keys.append(F.floor(F.col("order") / F.lit(max(1.0, chunk_rows / 8))))
        frame = frame.repartition(max(4, plan.tasks), *(keys if len(keys) > 1 else ()))
    return (frame if plan.only is None else frame.drop("run")).mapInArrow(_packer(plan), PACKED_DDL)


def _packer(plan: Plan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that packs the rows of one partition of a normalised frame."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in tables(batches, plan):
            yield from packed_rows_of(table, plan)

    return pack


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

    return repartition_by_id(tasks, count, F.col("task")).mapInArrow(in_this_folder(split), PACKED_DDL)


def _set_aside(spark: SparkSession, refused: Sequence[Quarantined]) -> list[DataFrame]:
    """Return files that are not traces as rows of the tagged frame."""
    if not refused:
        return []
    rows = pa.concat_tables([refused_table(each) for each in refused])
    return [spark.createDataFrame(rows, findings.DDL)]
