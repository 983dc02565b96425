"""The stream tutorial from top to bottom, in an empty folder: what it shows is what it prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.pages import run_page

PAGE = Path(__file__).parents[2] / "docs" / "tutorials/stream.md"


def test_the_tutorial(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`SparkSession.builder.getOrCreate()` of the page is the session of these tests."""
    monkeypatch.chdir(tmp_path)
    assert run_page(PAGE) == 4
