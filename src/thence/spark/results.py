"""What an audit on Spark found: the result of every audit, and each of its lists as a DataFrame.

Law. Every frame is a view of one persisted, tagged frame. Rows reach the driver only when they are asked for one by
one, and then a few at a time, unless they are few altogether.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from thence.auditing import result as base
from thence.auditing.result import (
    CALLED,
    COLUMNS,
    COUNTS,
    SORTED_BY,
    TAGS,
    Findings,
    Key,
    ListName,
    RunRow,
    key_of,
    sort_key,
)
from thence.auditing.tables import completed, events_of
from thence.kernels import findings
from thence.model.events import Event
from thence.spark.proofs import paths
from thence.trace.explain import Step

FEW = 50_000
"""Up to so many findings are brought here at once, by one job."""
SHARE = 20_000
"""Rows of a longer list that are brought here at a time, about."""


class SparkFindings(Findings):
    """Findings in a tagged frame; `frame` holds the events themselves."""

    def __init__(self, frame: DataFrame, tagged: DataFrame, persisted: list[DataFrame], windowed: set[str]) -> None:
        """Take what was audited, what was found, what is to be let go, and the runs that were judged in chunks."""
        self.frame, self.tagged, self._persisted, self._windowed = frame, tagged, persisted, windowed
        self._few: dict[ListName, list[base.Row]] | None = None
        self._counts: list[Row] | None = None

    def verdicts(self) -> DataFrame:
        """Return one row per run: `run, verdict, events, messages, gaps`, and how many there are of each finding."""
        counts = [F.count(F.when(F.col("tag") == tag, 1)).alias(COUNTS[name]) for name, tag in TAGS.items()]
        sums = [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("events", "messages", "gaps")]
        runs = self.tagged.groupBy("run").agg(*sums, *counts)
        hidden = (F.col("quarantined") > 0) | (F.col("gaps") > 0)
        verdict = F.when(F.col("violations") > 0, "violated").when(hidden, "unknown").otherwise("causal")
        return runs.select("run", verdict.alias("verdict"), "events", "messages", "gaps", *COUNTS.values())

    def listed(self, name: ListName) -> DataFrame:
        """Return a list of findings."""
        columns = [F.col(CALLED.get(column, column)).alias(column) for column in COLUMNS[name]]
        return self.tagged.where(F.col("tag") == TAGS[name]).select(*columns)

    def _counted(self) -> list[Row]:
        if self._counts is None:
            self._counts = self.verdicts().collect()
        return self._counts

    def runs(self) -> Iterator[RunRow]:
        """Yield the runs, by name."""
        rows = (row.asDict() for row in self._counted() if row["run"] is not None)
        yield from sorted(rows, key=lambda row: row["run"])  # type: ignore[misc]

    def rows(self, name: ListName) -> Iterator[base.Row]:
        """Yield the rows of a list, sorted."""
        total = sum(row[COUNTS[each]] for row in self._counted() for each in COLUMNS)
        if total <= FEW:
            yield from self._all()[name]
            return
        count = sum(row[COUNTS[name]] for row in self._counted())
        if count:
            ordered = self.listed(name).repartitionByRange(max(1, count // SHARE), *SORTED_BY[name])
            for row in ordered.sortWithinPartitions(*SORTED_BY[name]).toLocalIterator():
                yield row.asDict()

    def _all(self) -> dict[ListName, list[base.Row]]:
        """Return all findings, brought by one job."""
        if self._few is None:
            names = {tag: name for name, tag in TAGS.items()}
            self._few = {name: [] for name in TAGS}
            for row in self.tagged.where(F.col("tag") != findings.RUN).toLocalIterator():
                name = names[row["tag"]]
                self._few[name].append({column: row[CALLED.get(column, column)] for column in COLUMNS[name]})
            for name, rows in self._few.items():
                rows.sort(key=lambda row, name=name: sort_key(name, row))  # type: ignore[misc]
        return self._few

    def paths(self, violations: Sequence[base.Row]) -> dict[Key, list[Step]]:
        """Return the causal paths that prove some violations."""
        names = COLUMNS["violations"]
        ddl = ", ".join(f"{name} string" for name in names)
        asked = self.frame.sparkSession.createDataFrame([tuple(row[n] for n in names) for row in violations], ddl)
        proved = (row.asDict(recursive=True) for row in self.proved(asked).toLocalIterator())
        return {key_of(row): [Step(**step) for step in row["path"]] for row in proved if row["path"] is not None}

    def proved(self, violations: DataFrame) -> DataFrame:
        """Return violations with the path that proves each."""
        return paths(self.frame, violations, self._windowed)

    def events(self, run: str, messages: Iterable[str]) -> list[Event]:
        """Return the rows of a run that name some messages."""
        here = (F.col("run") == run) & F.col("message").isin(*messages)
        return events_of(completed(self.frame.where(here).toArrow()))

    def runs_in(self, files: Iterable[str]) -> set[str]:
        """Return the runs that have rows in some files."""
        names = list(files)
        rows = self.frame.where(F.col("file").isin(*names) & F.col("run").isNotNull()).select("run").distinct()
        return {row["run"] for row in rows.toLocalIterator()}

    def close(self) -> None:
        """Let go of what was persisted."""
        for frame in self._persisted:
            frame.unpersist()
        self._persisted.clear()


class AuditResult(base.AuditResult):
    """What an audit found; every list is a DataFrame over one persisted frame."""

    findings: SparkFindings

    @classmethod
    def of(
        cls, frame: DataFrame, tagged: DataFrame, persisted: list[DataFrame], route: str, windowed: set[str]
    ) -> AuditResult:
        """Return the result of one audit of a frame."""
        return cls(SparkFindings(frame, tagged, persisted, windowed), "spark", route)

    @property
    def verdicts(self) -> DataFrame:
        """One row per run: `run, verdict, events, messages, gaps`, and how many there are of each finding."""
        return self.findings.verdicts()

    @property
    def tagged(self) -> DataFrame:
        """Every finding, and the counts of every run, in one frame; `tag` says what a row is."""
        return self.findings.tagged

    @property
    def violations(self) -> DataFrame:
        """One row per destination and missing message: `run, destination, early, missing`."""
        return self.findings.listed("violations")

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

    def paths(self, violations: DataFrame) -> DataFrame:
        """Return violations with `path`: a shortest causal chain from the send of missing to that of early."""
        return self.findings.proved(violations)
