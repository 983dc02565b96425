"""`thence` and `thence.spark` give equal answers on ten shared inputs: audit, cost, stamp and deliver, by value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

import thence
import thence.spark
from thence.core.model.events import Event, parse
from thence.tables.contract.row_validity import row_of
from thence.tables.contract.spark_to_arrow_types import arrow_schema
from thence.tables.judge.result import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEN = {
    "causal": "a!1>bc b?a1 b!1>c c?a1 c?b1",
    "violated": "a!1>bc b?a1 b!1>c c?b1 c?a1",
    "overtaken twice": "a!1>bc a!2>bc b?a1 b?a2 b!1>c c?b1 c?a2 c?a1",
    "undelivered": "a!1>bc b?a1",
    "never delivered": "a!1>bc b?a1 b!1>c c?b1",
    "duplicate": "a!1>b b?a1 b?a1",
    "misdelivered": "a!1>b c?a1 b?a1",
    "crash": "a!1>bc b?a1 a# c?a1",
    "received first": "a!1>b a!2>b b<a2 b<a1 b?a1 b?a2",
    "internal": "a. a!1>b b. b?a1 b!1>a a?b1",
}
"""Runs by name; one more row, of a kind that does not exist, is set aside in the first of them."""
CAUSES = [
    {"account": f"k{key}", "id": f"{key}-{number}", "parents": [f"{key}-{cause}" for cause in causes]}
    for key, told in enumerate(
        [
            [(2, [1]), (1, [])], [(1, []), (2, [1])], [(3, [2, 1]), (2, [1]), (1, [])], [(2, [9])], [(1, []), (1, [])],
            [(1, [2]), (2, [1])], [(1, [1])], [(5, [4]), (4, [3]), (3, [9])], [(2, [1]), (3, [1]), (1, [])], [(1, [])],
        ]
    )
    for number, causes in told
]  # fmt: skip
"""Ten keys: in order, late causes, missing ones, duplicates, cycles."""


def table() -> pa.Table:
    events = [event for run, text in TEN.items() for event in parse(text, run=run)]
    rows = [row_of(event) for event in events]
    rows.append(row_of(Event("causal", "a", 99, "internal")) | {"kind": "sideways"})
    return pa.Table.from_pylist([row | {"order": None} for row in rows], schema=arrow_schema()).drop_columns(["order"])


def plain(rows: Any) -> list[dict[str, Any]]:
    """Return a result's table as sorted dicts; what says where a row was read differs by engine."""
    found = [row.asDict(recursive=True) for row in rows.collect()] if isinstance(rows, DataFrame) else list(rows)
    return sorted(({k: v for k, v in row.items() if k not in ("file", "line")} for row in found), key=repr)


WORDS = {"PRODUCED": "send", "CONSUMED": "deliver", "deliver": "receive", "it's local": "internal"}
ASKED: dict[str, Any] = {"columns": {"kind": "what"}, "kinds": WORDS}


def in_their_words(rows: pa.Table) -> pa.Table:
    """Return a trace as a log with its own words has it."""
    theirs = {ours: word for word, ours in WORDS.items()}
    kinds = pa.array([theirs.get(kind, kind) for kind in rows["kind"].to_pylist()])
    return rows.set_column(rows.column_names.index("kind"), "what", kinds)


def test_audits_are_equal(spark: SparkSession) -> None:
    with thence.audit(table()) as here, thence.spark.audit(spark.createDataFrame(table())) as there:
        assert here.verdict == there.verdict == "violated"
        assert (here.events, here.messages, here.exit_code) == (there.events, there.messages, there.exit_code)
        assert {row["run"]: row["verdict"] for row in here.runs}["causal"] == "unknown"
        for name in ("runs", *COLUMNS):
            ours, theirs = getattr(here, name), getattr(there, name)
            assert (type(ours), isinstance(theirs, DataFrame)) == (list, True), name
            assert plain(ours) == plain(theirs), name
            assert name == "possible" or plain(ours), f"no input shows any of {name}"
        assert plain(here.paths()) == plain(there.paths())
        first = there.violations.orderBy("run", "destination", "missing").limit(1)
        assert plain(here.paths(here.violations[:1])) == plain(there.paths(first))


def test_other_words_for_kinds_are_judged_alike(spark: SparkSession) -> None:
    """A log with its own words, one of them `deliver` for an arrival; a word without a translation is set aside."""
    rows = in_their_words(table())
    assert {*WORDS, "crash", "sideways"} == set(rows["what"].to_pylist())
    frame = spark.createDataFrame(rows)
    with thence.audit(table()) as plainly, thence.spark.audit(frame, **ASKED) as there:
        assert there.verdict == plainly.verdict == "violated"
        for name in ("runs", *COLUMNS):
            assert plain(getattr(plainly, name)) == plain(getattr(there, name)), name
    with thence.spark.audit(frame, columns=ASKED["columns"]) as untranslated:
        assert untranslated.quarantine.count() > 1


@pytest.mark.parametrize("given", [[], ["causal"]])
def test_few_rows_are_judged_alike(spark: SparkSession, given: list[str]) -> None:
    rows = table().filter(pa.compute.is_in(table()["run"], pa.array(given, pa.string())))
    rows = rows.filter(pa.compute.not_equal(rows["kind"], "sideways"))
    frame = spark.createDataFrame(table()).where("run is null") if not given else spark.createDataFrame(rows)
    with thence.audit(rows) as here, thence.spark.audit(frame) as there:
        assert here.verdict == there.verdict == ("causal" if given else "unknown")


def test_costs_are_equal(spark: SparkSession) -> None:
    names = ["ks", "rst", "bss"]
    rows = table().filter(pa.compute.not_equal(table()["kind"], "sideways"))
    with thence.cost(rows, names) as here, thence.spark.cost(spark.createDataFrame(rows), names) as there:
        assert here.recommendation == there.recommendation
        assert here.causal is there.causal is False
        needs = [{"need": need, **row} for need, row in here.needs.items()]
        for ours, theirs in ((here.runs, there.runs), (here.costs, there.costs), (needs, there.needs)):
            assert plain(ours) == plain(theirs)
        assert plain(here.protocols) == plain(there.protocols)


def test_stamps_are_equal(spark: SparkSession) -> None:
    rows = table().filter(pa.compute.not_equal(table()["kind"], "sideways"))
    assert plain(thence.stamp(rows).to_pylist()) == plain(thence.spark.stamp(spark.createDataFrame(rows)))


def test_other_words_for_kinds_cost_the_same_and_are_stamped_alike(spark: SparkSession) -> None:
    rows = table().filter(pa.compute.not_equal(table()["kind"], "sideways"))
    theirs = in_their_words(rows)
    frame = spark.createDataFrame(theirs)
    assert plain(thence.spark.stamp(frame, **ASKED)) == plain(thence.stamp(rows).to_pylist())
    assert plain(thence.stamp(theirs, **ASKED).to_pylist()) == plain(thence.stamp(rows).to_pylist())
    with thence.cost(rows, ["ks"]) as plainly, thence.spark.cost(frame, ["ks"], **ASKED) as there:
        assert plain(plainly.costs) == plain(there.costs)
        assert plain(plainly.runs) == plain(there.runs)
        assert plainly.recommendation == there.recommendation
    with thence.cost(theirs, ["ks"], **ASKED) as here:
        assert plain(plainly.costs) == plain(here.costs)


@pytest.mark.parametrize("policy", [{}, {"policy": "release", "after_rows": 1}])
def test_deliveries_are_equal(spark: SparkSession, policy: dict[str, Any]) -> None:
    given = [row | {"arrival": number} for number, row in enumerate(CAUSES)]
    here = thence.deliver(pa.Table.from_pylist(given), id="id", causes="parents", key="account", **policy)
    frame = spark.createDataFrame(pa.Table.from_pylist(given))
    there = thence.spark.deliver(frame, id="id", causes="parents", key="account", **policy)
    assert set(here.column_names) == set(there.columns)
    assert plain(here.to_pylist()) == plain(there)
    assert {"delivered", "duplicate"} <= set(here["outcome"].to_pylist())
