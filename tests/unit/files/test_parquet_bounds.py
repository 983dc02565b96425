"""Parquet of strangers: names that are not UTF-8, and texts that would take all memory written out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thence
from thence.core.model.events import parse
from thence.tables.files import parquet_reader
from thence.tables.files.parquet import write_parquet
from thence.tables.files.parquet_reader import row_groups
from thence.tables.files.read import open_trace
from thence.tables.files.source import Quarantined
from thence.tables.files.splits import Split


def test_a_column_whose_name_is_not_utf8(tmp_path: Path) -> None:
    rows = 30_000
    numbers = np.arange(1, rows + 1)
    columns = {name: pa.array([text] * rows) for name, text in (("run", "r"), ("process", "a"), ("kind", "internal"))}
    table = pa.table({**columns, "index": pa.array(numbers), "order": pa.array(numbers), "zzqq": columns["run"]})
    path = tmp_path / "bad.parquet"
    pq.write_table(table, path)
    path.write_bytes(path.read_bytes().replace(b"zzqq", b"zz\xff\xfe"))
    (found,) = row_groups(path)
    assert isinstance(found, Quarantined)
    assert found.reason.startswith("it cannot be read as Parquet: 'utf-8' codec can't decode byte 0xff")
    write_parquet(parse("a!1>b b?a1"), tmp_path / "good.parquet")
    with thence.audit(str(tmp_path)) as result:
        assert [Path(row["file"]).name for row in result.quarantine] == ["bad.parquet"]  # type: ignore[arg-type]
        assert [run["verdict"] for run in result.runs] == ["causal"]


_AUDIT = """
import resource, sys
resource.setrlimit(resource.RLIMIT_DATA, (3 << 30, 3 << 30))
import thence
with thence.audit(sys.argv[1], cores=1) as result:
    print(result.verdict, result.events, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""


@pytest.mark.parametrize("name", ["message", "destinations"])
def test_a_long_text_in_every_row_is_held_once(tmp_path: Path, name: str) -> None:
    """25 kilobytes in each of 200,000 rows: Parquet says them once."""
    rows = 200_000
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * 25_000]))
    numbers = np.arange(1, rows + 1)
    same = {key: pa.array([text]).take(pa.array(np.zeros(rows, np.int32))) for key, text in
            (("run", "r"), ("process", "a"), ("kind", "internal"))}  # fmt: skip
    column = pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32)), texts)
    columns = {**same, "index": pa.array(numbers), "order": pa.array(numbers)}
    path = tmp_path / "bomb.parquet"
    pq.write_table(pa.table(columns | {name: column if name == "destinations" else texts}), path)
    assert path.stat().st_size < 12 << 20
    ran = subprocess.run(
        [sys.executable, "-c", _AUDIT, str(path)], capture_output=True, text=True, timeout=300, check=True
    )
    verdict, events, megabytes = ran.stdout.split()
    assert (verdict, int(events)) == ("causal", rows)
    assert int(megabytes) < 1500


def test_a_row_group_that_memory_cannot_hold_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_parquet(parse("a!1>b b?a1"), tmp_path / "t.parquet")
    monkeypatch.setattr(parquet_reader, "free_memory", lambda: 100)
    part = open_trace(tmp_path / "t.parquet").splits().splits[0]
    assert isinstance(part, Split)
    (row,) = (row for batch in parquet_reader.row_group_batches(part) for row in batch.to_pylist())
    assert "row group 1, rows 1 to 2, cannot be read as Parquet: it holds" in str(row["reason"])
