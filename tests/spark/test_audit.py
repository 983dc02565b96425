"""The audit on Spark finds what the definition finds, on many runs in one table, whatever the chunks and blocks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F
from support.definition import check_paths, told
from support.tables import by_definition, check, expected, findings, frame, long_runs, small_runs
from support.traces import random_trace, spoil

from thence.core.model.events import Event, order_of, parse
from thence.core.model.order import Judgement, judge
from thence.spark import audit
from thence.tables.engines.spark.audit import tables
from thence.tables.engines.spark.event_columns import with_event_columns
from thence.tables.engines.spark.frame_layout import look_at
from thence.tables.judge.normal_table import completed
from thence.tables.judge.partition_plan import Plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WATCHED = ("spark.sql.execution.arrow.maxBytesPerBatch", "spark.sql.shuffle.partitions")


@cache
def judgements() -> dict[str, Judgement]:
    """What the definition says of runs, as far as it was asked."""
    return {}


def judged(events: list[Event]) -> Judgement:
    """Judge one of the small or long runs by definition, once."""
    run = events[0].run
    if run not in judgements():
        judgements()[run] = judge(events)
    return judgements()[run]


def known(runs: list[list[Event]]) -> dict[str | None, dict[str, object]]:
    """Return what the definition says of some of the small or long runs."""
    return {events[0].run: by_definition(judged(events)) for events in runs}


def rows(runs: list[list[Event]]) -> list[Event]:
    return [event for events in runs for event in events]


def test_hundreds_of_small_runs(spark: SparkSession, tmp_path: Path) -> None:
    """A sample of those that `tests/unit/auditing` judges in this process."""
    some = small_runs()[:200]
    with audit(frame(spark, rows(some), folder=tmp_path)) as result:
        check(findings(result), known(some))
        verdicts = {row["run"]: row["verdict"] for row in result.runs.collect()}
        assert {run["run"]: run["verdict"] for run in result.run_rows} == verdicts
    assert verdicts == {events[0].run: judged(events).verdict for events in some}
    assert set(verdicts.values()) == {"causal", "violated"}


def test_long_runs_in_chunks(spark: SparkSession, tmp_path: Path) -> None:
    """Four chunks each; the others of these runs are judged by `tests/unit/auditing`."""
    some = long_runs()[:20]
    with audit(frame(spark, rows(some), folder=tmp_path), chunk_rows=400) as result:
        check(findings(result), known(some))


@pytest.mark.parametrize(
    ("chunk_rows", "block", "fan"),
    [(60, 5, 3), pytest.param(700, 1, 16, marks=pytest.mark.soak), pytest.param(25, None, 16, marks=pytest.mark.soak)],
)
def test_other_chunks_and_blocks(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, chunk_rows: int, block: int | None, fan: int
) -> None:
    """Many chunks are merged along a tree; with a small fan it has several levels."""
    monkeypatch.setattr("thence.tables.engines.spark.audit.FAN", fan)
    some = long_runs()[:4]
    assert min(map(len, some)) / chunk_rows > fan or chunk_rows > 100
    with audit(frame(spark, rows(some)), chunk_rows=chunk_rows, block=block) as result:
        check(findings(result), known(some))


def laid_out(spark: SparkSession, runs: list[list[Event]], parts: int) -> DataFrame:
    """Return runs of events, each run in `parts` partitions of its own, cut along the order."""
    width = max(len(events) for events in runs)
    names = F.array(*(F.lit(events[0].run) for events in runs))
    place = (F.array_position(names, F.col("run")) - 1) * parts + F.floor(F.col("order") * parts / (width + 1))
    return frame(spark, rows(runs)).repartitionById(parts * len(runs), place.cast("int"))


def test_partitions_that_are_chunks(spark: SparkSession) -> None:
    some = long_runs()[:2]
    with audit(laid_out(spark, some, 5), chunk_rows=500) as result:
        assert result.route.startswith("packed")
        check(findings(result), known(some))


def gapped(events: DataFrame) -> DataFrame:
    """Return events with orders that leave out ever more numbers."""
    return events.withColumn("order", F.col("order") * F.col("order") * 7 - 1000)


@pytest.mark.parametrize(
    ("lay", "count"), [("scattered", 3), ("gaps", 1), pytest.param("one partition", 3, marks=pytest.mark.soak)]
)
def test_rows_go_to_their_slots(spark: SparkSession, lay: str, count: int) -> None:
    """A few large runs, and small ones beside them unless there is one run only."""
    some = [*long_runs()[:count], *(small_runs()[:12] if count > 1 else [])]
    laid = frame(spark, rows(some)).repartition(1 if lay == "one partition" else 5, "message")
    laid = gapped(laid) if lay == "gaps" else laid
    plan = look_at(with_event_columns(laid), 500)
    assert all(large.chunks >= 4 for large in plan.large.values())
    with audit(laid, chunk_rows=500) as result:
        check(findings(result), known(some))


def test_texts_travel_as_they_are(spark: SparkSession) -> None:
    """A row says in Python what it said in Java, whatever is missing, empty or strange."""
    names = ["a", "", None, "\x1f", "é\U0010ffff"]
    indexes = {3: None, 4: -5, 5: 2**28, 6: 2**28 - 1, 7: 2**63 - 1, 8: -(2**63)}
    table = [
        (
            "r",
            names[i % 5],
            indexes.get(i, i),
            "send" if i % 2 else "explode",
            names[i // 5 % 5],
            told,
            names[i // 25 % 5],
            i,
        )
        for i in range(125)
        for told in (None, [], [names[i % 5]], ["a", names[i // 5 % 5], "b"])
    ]
    schema = (
        "run string, process string, index long, kind string, message string, destinations array<string>, "
        "label string, order long"
    )
    events = with_event_columns(spark.createDataFrame(table, schema))
    known = sorted(completed(events.toArrow()).to_pylist(), key=str)
    for plan in (Plan(), Plan(only="r")):
        frame = events if plan.only is None else events.drop("run")
        told = [row for table in tables(frame.toArrow().to_batches(), plan) for row in table.to_pylist()]
        assert sorted(told, key=str) == known


def test_large_runs_are_planned(spark: SparkSession) -> None:
    some = [*long_runs()[:2], *small_runs()[:12]]
    laid = frame(spark, rows(some)).repartition(4, "message")
    unordered = laid.withColumn("order", F.when(F.col("run") != some[0][0].run, F.col("order")))
    frames = [
        with_event_columns(each)
        for each in (laid, unordered, gapped(laid), laid_out(spark, some[:1], 5), laid.limit(0))
    ]
    assert [len(look_at(each, 500).large) for each in frames] == [2, 2, 2, 1, 0]


def test_two_audits_at_once_do_not_disturb_each_other(spark: SparkSession) -> None:
    """Nor do they touch a setting of the session."""
    some = [long_runs()[:1], long_runs()[1:2]]
    before = spark.sparkContext.getConf().getAll()
    settings = {name: spark.conf.get(name) for name in WATCHED}

    def judge_one(runs: list[list[Event]]) -> dict[str | None, dict[str, object]]:
        with audit(frame(spark, rows(runs)), chunk_rows=300) as result:
            assert {name: spark.conf.get(name) for name in WATCHED} == settings
            return findings(result)

    with ThreadPoolExecutor(2) as both:
        found = list(both.map(judge_one, some))
    for runs, each in zip(some, found, strict=True):
        check(each, known(runs))
    assert spark.sparkContext.getConf().getAll() == before


def test_columns_of_the_users_own_change_nothing(spark: SparkSession) -> None:
    """Names that a reader of ours would use, and names that differ from ours in case only."""
    events = frame(spark, parse("a!1>bc b?a1 b!1>c c?b1 c?a1"))
    own = events.select("*", F.lit("mine").alias("reason"), F.lit(7).alias("line"), F.lit("x").alias("odd"),
                        F.lit("f").alias("file"), F.lit("other").alias("Run"), F.lit(9).alias("INDEX"))  # fmt: skip
    with audit(events) as plain, audit(own) as result:
        assert told(result) == told(plain)
        assert result.verdict == "violated"


def test_destinations_that_are_no_names(spark: SparkSession) -> None:
    """An empty name, none at all, and one that looks strange."""
    schema = (
        "run string, process string, index long, kind string, message string, destinations array<string>, order long"
    )
    names = {"empty": "", "none": None, "odd": "a\x1fb"}
    table = [
        row
        for run, name in names.items()
        for row in (
            (run, "a", 1, "send", "a1", ["b", name], 1),
            (run, "b", 1, "deliver", "a1", None, 2),
            (run, "a", 2, "send", "a2", [], 3),
        )
    ]
    events = spark.createDataFrame(table, schema)
    with audit(events, chunk_rows=2) as result:
        told = {(row["run"], row["reason"]) for row in result.quarantine.where("kind = 'send'").collect()}
        lost = [(row["run"], row["message"], row["destination"]) for row in result.undelivered.collect()]
    assert told == {
        ("empty", "an entry of destinations is empty; a name is accepted"),
        ("none", "an entry of destinations is missing"),
    }
    assert lost == [("odd", "a1", "a\x1fb")]


def test_spoilt_runs_whole_and_in_chunks(spark: SparkSession) -> None:
    runs = [events for seed in range(90) if (events := spoil(random_trace(seed), seed))]
    wanted = expected(runs)
    for chunk_rows in (60, 100_000):
        with audit(frame(spark, rows(runs)), chunk_rows=chunk_rows) as result:
            check(findings(result), wanted)


def test_without_order_and_shuffled(spark: SparkSession) -> None:
    some = [*small_runs()[:200], *long_runs()[:5]]
    events = frame(spark, rows(some), order=False).repartition(3, "message")
    with audit(events, chunk_rows=500) as result:
        check(findings(result), expected(some))


def test_order_in_some_partitions_only(spark: SparkSession) -> None:
    """A run whose rows have an `order` in one partition and none in the others is judged without."""
    some = long_runs()[:1]
    laid = laid_out(spark, some, 4)
    events = laid.withColumn("order", F.when(F.spark_partition_id() == 1, F.col("order")))
    with audit(events, chunk_rows=500) as result:
        check(findings(result), known(some))


@pytest.mark.parametrize("order", ["true", "wrong", "none"])
def test_paths(spark: SparkSession, order: str) -> None:
    """Of a run in chunks, of runs whose order is none, and of spoilt ones: always there, shortest, over usable rows."""
    some = [*long_runs()[:1], *(spoil(random_trace(seed), seed) for seed in range(30))]
    events = rows(some)
    if order == "wrong":
        events = [replace(e, order=len(events) - (e.order or 0)) for e in events]
    runs = {run: order_of([e for e in events if e.run == run]) for run in {e.run for e in events}}
    with audit(frame(spark, events, order=order != "none"), chunk_rows=300) as result:
        asked = min(60, result.violations.count())
        assert check_paths(result, runs if order != "none" else {r[0].run: r for r in some}, asked) == asked > 40


def test_a_first_look(spark: SparkSession) -> None:
    with audit(frame(spark, parse("a!1>bc b?a1 b!1>c c?b1 c?a1"))) as result:
        assert [row.asDict() for row in result.violations.collect()] == [
            {"run": "run", "destination": "c", "early": "b1", "missing": "a1"}
        ]
        steps = result.paths(result.violations).first()
        assert steps is not None
        assert [(s["process"], s["kind"], s["message"]) for s in steps["path"]] == [
            ("a", "send", "a1"), ("b", "deliver", "a1"), ("b", "send", "b1"),
        ]  # fmt: skip
        assert result.runs.collect()[0].asDict() == {
            "run": "run", "verdict": "violated", "events": 5, "messages": 2, "gaps": 0, "violations": 1, "possible": 0,
            "undelivered": 0, "duplicates": 0, "misdelivered": 0, "quarantined": 0,
        }  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize("start", range(100_000, 120_000, 4000))
def test_soak(spark: SparkSession, start: int) -> None:
    runs = [events for seed in range(start, start + 4000) if (events := random_trace(seed))]
    with audit(frame(spark, rows(runs)), chunk_rows=[50, 100_000][start % 8000 == 0]) as result:
        check(findings(result), expected(runs))
