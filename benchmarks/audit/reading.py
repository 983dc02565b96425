"""CPU seconds that reading takes until rows are coded: `python benchmarks/audit/reading.py FILE...`, best of three."""

from __future__ import annotations

import sys
from time import process_time

import pyarrow as pa

from thence.tables.contract.columns import JUDGED_COLUMNS
from thence.tables.files.read import open_trace
from thence.tables.judge.coded_rows import code
from thence.tables.judge.normal_table import concatenated, of_batch


def measured(path: str) -> tuple[int, float, float]:
    """Return how many rows there are, and the seconds of reading them and of coding them."""
    started = process_time()
    tasks = open_trace(path).tasks(JUDGED_COLUMNS, needs=False, coded=True)
    table = concatenated([of_batch(batch) for task in tasks for batch in task()])
    read = process_time()
    rows = code(table)
    return len(rows), read - started, process_time() - read


if __name__ == "__main__":
    pa.array([None])
    for path in sys.argv[1:]:
        rows, read, coded = min((measured(path) for _ in range(3)), key=lambda each: each[1] + each[2])
        print(f"{path}: {rows:,} rows, read {read:.3f} s, coded {coded:.3f} s")
