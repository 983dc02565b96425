"""Rows that are unusable by themselves have one reason, whatever they came in; `tests/spark` has the other engine."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.odd_rows import ODD_ROWS, SCHEMA, TYPES, rows_with, write

import thence
from thence.tables.engines.local.chunks import audit_files
from thence.tables.files.read import open_trace


def reasons(result: object) -> list[str]:
    return [row["reason"] for row in result.quarantine]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ODD_ROWS)
def test_a_row_among_good_ones(name: str, tmp_path: Path) -> None:
    odd, reason = ODD_ROWS[name]
    rows = rows_with(odd)
    files = [write(rows, tmp_path / f"t.{suffix}") for suffix in ("jsonl", "parquet")]
    table = pa.Table.from_pylist(rows, SCHEMA)
    coded = table.set_column(1, "process", table.column("process").dictionary_encode())
    found = [thence.audit(given) for given in (*map(str, files), table, coded)]
    found += [audit_files(open_trace(file)) for file in files]
    assert [reasons(each) for each in found] == [[reason]] * len(found)
    assert len({str([run | {"run": 0} for run in each.runs]) for each in found}) == 1, "gaps and counts are the same"


@pytest.mark.parametrize("name", TYPES)
def test_a_value_of_another_type(name: str, tmp_path: Path) -> None:
    column, value, reason = TYPES[name]
    file = write(rows_with({column: value}), tmp_path / "t.jsonl")
    assert reasons(thence.audit(str(file))) == [reason]
    assert reasons(audit_files(open_trace(file))) == [reason]
