"""Costs of each protocol on recorded traffic, on Spark: one task for each run, label and protocol.

    from thence.spark import cost
    result = cost(events)             # a DataFrame in the trace table's schema, any number of runs
    result.runs                       # one row per run and label: verdict, basis, which needs its traffic meets
    result.costs                      # one row per run, label and protocol: totals
    result.protocols                  # one row per protocol: totals and means over the causal runs
    result.recommendation             # the cheapest protocol whose needs the trace meets, and why
    result.close()

Invariant: a row of `costs` equals `thence.tables.costing.replay` on the usable rows of its run and label, and a row of
`runs` equals `thence.tables.costing.traffic`. Above `sample` deliveries a run and label is cut to a causally closed
prefix, which `sampled` says. Runs that are not causal are measured too, but stand apart: neither the summary nor the
recommendation counts them. Rows of `<run>/hops` are a protocol's own messages and are left out. A large run is cut
inside the JVM if its rows have `order`; without it, one task must hold all its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from operator import add
from typing import Self

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from thence.core.model.message_names import HOPS
from thence.core.model.plain import Fields
from thence.tables.contract.columns import REPLAYED_COLUMNS
from thence.tables.costing import tasks
from thence.tables.costing.recommend import Recommendation, asked_for
from thence.tables.costing.report import MEANS, CostReport, choice_of, report_of
from thence.tables.engines.local.cost import SAMPLED
from thence.tables.engines.spark.event_columns import in_our_names
from thence.tables.engines.spark.workers import check_frame

PARTITIONS = 200
"""Tasks of a replay at most; else four for each of the session's shuffle partitions."""

_TYPES = {column.name: column.type for column in REPLAYED_COLUMNS}
_SUMS = (
    "runs", "messages", "short_messages", "copies", "entries", "bytes", "paper_bytes", "hops", "hop_bytes", "log",
    "deliveries", "held", "held_rows", "deferred", "deferred_rows", "stuck",
    "warm_messages", "third_copies", "third_bytes", "third_entries", "last_copies", "last_bytes", "last_entries",
)  # fmt: skip
_PARTIAL = ("facts", "held_seconds", "deferred_seconds")
"""totals that are null as soon as one run has none"""


def cost(
    events: DataFrame,
    protocols: Sequence[str] | None = None,
    *,
    sample: int = SAMPLED,
    options: Mapping[str, Fields] | None = None,
    columns: Mapping[str, str] | None = None,
    kinds: Mapping[str, str] | None = None,
) -> CostResult:
    """Replay a table of events through protocols and report what each would have cost.

    Args:
        events: a DataFrame with the columns of the trace table.
        protocols: the names of those to compare; by default those that can be recommended or are quick to rule out.
        sample: replay at most this many deliveries of a run and label.
        options: the options of each protocol, by its name, as in `{"bounded": {"bound": 3}}`.
        columns: the trace's own names for the columns of the contract, as in `{"process": "pid"}`.
        kinds: the trace's own values of `kind`, as in `{"PRODUCED": "send"}`.
    """
    check_frame(events, "cost")
    events = in_our_names(events, columns, kinds, REPLAYED_COLUMNS)
    names = asked_for(protocols, options or {}, sample)
    rows = _typed(events).where(~F.coalesce(F.col("run"), F.lit("")).endswith(HOPS))
    kept = _prefixes(rows, sample) if "order" in events.columns else rows
    work = kept.where((F.col("kind") != "crash") | F.col("kind").isNull()).unionByName(_heads(rows))
    prepared = work.groupBy("run", "label").applyInArrow(tasks.prepare_task(sample), tasks.PREPARED).persist()
    choice = events.sparkSession.createDataFrame([(name,) for name in names], "protocol string")
    jobs = prepared.select("run", "label", "verdict", "payload").crossJoin(F.broadcast(choice))
    cores = int(events.sparkSession.conf.get("spark.sql.shuffle.partitions") or PARTITIONS)
    jobs = jobs.repartition(min(PARTITIONS, 4 * cores), "run", "label", "protocol")
    plain = {name: dict(given) for name, given in (options or {}).items()}
    costs = jobs.mapInArrow(tasks.replay_task(plain), tasks.COSTS).persist()
    return CostResult(prepared, costs)


def _typed(events: DataFrame) -> DataFrame:
    """Return the columns that a replay needs; what is missing, or no value of its type, is null."""

    def column(name: str, kind: str) -> Column:
        return F.col(f"`{name}`").try_cast(kind) if name in events.columns else F.lit(None).cast(kind)

    return events.select(*(column(name, kind).alias(name) for name, kind in _TYPES.items()))


def _prefixes(rows: DataFrame, sample: int) -> DataFrame:
    """Leave out what follows the sample, by `order`; rows that say none are for the task to cut."""
    so_far = Window.partitionBy("run", "label").orderBy("order").rowsBetween(Window.unboundedPreceding, 0)
    delivered = F.sum((F.col("kind") == "deliver").cast("int")).over(so_far)
    numbered = rows.withColumn("_so_far", delivered)
    return numbered.where(F.col("order").isNull() | (F.col("_so_far") <= sample)).drop("_so_far")


def _heads(rows: DataFrame) -> DataFrame:
    """Return one row for each run and label that carries what only the whole run can tell: see `tasks.Head`."""
    crash, deliver = (F.sum((F.col("kind") == kind).cast("int")) for kind in ("crash", "deliver"))
    before = F.coalesce(F.lag("index").over(Window.partitionBy("run", "process").orderBy("index")), F.lit(0))
    gap = F.when(F.col("index") > before + 1, before + 1)
    own = rows.withColumn("_gap", gap).groupBy("run", "label", F.col("process").alias("name")).agg(
        F.count(F.lit(1)).alias("rows"), F.min("_gap").alias("gap"), crash.alias("crashes"),
        deliver.alias("deliveries"),
    )  # fmt: skip
    named = rows.select("run", F.explode("destinations").alias("name")).distinct()
    nothing = {name: F.lit(None).cast("bigint").alias(name) for name in ("rows", "gap", "crashes", "deliveries")}
    named = named.select("run", F.lit(None).cast("string").alias("label"), "name", *nothing.values())
    each = F.struct("label", "name", "rows", "gap", "crashes", "deliveries")
    whole = own.unionByName(named).groupBy("run").agg(F.collect_list(each).alias("parts"))
    has_rows = F.filter("parts", lambda part: part["rows"] > F.coalesce(part["crashes"], F.lit(0)))
    labels = F.array_distinct(F.transform(has_rows, lambda part: part["label"]))
    heads = whole.select("run", F.explode(labels).alias("label"), F.to_json("parts").alias("message"))
    filled = {"kind": F.lit(tasks.HEAD)} | {name: F.col(name) for name in ("run", "label", "message")}
    return heads.select(*(filled.get(n, F.lit(None).cast(kind)).alias(n) for n, kind in _TYPES.items()))


class CostResult:
    """The results of the replays; every property is a DataFrame over two persisted frames."""

    def __init__(self, prepared: DataFrame, costs: DataFrame) -> None:
        """Keep the frames behind the properties; `cost` makes these.

        Args:
            prepared: one row for each run and label, with its traffic.
            costs: one row for each run, label and protocol.
        """
        self._prepared, self.costs = prepared, costs
        self.runs = prepared.drop("payload")

    @property
    def protocols(self) -> DataFrame:
        """One row for each protocol over the causal runs: totals, and means per copy and per message."""
        rows = self.costs.where(F.col("verdict") == "causal")
        measured = F.bool_and(F.col("status") == "measured")  # refused in one run, refused as a whole: no totals
        sums = [F.when(measured, F.sum(name)).otherwise(F.lit(0)).alias(name) for name in _SUMS]
        partial = [F.when(measured & F.bool_and(F.col(n).isNotNull()), F.sum(n)).alias(n) for n in _PARTIAL]
        worst = F.struct(F.col("status") == "measured", F.col("reason").isNull(), "run", "label")
        first = [F.min_by(name, worst).alias(name) for name in ("status", "reason")]
        most = [F.when(measured, F.max(n)).otherwise(F.lit(0)).alias(n) for n in ("bytes_max", "log_max")]
        whole = rows.groupBy("protocol").agg(*first, *sums, *partial, *most)
        return whole.select("*", *_means())

    @property
    def needs(self) -> DataFrame:
        """One row for each need, over the causal runs: whether every run meets it, and why."""
        rows = self.runs.where(F.col("verdict") == "causal")
        each = rows.select("run", "label", F.explode("findings").alias("need", "finding"))
        rank = F.when(~F.col("finding.met"), 0).when(F.col("finding.met").isNull(), 1).otherwise(2)
        by = F.struct(rank.alias("rank"), "run", "label")
        return each.groupBy("need").agg(F.min_by("finding", by).alias("finding")).select("need", "finding.*")

    @cached_property
    def recommendation(self) -> Recommendation:
        """The protocol to choose, and why; only a row for each protocol and need reaches the driver."""
        return choice_of([row.asDict() for row in self.protocols.collect()], [r.asDict() for r in self.needs.collect()])

    @property
    def causal(self) -> bool:
        """Whether there are runs, and every run is causal."""
        verdicts = {row["verdict"] for row in self.runs.select("verdict").distinct().collect()}
        return verdicts == {"causal"}

    def report(self) -> CostReport:
        """Bring all tables to the driver: a row for each run, label and protocol at most, and no events."""
        frames = (self.runs, self.costs, self.protocols, self.needs)
        return report_of(*([row.asDict(recursive=True) for row in frame.collect()] for frame in frames))

    def close(self) -> None:
        """Unpersist the frames behind the result."""
        self.costs.unpersist()
        self._prepared.unpersist()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _means() -> list[Column]:
    def mean(name: str, parts: tuple[str, ...], by: str) -> Column:
        return F.when(F.col(by) > 0, reduce(add, map(F.col, parts)) / F.col(by)).alias(name)

    return [mean(name, parts, by) for name, (parts, by) in MEANS.items()]
