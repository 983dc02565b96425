"""Who does the work: by what was asked, else by an estimate of the memory it takes."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from thence.core.model.events import Event
from thence.errors import MisuseError
from thence.tables.engines.choice import LINE_BYTES, ROW_BYTES, Engine, choose_engine, estimated_rows, free_memory
from thence.tables.files.parquet import write_parquet


def test_what_is_asked_for_is_taken_whatever_the_size(tmp_path: Path) -> None:
    assert choose_engine("spark", []).engine is Engine.SPARK
    assert choose_engine("local", [tmp_path / "none"]).engine is Engine.LOCAL


def test_auto_takes_this_process_for_what_fits_and_says_how_to_get_the_other(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    file.write_bytes(b"x" * 100 * LINE_BYTES)
    enough = 2 * 100 * ROW_BYTES
    fits, does_not = choose_engine("auto", [file], free=enough), choose_engine("auto", [file], free=enough - 2)
    assert (fits.engine, does_not.engine) == (Engine.LOCAL, Engine.SPARK)
    assert "--engine spark" in str(fits)
    assert "--engine local" in str(does_not)


def test_rows_come_from_footers_and_sizes(tmp_path: Path) -> None:
    table, packed, damaged = tmp_path / "t", tmp_path / "p", tmp_path / "d"
    write_parquet([Event("r", "a", i, "internal") for i in range(1, 8)], table)
    packed.write_bytes(gzip.compress(b"x" * 10_000, mtime=0))
    damaged.write_bytes(b"PAR1 and no more")
    assert estimated_rows(table) == 7
    assert estimated_rows(packed) == packed.stat().st_size * 10 // LINE_BYTES
    assert estimated_rows(damaged) == estimated_rows(tmp_path / "none") == 0


def test_an_unknown_engine_is_refused_by_name() -> None:
    with pytest.raises(MisuseError, match="no engine 'flink'; auto, local, spark are accepted"):
        choose_engine("flink", [])


def test_some_memory_is_free() -> None:
    assert free_memory() > 1 << 20
