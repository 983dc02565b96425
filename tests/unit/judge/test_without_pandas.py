"""Arrow does not import pandas of itself, and does when it is asked to."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
import pyarrow as pa
from thence.tables.files.without_pandas import without_pandas
without_pandas()
table = pa.table({"a": pa.array([1, 2])})
assert "pandas" not in sys.modules
assert table.to_pandas()["a"].tolist() == [1, 2]
assert "pandas" in sys.modules
import pandas
assert pa.array(pandas.Series([1.0, None])).null_count == 1
without_pandas()
"""


def test_pandas_comes_when_it_is_needed() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=300)
