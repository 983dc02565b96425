"""Tables as bytes and in parts hold their rows as they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thence.tables.judge import packing
from thence.tables.judge.coded_rows import NORMAL
from thence.tables.judge.packing import held, packed, split_by_partition, stepped, unpacked

WALKS = st.lists(st.tuples(st.integers(-5, 1 << 40), st.integers(1, 600)), max_size=4)
"""Numbers that go up by one from each start, for so many rows."""


def walk(legs: list[tuple[int, int]]) -> list[int | None]:
    return [start + step for start, rows in legs for step in range(rows)]


def table_of(index: list[int | None], line: list[int | None]) -> pa.Table:
    rows = len(index)
    columns = {name: pa.nulls(rows, NORMAL.field(name).type) for name in NORMAL.names}
    columns["process"] = pa.array([f"p{row % 3}" for row in range(rows)], pa.string()).dictionary_encode()
    columns["message"] = pa.array([None if row % 5 == 0 else f"m{row}" for row in range(rows)], pa.string())
    columns["destinations"] = pa.array([["p1", "p2"][: row % 3] or None for row in range(rows)], pa.list_(pa.string()))
    columns["index"], columns["line"] = pa.array(index, pa.int64()), pa.array(line, pa.int64())
    return pa.table(columns)


@given(WALKS, WALKS, st.sampled_from([None, "zstd"]), st.data())
@example([(7, 2000)], [(1, 1999), (3, 1)], "zstd", None)
def test_bytes_hold_the_table_they_were_made_of(
    index_legs: list[tuple[int, int]], line_legs: list[tuple[int, int]], compression: str | None, data: Any
) -> None:
    index, line = walk(index_legs), walk(line_legs)
    rows = min(len(index), len(line))
    index, line = index[:rows], line[:rows]
    if data is not None and rows and data.draw(st.booleans()):
        line[data.draw(st.integers(0, rows - 1))] = None
    whole = table_of(index, line)
    start = 0 if data is None else data.draw(st.integers(0, rows))
    part = whole.slice(start)
    for table in (part, held(part)):
        assert unpacked(packed(table, compression)).equals(table)


def test_numbers_that_go_up_by_one_take_no_room() -> None:
    table = stepped(table_of(walk([(1, 1500), (9, 1500)]), walk([(5, 3000)])))
    kept = {name: table.column(name).chunk(0) for name in ("index", "line")}
    assert {name: len(column.run_ends) for name, column in kept.items()} == {"index": 2, "line": 1}
    plain = table_of(list(range(0, 6000, 2)), [None] * 3000)
    assert stepped(plain).schema == plain.schema


@pytest.mark.parametrize("seldom", [1, 4, 1 << 40])
@given(legs=st.lists(st.tuples(st.integers(-2, 70_000), st.integers(1, 9)), max_size=8))
def test_rows_are_parted_by_slot_in_their_order(seldom: int, legs: list[tuple[int, int]]) -> None:
    partitions = np.array([partition for partition, rows in legs for _ in range(rows)], np.int32)
    table = table_of(list(range(len(partitions))), [None] * len(partitions))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "SELDOM", seldom)
        found = list(split_by_partition(table, partitions))
    assert [partition for partition, _ in found] == sorted(set(partitions.tolist()))
    for partition, part in found:
        assert part.column("index").to_pylist() == np.flatnonzero(partitions == partition).tolist()
        assert part.to_pylist() == table.take(pa.array(np.flatnonzero(partitions == partition))).to_pylist()
