"""Results of an audit on Spark: its lists as DataFrames, and the paths that prove violations.

Invariant: every frame is a view of one persisted, tagged frame. Rows reach the driver only when they are asked for one
by one, and then a few at a time, unless they are few altogether.

`paths(frame, violations, windowed)` returns every violation it was given, once, with `path`; null where the rows do not
bear it out. A run goes to its task whole, unless it was judged along its `order`: of such a run only the rows that lie
between the two sends of some violation asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from thence.core.model.events import Event
from thence.errors import MisuseError
from thence.tables.contract.spark_to_arrow_types import ddl_of_types, schema_of_types
from thence.tables.explain.sentence import PathStep
from thence.tables.judge import findings
from thence.tables.judge import result as base
from thence.tables.judge.coded_rows import DELIVER, SEND
from thence.tables.judge.normal_table import completed, events_of
from thence.tables.judge.proof_path import PATH, shortest_paths
from thence.tables.judge.result import (
    ABSENT,
    CALLED,
    COLUMNS,
    RUN_TYPES,
    SORTED_BY,
    SUMS,
    TAGS,
    Findings,
    ListName,
    ViolationKey,
    key_of,
    path_rows,
    run_row,
    sort_key,
)

ONE_JOB_ROWS = 50_000
"""Up to this many findings are collected by one job."""
ROWS_AT_A_TIME = 20_000
"""Rows of a longer list that are brought here at a time, about."""
VERDICTS_DDL, RUNS = ddl_of_types(RUN_TYPES), schema_of_types(RUN_TYPES)
"""One row per run, as Spark and Arrow call its columns."""
KEY = ("run", "destination", "early", "missing")
_PROOFS = dict.fromkeys(KEY, "string") | {"path": PATH}
PROOFS_DDL, PROOFS_SCHEMA = ddl_of_types(_PROOFS), schema_of_types(_PROOFS)
WINDOWS = 200
"""This many violations of a run are looked up one by one; for more, all rows from the first to the last are taken."""


def paths(frame: DataFrame, violations: DataFrame, windowed: set[str]) -> DataFrame:
    """Return the violations with the path that proves each, from the event columns of all rows."""
    asked = violations.select(*KEY).distinct()
    runs = asked.groupBy("run").agg(F.collect_list(F.struct("missing", "early", "destination")).alias("asked"))
    rows = frame.join(F.broadcast(runs.select("run")), ["run"], "left_semi")
    if windowed:
        rows = _between(rows, asked, windowed)
    proved = rows.groupBy("run").cogroup(runs.groupBy("run")).applyInArrow(_prove, PROOFS_DDL)
    return asked.join(proved, list(KEY), "left").select(*PROOFS_SCHEMA.names)


def _between(frame: DataFrame, asked: DataFrame, windowed: set[str]) -> DataFrame:
    """Return the rows of runs; of those judged along their `order`, only what lies between two sends asked for."""
    ends = asked.select("run", F.explode(F.array("missing", "early")).alias("message")).distinct()
    sends = frame.where(F.col("kind") == SEND).select("run", "message", "order")
    at = sends.join(F.broadcast(ends), ["run", "message"]).groupBy("run", "message").agg(F.min("order").alias("at"))
    first = at.select("run", F.col("message").alias("missing"), F.col("at").alias("low"))
    last = at.select("run", F.col("message").alias("early"), F.col("at").alias("high"))
    windows = asked.join(first, ["run", "missing"]).join(last, ["run", "early"]).groupBy("run")
    every, one = (
        F.collect_list(F.struct("low", "high")),
        F.array(F.struct(F.min("low").alias("low"), F.max("high").alias("high"))),
    )
    merged = windows.agg(F.when(F.count("low") <= WINDOWS, every).otherwise(one).alias("windows"))
    along = F.col("run").isin(*windowed)
    inside = F.exists("windows", lambda each: F.col("order").between(each["low"], each["high"]))
    near = frame.where(along & (F.col("kind") <= DELIVER)).join(F.broadcast(merged), ["run"]).where(inside)
    return near.select(*frame.columns).unionByName(frame.where(~along))


def _prove(rows: pa.Table, asked: pa.Table) -> pa.Table:
    """Return the paths of all violations asked for in one run."""
    (violations,) = asked.column("asked").to_pylist()
    run = asked.column("run")[0].as_py()
    found = shortest_paths(completed(rows), [(each["missing"], each["early"]) for each in violations])
    proved = [{"run": run, **each, "path": path_rows(path)} for each, path in zip(violations, found, strict=True)]
    return pa.Table.from_pylist(proved, schema=PROOFS_SCHEMA)


class SparkFindings(Findings):
    """Findings in a tagged frame; `frame` holds the events themselves."""

    def __init__(self, frame: DataFrame, tagged: DataFrame, persisted: list[DataFrame], windowed: set[str]) -> None:
        """Take the audited frame, the findings, the frames to release, and the runs that were judged in chunks."""
        self.frame, self.tagged, self._persisted, self._windowed = frame, tagged, persisted, windowed
        self._few: dict[ListName, list[base.FindingRow]] | None = None
        self._counts: list[dict[str, Any]] | None = None

    def _tags(self) -> DataFrame:
        """Return one row per run, or null: its sums, and how many rows there are with each tag."""
        counts = [F.count(F.when(F.col("tag") == tag, 1)).alias(tag) for tag in (*TAGS.values(), ABSENT)]
        sums = [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in SUMS]
        return self.tagged.groupBy("run").agg(*sums, *counts)

    def judged_runs(self) -> DataFrame:
        """Return one row per run: `run, verdict, events, messages, gaps`, and how many there are of each finding."""
        clouded = self.clouded()

        def judged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                rows = [run_row(row["run"], row, clouded=row["run"] in clouded) for row in batch.to_pylist()]
                yield pa.RecordBatch.from_pylist(rows, schema=RUNS)

        return self._tags().where(F.col("run").isNotNull()).mapInArrow(judged, VERDICTS_DDL)

    def listed(self, name: ListName) -> DataFrame:
        """Return a list of findings."""
        columns = [F.col(CALLED.get(column, column)).alias(column) for column in COLUMNS[name]]
        chosen = F.col("tag") == TAGS[name]
        if name in ("violations", "possible"):
            clouded = F.col("run").isin(*self.clouded())
            chosen |= (F.col("tag") == ABSENT) & (clouded if name == "possible" else ~clouded)
        return self.tagged.where(chosen).select(*columns)

    def counts(self) -> Iterator[tuple[str, Mapping[str, int]]]:
        yield from ((row["run"], row) for row in self._counted() if row["run"] is not None)

    def _counted(self) -> list[dict[str, Any]]:
        if self._counts is None:
            self._counts = sorted((row.asDict() for row in self._tags().collect()), key=lambda row: str(row["run"]))
        return self._counts

    def lost_in(self) -> set[str | None]:
        if all(row["run"] is not None for row in self._counted()):
            return set()
        lost = self.tagged.where(F.col("run").isNull() & (F.col("tag") == findings.QUARANTINE))
        return {row["file"] for row in lost.select("file").distinct().toLocalIterator()}

    def rows(self, name: ListName) -> Iterator[base.FindingRow]:
        total = sum(row[tag] for row in self._counted() for tag in (*TAGS.values(), ABSENT))
        if total <= ONE_JOB_ROWS:
            yield from self._all()[name]
            return
        count = sum(row[TAGS[name]] + row[ABSENT] for row in self._counted())
        if count:
            ordered = self.listed(name).repartitionByRange(max(1, count // ROWS_AT_A_TIME), *SORTED_BY[name])
            for row in ordered.sortWithinPartitions(*SORTED_BY[name]).toLocalIterator():
                yield row.asDict()

    def _all(self) -> dict[ListName, list[base.FindingRow]]:
        """Return all findings, brought by one job."""
        if self._few is None:
            names = {tag: name for name, tag in TAGS.items()}
            self._few = {name: [] for name in TAGS}
            for row in self.tagged.where(F.col("tag") != findings.RUN).toLocalIterator():
                absent: ListName = "possible" if row["run"] in self.clouded() else "violations"
                name = names.get(row["tag"], absent)
                self._few[name].append({column: row[CALLED.get(column, column)] for column in COLUMNS[name]})
            for name, rows in self._few.items():
                rows.sort(key=lambda row, name=name: sort_key(name, row))  # type: ignore[misc]
        return self._few

    def paths(self, violations: Sequence[base.FindingRow]) -> dict[ViolationKey, list[PathStep]]:
        names = COLUMNS["violations"]
        ddl = ", ".join(f"{name} string" for name in names)
        asked = self.frame.sparkSession.createDataFrame([tuple(row[n] for n in names) for row in violations], ddl)
        proved = (row.asDict(recursive=True) for row in self.proved(asked).toLocalIterator())
        return {key_of(row): [PathStep(**step) for step in row["path"]] for row in proved if row["path"] is not None}

    def proved(self, violations: DataFrame) -> DataFrame:
        """Return violations with the path that proves each."""
        return paths(self.frame, violations, self._windowed)

    def events(self, run: str, messages: Iterable[str]) -> list[Event]:
        here = (F.col("run") == run) & F.col("message").isin(*messages)
        return events_of(completed(self.frame.where(here).toArrow()))

    def runs_in(self, files: Iterable[str]) -> set[str]:
        names = list(files)
        rows = self.frame.where(F.col("file").isin(*names) & F.col("run").isNotNull()).select("run").distinct()
        return {row["run"] for row in rows.toLocalIterator()}

    def close(self) -> None:
        for frame in self._persisted:
            frame.unpersist()
        self._persisted.clear()


class AuditResult(base.AuditResult):
    """The result of an audit on Spark; every list is a DataFrame over one persisted frame."""

    findings: SparkFindings

    @classmethod
    def of(
        cls, frame: DataFrame, tagged: DataFrame, persisted: list[DataFrame], route: str, windowed: set[str]
    ) -> AuditResult:
        """Return the result of one audit of a frame.

        Args:
            frame: the events that were audited.
            tagged: the findings, each with its kind in the column `tag`.
            persisted: frames to be released when the result is closed.
            route: how the trace was judged, for `route`.
            windowed: the runs that were judged in chunks.
        """
        return cls(SparkFindings(frame, tagged, persisted, windowed), "spark", route)

    @property
    def runs(self) -> DataFrame:
        """One row per run: `run, verdict, events, messages, gaps`, and how many there are of each finding."""
        return self.findings.judged_runs()

    @property
    def tagged(self) -> DataFrame:
        """Every finding, and the counts of every run, in one frame; `tag` says what a row is."""
        return self.findings.tagged

    @property
    def violations(self) -> DataFrame:
        """One row per destination and missing message: `run, destination, early, missing`."""
        return self.findings.listed("violations")

    @property
    def possible(self) -> DataFrame:
        """Violations unless a missing or set-aside row hides a delivery: `run, destination, early, missing`."""
        return self.findings.listed("possible")

    @property
    def undelivered(self) -> DataFrame:
        """Copies never delivered: `run, message, destination`."""
        return self.findings.listed("undelivered")

    @property
    def duplicates(self) -> DataFrame:
        """Deliveries after the first of a copy: `run, message, destination`."""
        return self.findings.listed("duplicates")

    @property
    def misdelivered(self) -> DataFrame:
        """Deliveries where a message was not addressed: `run, message, destination`."""
        return self.findings.listed("misdelivered")

    @property
    def quarantine(self) -> DataFrame:
        """Rows set aside: where they stood, what they said, and `reason`."""
        return self.findings.listed("quarantine")

    def paths(self, violations: DataFrame | None = None) -> DataFrame:
        """Return violations with `path`: a shortest causal chain from the send of missing to that of early.

        Args:
            violations: rows of the frame of that name, as in `result.paths(result.violations.limit(100))`; all if not
                given.
        """
        if isinstance(violations, int):
            raise MisuseError(f"paths takes violations, not a number; paths(result.violations.limit({violations}))")
        return self.findings.proved(self.violations if violations is None else violations)
