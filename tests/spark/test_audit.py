"""The audit on Spark finds what the definition finds, on many runs in one table, whatever the chunks and blocks."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F
from support.frames import check, expected, findings, frame, long_runs, small_runs
from support.tables import by_definition
from support.traces import random_trace, spoil

from thence.model.events import Event, parse
from thence.model.order import Judgement, Violation, judge
from thence.spark import audit, auditing
from thence.spark import plan as plan_module
from thence.spark.normal import completed, normalise
from thence.spark.pieces import lightened, restored
from thence.spark.plan import Plan, profile, slot_column, slots_of
from thence.spark.unmeasured import KEY, NEVER, unmeasured
from thence.trace.explain import path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(300)


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


def test_thousands_of_small_runs(spark: SparkSession, tmp_path: Path) -> None:
    assert len(small_runs()) > 1900
    with audit(frame(spark, rows(small_runs()), folder=tmp_path)) as result:
        check(findings(result), known(small_runs()))
        verdicts = {row["run"]: row["verdict"] for row in result.verdicts.collect()}
    assert verdicts == {events[0].run: judged(events).verdict for events in small_runs()}
    assert set(verdicts.values()) == {"causal", "violated"}


def test_long_runs_in_chunks(spark: SparkSession, tmp_path: Path) -> None:
    """Four chunks each; in at least 200 runs the path of some violation crosses two or more of them."""
    with audit(frame(spark, rows(long_runs()), folder=tmp_path), chunk_rows=400) as result:
        check(findings(result), known(long_runs()))
    assert all(len(events) >= 1000 for events in long_runs())
    assert sum(_crosses(events, len(events) / 4) for events in long_runs()) >= 200


def _crosses(events: list[Event], chunk: float) -> bool:
    at = {(e.process, e.index): int((e.order or 0) / chunk) for e in events}
    for missing, destination, early in known([events])[events[0].run]["violation"]:  # type: ignore[attr-defined]
        steps = path(events, Violation(events[0].run, destination, early, missing))
        if steps and len({at[step.process, step.index] for step in steps}) > 1:
            return True
    return False


@pytest.mark.parametrize(("chunk_rows", "block"), [(120, 5), pytest.param(700, 1, marks=pytest.mark.soak)])
def test_other_chunks_and_blocks(spark: SparkSession, chunk_rows: int, block: int) -> None:
    some = long_runs()[:4]
    with audit(frame(spark, rows(some)), chunk_rows=chunk_rows, block=block) as result:
        check(findings(result), known(some))


def laid_out(spark: SparkSession, runs: list[list[Event]], parts: int) -> DataFrame:
    """Return runs of events, each run in `parts` partitions of its own, cut along the order."""
    width = max(len(events) for events in runs)
    names = F.array(*(F.lit(events[0].run) for events in runs))
    place = (F.array_position(names, F.col("run")) - 1) * parts + F.floor(F.col("order") * parts / (width + 1))
    return frame(spark, rows(runs)).repartitionById(parts * len(runs), place.cast("int"))


def test_partitions_that_are_chunks_are_judged_where_they_lie(spark: SparkSession) -> None:
    some = long_runs()[:2]
    laid = laid_out(spark, some, 5)
    assert profile(normalise(laid), 500).counts is not None
    with audit(laid, chunk_rows=500) as result:
        check(findings(result), known(some))


def test_partitions_that_moved_are_noticed(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    some = long_runs()[:2]
    laid = laid_out(spark, some, 5)
    looked: list[bool] = []

    def profile_of_another(frame: DataFrame, chunk_rows: int, *, in_place: bool = True) -> Plan:
        looked.append(in_place)
        return profile(normalise(laid) if in_place else frame, chunk_rows, in_place=in_place)

    monkeypatch.setattr(auditing, "profile", profile_of_another)
    with audit(laid.repartition(7, "message"), chunk_rows=500) as result:
        check(findings(result), known(some))
    assert looked == [True, False]


def test_files_that_are_chunks_may_share_a_partition(spark: SparkSession, tmp_path: Path) -> None:
    """Rows within a file need no order."""
    some = long_runs()[:1]
    laid_out(spark, some, 5).orderBy("message").repartitionById(
        5, F.floor(F.col("order") / 202).cast("int")
    ).write.parquet(str(tmp_path / "files"))
    together = spark.read.parquet(str(tmp_path / "files")).coalesce(2)
    assert len(profile(normalise(together), 500).counts or ()) == 5
    with audit(together, chunk_rows=500) as result:
        check(findings(result), known(some))


def gapped(events: DataFrame) -> DataFrame:
    """Return events with orders that leave out ever more numbers."""
    return events.withColumn("order", F.col("order") * F.col("order") * 7 - 1000)


@pytest.mark.parametrize(
    ("lay", "count"), [("scattered", 3), ("gaps", 1), pytest.param("one partition", 3, marks=pytest.mark.soak)]
)
def test_rows_go_to_their_slots_by_themselves(spark: SparkSession, lay: str, count: int) -> None:
    """A few large runs, and small ones beside them unless there is one run only; both sides agree on the slots."""
    some = [*long_runs()[:count], *(small_runs()[:12] if count > 1 else [])]
    laid = frame(spark, rows(some)).repartition(1 if lay == "one partition" else 5, "message")
    laid = gapped(laid) if lay == "gaps" else laid
    plan = profile(normalise(laid), 500)
    assert plan.direct
    assert plan.counts is None
    assert plan.narrow
    assert all(large.chunks >= 4 for large in plan.large.values())
    placed = (
        normalise(laid).select("run", "order", slot_column(plan, F.col("run"), F.col("order")).alias("slot")).toArrow()
    )
    assert placed.column("slot").to_pylist() == slots_of(placed, plan).tolist()
    with audit(laid, chunk_rows=500) as result:
        check(findings(result), known(some))


def test_texts_travel_as_they_are(spark: SparkSession) -> None:
    """A row made light says in Python what it said in Java, whatever is missing, empty or strange."""
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
    events = normalise(spark.createDataFrame(table, schema))
    known = sorted(completed(events.toArrow()).to_pylist(), key=str)
    for plan in (Plan(narrow=True, low=0, only="r"), Plan(narrow=True, low=None), Plan()):
        frame = events if plan.low is not None or not plan.narrow else events.drop("order")
        wanted = known if frame is events else [row | {"order": None} for row in known]
        told = restored(lightened(frame, plan).toArrow().to_batches(), plan).to_pylist()
        assert sorted(told, key=str) == wanted


def test_few_stretches_and_many_are_planned_alike(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    some = [*long_runs()[:2], *small_runs()[:12]]
    laid = frame(spark, rows(some)).repartition(4, "message")
    unordered = laid.withColumn("order", F.when(F.col("run") != some[0][0].run, F.col("order")))
    frames = [normalise(each) for each in (laid, unordered, gapped(laid), laid_out(spark, some[:1], 5), laid.limit(0))]
    few = [profile(each, 500) for each in frames]
    assert [len(each.large) for each in few] == [2, 2, 2, 1, 0]
    monkeypatch.setattr(plan_module, "PARTS", 0)
    assert [profile(each, 500) for each in frames] == few


def test_the_session_keeps_its_setting(spark: SparkSession) -> None:
    before = spark.conf.get(KEY)
    assert before not in (None, NEVER)
    with unmeasured(spark):
        assert str(spark.conf.get(KEY)).removesuffix("b") == NEVER
        with unmeasured(spark):
            pass
        assert str(spark.conf.get(KEY)).removesuffix("b") == NEVER
    assert spark.conf.get(KEY) == before
    with pytest.raises(ZeroDivisionError), unmeasured(spark):
        raise ZeroDivisionError
    assert spark.conf.get(KEY) == before


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


def test_paths(spark: SparkSession) -> None:
    some = long_runs()[:3]
    with audit(frame(spark, rows(some)), chunk_rows=300) as result:
        chosen = result.violations.orderBy("run", "missing", "destination").limit(40)
        found = result.paths(chosen).collect()
    assert len(found) == 40
    for row in found:
        events = next(events for events in some if events[0].run == row["run"])
        violation = next(
            v for v in judged(events).violations if (v.missing, v.destination) == (row["missing"], row["destination"])
        )
        known = path(events, violation)
        assert known is not None
        assert len(row["path"]) == len(known)
        assert row["path"][0]["message"] == row["missing"]
        assert row["path"][-1].asDict() == known[-1].row()


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
        assert result.verdicts.collect()[0].asDict() == {
            "run": "run", "verdict": "violated", "events": 5, "messages": 2, "gaps": 0, "violations": 1,
            "undelivered": 0, "duplicates": 0, "misdelivered": 0, "quarantined": 0,
        }  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize("start", range(100_000, 120_000, 4000))
def test_soak(spark: SparkSession, start: int) -> None:
    runs = [events for seed in range(start, start + 4000) if (events := random_trace(seed))]
    with audit(frame(spark, rows(runs)), chunk_rows=[50, 100_000][start % 8000 == 0]) as result:
        check(findings(result), expected(runs))
