"""Rows that are unusable by themselves have the same reasons on Spark, in frames and in files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from support.odd_rows import GOOD, ODD_ROWS, SCHEMA, TYPES, rows_with, write

from thence.spark import audit, audit_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _rows() -> tuple[list[dict[str, object]], list[str]]:
    """Return the rows of all cases, each in a run of its own, and the reasons."""
    rows = []
    for name, (odd, _) in ODD_ROWS.items():
        rows += [row | ({"run": name} if row["run"] else {}) for row in rows_with(odd)]
    return rows, sorted(reason for _, reason in ODD_ROWS.values())


def test_frames_and_files_of_odd_rows(spark: SparkSession, tmp_path: Path) -> None:
    rows, reasons = _rows()
    with audit(spark.createDataFrame(pa.Table.from_pylist(rows, SCHEMA))) as result:
        assert sorted(row["reason"] for row in result.quarantine.collect()) == reasons
    for suffix in ("jsonl", "parquet"):
        with audit_files(spark, write(rows, tmp_path / f"t.{suffix}")) as result:
            assert sorted(row["reason"] for row in result.quarantine.collect()) == reasons


def test_columns_of_another_type(spark: SparkSession) -> None:
    for column, value, reason in TYPES.values():
        table = pa.Table.from_pylist([GOOD, GOOD], SCHEMA).drop_columns([column])
        given = table.append_column(column, pa.array([value, None]))
        with audit(spark.createDataFrame(given)) as result:
            assert reason in {row["reason"] for row in result.quarantine.collect()}
