"""Audit on Spark: is this execution causal, and if not, show me why.

    from thence.spark import audit
    result = audit(events)            # a DataFrame in the trace table's schema, any number of runs
    result.verdicts                   # one row per run
    result.violations                 # run, destination, early, missing
    result.paths(result.violations)   # the causal path that proves each
    result.close()

Law. The result equals `thence.model.order.judge` on the rows of every run. One pass over the events is behind all
frames of a result: what it found is one persisted, tagged frame. No row of data passes through the driver; it sees only
numbers (rows and range of `order` of large runs, or of at most 10,000 stretches of any) and whether a run needs another
round. No setting of the session is touched, so audits can run side by side.

The stages are those of `thence.auditing`; this module moves rows between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial, reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from thence.auditing import stages
from thence.auditing.plan import CHUNK_ROWS, TASKS, Plan
from thence.auditing.route import Route, choose
from thence.auditing.transport import DDL as PIECES
from thence.auditing.transport import pointer
from thence.errors import MisuseError
from thence.kernels import findings
from thence.spark.event_columns import in_our_names, with_event_columns
from thence.spark.layout import look_at
from thence.spark.reading import in_this_folder
from thence.spark.results import AuditResult
from thence.spark.transport import lightened, pack, placed, tables


def audit(
    events: DataFrame,
    *,
    columns: Mapping[str, str] | None = None,
    chunk_rows: int = CHUNK_ROWS,
    block: int | None = None,
) -> AuditResult:
    """Audit a table of events.

    `events` has the columns of the trace table; those that an audit does not use may be missing, and columns that are
    not of that table are not looked at. `columns` says what the frame calls our columns where that is another name, as
    in `{"process": "pid"}`. `chunk_rows` sets how many rows one task judges at a time, `block` how many
    columns of the clocks it keeps at a time (default: as many as fit).
    """
    check_sizes(chunk_rows, block)
    return audit_frame(with_event_columns(in_our_names(events, columns or {})), chunk_rows=chunk_rows, block=block)


def check_sizes(chunk_rows: int, block: int | None) -> None:
    """Refuse sizes that are none."""
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
    """Audit a frame of event columns: its rows are judged where they lie, or go to their slots, or travel in pieces.

    `refused` are rows of findings known beforehand.
    """
    route = route or choose(look=lambda: look_at(frame, chunk_rows))
    if route.name == "in place":
        job = Job(frame, route, block, pack(frame, route.plan, chunk_rows))
        if (first := job.judged_rows(lightened(frame, route.plan))) is not None:
            return job.result([*job.finished(first), *refused])
        route = choose(look=lambda: look_at(frame, chunk_rows, in_place=False))
    job = Job(frame, route, block, pack(frame, route.plan, chunk_rows))
    if route.name == "placed" and (first := job.judged_rows(placed(frame, route.plan))) is not None:
        return job.result([*job.finished(first), *refused])
    return job.result([*job.judged(), *refused])


def pointers(spark: SparkSession, route: Route) -> DataFrame:
    """Return pieces that only name the row groups of each chunk."""
    rows = [
        (slot, chunk.run, chunk.number, chunk.rows, bytearray(pointer(group.place for group in chunk.groups)))
        for slot, chunk in enumerate(route.chunks, 1)
    ]
    return spark.createDataFrame(rows, PIECES)


@dataclass(slots=True)
class Job:
    """One audit under way."""

    frame: DataFrame
    route: Route
    block: int | None
    packed: DataFrame
    """The rows in pieces. They are not made unless they are needed, and seldom kept: few runs need another round."""
    persisted: list[DataFrame] = field(default_factory=list)
    windowed: set[str] = field(default_factory=set)
    """Runs that were judged in chunks, along their `order`: what lies between two sends of them is told by it."""

    @property
    def plan(self) -> Plan:
        """Return which slot judges which rows."""
        return self.route.plan

    def kept(self, frame: DataFrame) -> DataFrame:
        """Persist a frame until the result is closed."""
        self.persisted.append(frame.persist())
        return frame

    def result(self, frames: list[DataFrame]) -> AuditResult:
        """Return what was found about the frame."""
        return AuditResult.of(self.frame, self.kept(_union(frames)), self.persisted, str(self.route), self.windowed)

    def judged(self, *, keep: bool = True) -> list[DataFrame]:
        """Judge pieces: frames of findings that together say everything.

        Unless they are to be kept, pieces are made again if a run needs another round.
        """
        gathered = _together(self.packed, self.plan.tasks)
        if not self.plan.chunked:
            return [self._judge(gathered)]
        if keep:
            self.packed = gathered = self.kept(gathered)
        return self.finished(self.kept(self._judge(gathered)))

    def judged_rows(self, light: DataFrame) -> DataFrame | None:
        """Judge lightened rows, the slots of which lie together; None if they turn out not to."""
        work = stages.judging_rows(self.plan, partial(tables, plan=self.plan), block=self.block, buckets=self._buckets)
        first = self.kept(light.mapInArrow(work, findings.DDL))
        if not first.where(F.col("tag") == findings.MOVED).count():
            return first
        self.persisted.pop().unpersist()
        return None

    def finished(self, first: DataFrame) -> list[DataFrame]:
        """Put the chunks of a first round together; go another round with the runs that need it."""
        merged = self.kept(self._merge(first, last_round=False))
        troubled, wanting = self._state(first, merged)
        good = set(self.plan.chunked) - troubled - wanting
        frames = [_findings(first, without=troubled | wanting), _findings(merged, only=good)]
        if wanting:
            second = self.kept(self._judge(self._wanted(merged, wanting)))
            again = self.kept(self._merge(second, last_round=True))
            more, _ = self._state(second, again)
            frames += [_findings(second, without=more), _findings(again, only=wanting - more)]
            troubled |= more
        self.windowed |= set(self.plan.chunked) - troubled
        computed = _union(frames).coalesce(max(4, self.plan.tasks // 4))  # they are few to a chunk
        return [computed, self._whole(sorted(troubled))] if troubled else [computed]

    @property
    def _buckets(self) -> int:
        return max(1, len(self.plan.chunked) and self.plan.slots // 64)

    def _judge(self, packed: DataFrame) -> DataFrame:
        work = stages.judging(block=self.block, buckets=self._buckets)
        return packed.mapInArrow(in_this_folder(work), findings.DDL)

    def _merge(self, judged: DataFrame, *, last_round: bool) -> DataFrame:
        """Put the summaries of each run together; compare the hashes of ids with them, or by themselves if many."""
        rows = judged.select("tag", "run", "chunk", "index", "payload")
        together = (findings.SUMMARY, findings.IDS) if self._buckets == 1 else (findings.SUMMARY,)
        merged = (
            rows.where(F.col("tag").isin(*together))
            .repartition(min(TASKS // 2, len(self.plan.chunked)), "run")
            .sortWithinPartitions("run", "tag", "chunk", "index")
            .groupBy("run")
            .applyInArrow(stages.merging(last_round=last_round), findings.DDL)
        )
        if findings.IDS in together:
            return merged
        ids = rows.where(F.col("tag") == findings.IDS)
        return merged.unionByName(ids.groupBy("run", "chunk").applyInArrow(stages.comparing, findings.DDL))

    def _state(self, judged: DataFrame, merged: DataFrame) -> tuple[set[str], set[str]]:
        """Return the runs that are in trouble and those that want another round."""
        open_ones = F.col("tag").isin(findings.TROUBLE, findings.WANT)
        seen = merged.select("run", "tag").unionByName(judged.select("run", "tag")).where(open_ones)
        rows = seen.collect()  # one row for each chunk at most, and one for each run
        troubled = {row["run"] for row in rows if row["tag"] == findings.TROUBLE}
        return troubled, {row["run"] for row in rows if row["tag"] == findings.WANT} - troubled

    def _wanted(self, merged: DataFrame, runs: set[str]) -> DataFrame:
        wanted = merged.where((F.col("tag") == findings.WANT) & F.col("run").isin(*runs))
        wanted = wanted.select("run", F.col("payload").alias("want"))
        chosen = self.packed.join(F.broadcast(wanted), ["run"]).select("slot", "run", "chunk", "payload", "want")
        return _together(chosen, self.plan.tasks)

    def _whole(self, runs: list[str]) -> DataFrame:
        slot = reduce(lambda rest, i: F.when(F.col("run") == runs[i], i).otherwise(rest), range(len(runs)), F.lit(-1))
        whole = self.packed.where(F.col("run").isin(*runs)).select(
            slot.cast("int").alias("slot"), "run", F.lit(None).cast("bigint").alias("chunk"), "payload"
        )
        return self._judge(_together(whole, min(TASKS, len(runs))))


def _together(packed: DataFrame, count: int) -> DataFrame:
    """Bring the pieces of each slot into one of `count` partitions."""
    return packed.repartitionById(count, F.col("slot") % count)


def _findings(frame: DataFrame, *, only: set[str] | None = None, without: set[str] | None = None) -> DataFrame:
    chosen = frame.where(F.col("tag").isin(*findings.LISTED))
    if only is not None:
        chosen = chosen.where(F.col("run").isin(*only)) if only else chosen.where(F.lit(False))
    if without:
        chosen = chosen.where(F.col("run").isNull() | ~F.col("run").isin(*without))
    return chosen


def _union(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(lambda one, two: one.unionByName(two), (frame.drop("payload", "chunk") for frame in frames))
