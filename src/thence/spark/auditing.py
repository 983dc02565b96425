"""Audit on Spark: is this execution causal, and if not, show me why.

    from thence.spark import audit
    result = audit(events)            # a DataFrame in the trace table's schema, any number of runs
    result.verdicts                   # one row per run
    result.violations                 # run, destination, early, missing
    result.paths(result.violations)   # the causal path that proves each
    result.close()

Law. The result equals `thence.model.order.judge` on the rows of every run. One pass over the events is behind
all frames of a result: what it found is one persisted, tagged frame. No row of data passes through the driver;
it sees only numbers (rows and range of `order` of large runs, or of at most 10,000 stretches of any) and whether a run
needs another round.

Small runs are judged whole, many to a task. A large run with `order` is cut into chunks that are judged apart and put
together (`kernels.chunk`, `kernels.compose`). A large run without `order`, or with one in which causes do not come
first, is judged whole by one task.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from thence.errors import MisuseError
from thence.kernels import found
from thence.spark import pieces as P
from thence.spark import tasks
from thence.spark.normal import normalise
from thence.spark.plan import TASKS, Plan, profile
from thence.spark.unmeasured import unmeasured

CHUNK_ROWS = 1_000_000
"""Rows of a chunk, and the size up to which a run is judged whole."""

_FINDINGS = (found.RUN, found.VIOLATION, found.UNDELIVERED, found.DUPLICATE, found.MISDELIVERED, found.QUARANTINE)


def audit(events: DataFrame, *, chunk_rows: int = CHUNK_ROWS, block: int | None = None) -> AuditResult:
    """Audit a table of events.

    `events` has the columns of the trace table; those that an audit does not use may be missing. Rows refused
    by a reader may come along with their `reason`, `file` and `line`. `chunk_rows` sets how many rows one task
    judges at a time, `block` how many columns of the clocks it keeps at a time (default: as many as fit).
    """
    if chunk_rows < 1 or (block is not None and block < 1):
        raise MisuseError(f"chunk_rows and block count from 1, found {chunk_rows} and {block}")
    return audit_normal(normalise(events), chunk_rows=chunk_rows, block=block)


def audit_normal(frame: DataFrame, *, chunk_rows: int, block: int | None) -> AuditResult:
    """Audit a normalised frame: its rows go to their slots as they are, or in pieces if there are too many slots."""
    plan = profile(frame, chunk_rows)
    audit = _Audit(plan, block, P.pack(frame, plan, chunk_rows))
    if plan.counts is not None:
        if (first := audit.judged_rows(P.lightened(frame, plan))) is not None:
            return audit.result(frame, audit.finished(first))
        plan = profile(frame, chunk_rows, in_place=False)
        audit = _Audit(plan, block, P.pack(frame, plan, chunk_rows))
    if plan.direct and (first := audit.judged_rows(P.placed(frame, plan))) is not None:
        return audit.result(frame, audit.finished(first))
    return audit.result(frame, audit.judged())


def run_plan(
    frame: DataFrame,
    packed: DataFrame,
    plan: Plan,
    *,
    block: int | None,
    refused: DataFrame | None = None,
    keep: bool = True,
) -> AuditResult:
    """Judge the pieces of a normalised frame; `refused` are quarantine rows known beforehand.

    Unless they are to be kept, pieces are made again if a run needs another round.
    """
    audit = _Audit(plan, block, packed)
    frames = audit.judged(keep=keep)
    if refused is not None:
        frames.append(refused)
    return audit.result(frame, frames)


@dataclass(slots=True)
class _Audit:
    plan: Plan
    block: int | None
    packed: DataFrame
    """The rows in pieces. They are not made unless they are needed, and seldom kept: few runs need another round."""
    persisted: list[DataFrame] = field(default_factory=list)

    def kept(self, frame: DataFrame) -> DataFrame:
        """Persist a frame until the result is closed."""
        self.persisted.append(frame.persist())
        return frame

    def result(self, frame: DataFrame, frames: list[DataFrame]) -> AuditResult:
        """Return what was found about a frame."""
        return AuditResult(frame, self.kept(_union(frames)), self.persisted)

    def judged(self, *, keep: bool = True) -> list[DataFrame]:
        """Judge pieces: frames of findings that together say everything."""
        placed = _placed(self.packed, self.plan.tasks)
        if not self.plan.chunked:
            return [self._judge(placed)]
        if keep:
            self.packed = placed = self.kept(placed)
        return self.finished(self.kept(self._judge(placed)))

    def judged_rows(self, light: DataFrame) -> DataFrame | None:
        """Judge lightened rows, the slots of which lie together; None if they turn out not to."""
        work = tasks.judging_rows(self.plan, block=self.block, buckets=self._buckets)
        with unmeasured(light.sparkSession):
            first = self.kept(light.mapInArrow(work, found.DDL))
            if not first.where(F.col("tag") == found.MOVED).count():
                return first
        self.persisted.pop().unpersist()
        return None

    def finished(self, first: DataFrame) -> list[DataFrame]:
        """Put the chunks of a first round together; go another round with the runs that need it."""
        composed = self.kept(self._compose(first, last_round=False))
        troubled, wanting = self._state(first, composed)
        good = set(self.plan.chunked) - troubled - wanting
        frames = [_findings(first, without=troubled | wanting), _findings(composed, only=good)]
        if wanting:
            second = self.kept(self._judge(self._wanted(composed, wanting)))
            again = self.kept(self._compose(second, last_round=True))
            more, _ = self._state(second, again)
            frames += [_findings(second, without=more), _findings(again, only=wanting - more)]
            troubled |= more
        told = _union(frames).coalesce(max(4, self.plan.tasks // 4))  # they are computed, and few to a chunk
        return [told, self._whole(sorted(troubled))] if troubled else [told]

    @property
    def _buckets(self) -> int:
        return max(1, len(self.plan.chunked) and self.plan.slots // 64)

    def _judge(self, packed: DataFrame) -> DataFrame:
        return packed.mapInArrow(tasks.judging(block=self.block, buckets=self._buckets), found.DDL)

    def _compose(self, judged: DataFrame, *, last_round: bool) -> DataFrame:
        """Put the summaries of each run together; compare the hashes of ids with them, or by themselves if many."""
        rows = judged.select("tag", "run", "chunk", "index", "payload")
        together = (found.SUMMARY, found.IDS) if self._buckets == 1 else (found.SUMMARY,)
        composed = (
            rows.where(F.col("tag").isin(*together))
            .repartition(min(TASKS // 2, len(self.plan.chunked)), "run")
            .sortWithinPartitions("run", "tag", "chunk", "index")
            .groupBy("run")
            .applyInArrow(tasks.composing(last_round=last_round), found.DDL)
        )
        if found.IDS in together:
            return composed
        ids = rows.where(F.col("tag") == found.IDS)
        return composed.unionByName(ids.groupBy("run", "chunk").applyInArrow(tasks.comparing, found.DDL))

    def _state(self, judged: DataFrame, composed: DataFrame) -> tuple[set[str], set[str]]:
        """Return the runs that are in trouble and those that want another round."""
        open_ones = F.col("tag").isin(found.TROUBLE, found.WANT)
        seen = composed.select("run", "tag").unionByName(judged.select("run", "tag")).where(open_ones)
        rows = seen.collect()  # one row for each chunk at most, and one for each run
        troubled = {row["run"] for row in rows if row["tag"] == found.TROUBLE}
        return troubled, {row["run"] for row in rows if row["tag"] == found.WANT} - troubled

    def _wanted(self, composed: DataFrame, runs: set[str]) -> DataFrame:
        wanted = composed.where((F.col("tag") == found.WANT) & F.col("run").isin(*runs))
        wanted = wanted.select("run", F.col("payload").alias("want"))
        chosen = self.packed.join(F.broadcast(wanted), ["run"]).select("slot", "run", "chunk", "payload", "want")
        return _placed(chosen, self.plan.tasks)

    def _whole(self, runs: list[str]) -> DataFrame:
        slot = reduce(lambda rest, i: F.when(F.col("run") == runs[i], i).otherwise(rest), range(len(runs)), F.lit(-1))
        whole = self.packed.where(F.col("run").isin(*runs)).select(
            slot.cast("int").alias("slot"), "run", F.lit(None).cast("bigint").alias("chunk"), "payload"
        )
        return self._judge(_placed(whole, min(TASKS, len(runs))))


def _placed(packed: DataFrame, count: int) -> DataFrame:
    """Bring the pieces of each slot into one of `count` partitions."""
    return packed.repartitionById(count, F.col("slot") % count)


def _findings(frame: DataFrame, *, only: set[str] | None = None, without: set[str] | None = None) -> DataFrame:
    chosen = frame.where(F.col("tag").isin(*_FINDINGS))
    if only is not None:
        chosen = chosen.where(F.col("run").isin(*only)) if only else chosen.where(F.lit(False))
    if without:
        chosen = chosen.where(F.col("run").isNull() | ~F.col("run").isin(*without))
    return chosen


def _union(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(lambda one, two: one.unionByName(two), (frame.drop("payload", "chunk") for frame in frames))


LISTS = {
    "violations": found.VIOLATION,
    "undelivered": found.UNDELIVERED,
    "duplicates": found.DUPLICATE,
    "misdelivered": found.MISDELIVERED,
    "quarantine": found.QUARANTINE,
}
"""The lists of findings, and the tag of each in the tagged frame."""

_COPY = {"run": "run", "message": "message", "destination": "destination"}
_ROW = ("run", "process", "index", "kind", "message", "label", "order", "file", "line", "reason")
VIEWS: dict[str, dict[str, str]] = {
    "violations": {"run": "run", "destination": "destination", "early": "early", "missing": "message"},
    "undelivered": _COPY,
    "duplicates": _COPY,
    "misdelivered": _COPY,
    "quarantine": {name: name for name in _ROW},
}
"""The columns of each list, and what they are called in the tagged frame."""


class AuditResult:
    """What an audit found; every property is a DataFrame over one persisted frame."""

    def __init__(self, frame: DataFrame, tagged: DataFrame, persisted: list[DataFrame]) -> None:
        """Take what was audited, normalised, the tagged frame, and all that has to be let go in the end."""
        self._frame = frame
        self._tagged = tagged
        self._persisted = persisted

    @property
    def verdicts(self) -> DataFrame:
        """One row per run: `run, verdict, events, messages, gaps`, and how many there are of each finding."""
        tags = {name if name != "quarantine" else "quarantined": tag for name, tag in LISTS.items()}
        counts = [F.count(F.when(F.col("tag") == tag, 1)).alias(name) for name, tag in tags.items()]
        sums = [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("events", "messages", "gaps")]
        runs = self._tagged.groupBy("run").agg(*sums, *counts)
        hidden = (F.col("quarantined") > 0) | (F.col("gaps") > 0)
        verdict = F.when(F.col("violations") > 0, "violated").when(hidden, "unknown").otherwise("causal")
        return runs.select("run", verdict.alias("verdict"), "events", "messages", "gaps", *tags)

    @property
    def findings(self) -> DataFrame:
        """Every finding in one frame; `tag` says what it is (see `LISTS` and `VIEWS`)."""
        return self._tagged.where(F.col("tag") != found.RUN)

    def _list(self, name: str) -> DataFrame:
        columns = [F.col(column).alias(called) for called, column in VIEWS[name].items()]
        return self._tagged.where(F.col("tag") == LISTS[name]).select(*columns)

    @property
    def violations(self) -> DataFrame:
        """One row per destination and missing message: `run, destination, early, missing`."""
        return self._list("violations")

    @property
    def undelivered(self) -> DataFrame:
        """Copies never delivered: `run, message, destination`."""
        return self._list("undelivered")

    @property
    def duplicates(self) -> DataFrame:
        """Deliveries after the first of a copy: `run, message, destination`."""
        return self._list("duplicates")

    @property
    def misdelivered(self) -> DataFrame:
        """Deliveries where a message was not addressed: `run, message, destination`."""
        return self._list("misdelivered")

    @property
    def quarantine(self) -> DataFrame:
        """Rows set aside: where they stood, what they said, and `reason`."""
        return self._list("quarantine")

    def with_refused(self, refused: DataFrame) -> AuditResult:
        """Return the result with more rows in quarantine."""
        return AuditResult(self._frame, _union([self._tagged, refused]), self._persisted)

    def paths(self, violations: DataFrame) -> DataFrame:
        """Return violations with `path`: a shortest causal chain from the send of missing to that of early."""
        from thence.spark.paths import paths

        return paths(self._frame, violations)

    def close(self) -> None:
        """Let go of what was persisted."""
        for frame in self._persisted:
            frame.unpersist()
        self._persisted.clear()

    def __enter__(self) -> AuditResult:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
