"""A cut of a table on Spark is the cut of the same rows in this process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.traces import Knobs, random_trace

from thence.cli import main
from thence.core.model.events import Event
from thence.tables.contract.columns import EVENT_COLUMNS, ddl
from thence.tables.contract.row_validity import row_of
from thence.tables.engines.spark.excerpt import excerpt_frame, first_events, rows_about
from thence.tables.explain.excerpt import Excerpt, IndexRange, excerpt_rows, message_excerpt
from thence.tables.files.parquet import write_parquet

EVENTS = [
    replace(event, time=0.1 * place, order=place)
    for place, event in enumerate(
        [*random_trace(1, Knobs(steps=150, late=0.8), "one"), *random_trace(2, Knobs(steps=100), "two")]
    )
]
CUTS = [
    Excerpt("one"),
    Excerpt(processes=frozenset({"p1", "p3"})),
    Excerpt("two", times=(16.0, 20.0)),
    Excerpt(orders=(20, 60)),
    Excerpt("one", index_ranges=(IndexRange("p0", 2, 6), IndexRange("p0", 12, 14), IndexRange("p2", 1, 3))),
    Excerpt("none"),
]


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> object:
    names = [column.name for column in EVENT_COLUMNS]
    made = [tuple(row_of(event).get(name) for name in names) for event in EVENTS]
    return spark.createDataFrame(made, ddl(EVENT_COLUMNS, nullable=True)).repartition(3).cache()


@pytest.mark.parametrize("cut", CUTS, ids=range(len(CUTS)))
def test_both_cut_the_same_rows(rows, cut: Excerpt) -> None:  # type: ignore[no-untyped-def]
    wanted: list[Event] = excerpt_rows(EVENTS, cut)
    assert [event for event, _ in first_events(excerpt_frame(rows, cut), 10_000)] == wanted


def test_rows_around_a_message(rows) -> None:  # type: ignore[no-untyped-def]
    wanted = excerpt_rows(EVENTS, message_excerpt(EVENTS, "m3"))
    assert [event for event, _ in rows_about(rows, "m3")] == wanted


def test_an_excerpt_is_the_same_page_whoever_cuts(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_parquet(EVENTS, tmp_path / "run.parquet")
    pages = []
    for engine in ("local", "spark"):
        made = tmp_path / engine / "page.html"
        made.parent.mkdir()
        asked = ["show", str(tmp_path / "run.parquet"), "--engine", engine, "--violation", "2", "--out", str(made)]
        assert main(asked) == 0
        pages.append(made.read_text())
    assert pages[0] == pages[1]
    capsys.readouterr()
