"""Parquet without Spark."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recorded import read_events

from thence.core.model.events import Event, parse
from thence.core.model.roster import Roster
from thence.errors import MisuseError, TraceError
from thence.tables.files.parquet import read_rosters, write_parquet
from thence.tables.files.source import Quarantined

EVENTS = parse("a!1>bc b?a1 b!1>c c<b1 c?b1 c?a1 c. a#")


def read(path: Path) -> tuple[list[Event], list[Quarantined]]:
    found: list[Quarantined] = []
    return read_events(path, found), found


def table(**columns: Any) -> pa.Table:
    given = {"run": ["r"], "process": ["a"], "index": [1], "kind": ["internal"]} | columns
    return pa.table({name: values for name, values in given.items() if values is not None})


def test_events_come_back(tmp_path: Path) -> None:
    events = [*EVENTS, Event("s", "a", 1, "deliver", "m", None, "red", 99, 0.5, 1, 2, 3, (("x", ("a",)), ("y", ())))]
    assert write_parquet(events, tmp_path / "t.parquet") == len(events)
    assert read(tmp_path / "t.parquet") == (events, [])


@pytest.mark.parametrize(
    "kind", [pa.timestamp("us"), pa.timestamp("ns", "Asia/Kolkata"), pa.timestamp("s"), pa.float64()]
)
def test_a_time_may_be_a_timestamp(kind: pa.DataType, tmp_path: Path) -> None:
    moments = pa.array([1794889800], pa.int64()).cast(pa.timestamp("s")).cast(pa.timestamp("us"))
    values = pa.array([1794889800.0]) if kind == pa.float64() else moments.cast(pa.int64()).cast(pa.timestamp("us"))
    pq.write_table(table(time=values.cast(kind)), tmp_path / "t.parquet")
    events, refused = read(tmp_path / "t.parquet")
    assert ([event.time for event in events], refused) == ([1794889800.0], [])


def test_order_is_always_there(tmp_path: Path) -> None:
    write_parquet([replace(event, order=None) for event in EVENTS], tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet")[0] == EVENTS


def test_no_events_are_a_table_too(tmp_path: Path) -> None:
    assert write_parquet([], tmp_path / "t.parquet") == 0
    assert write_parquet([], tmp_path / "d", files=3) == 0
    assert read(tmp_path / "t.parquet") == read(tmp_path / "d" / "part-00000.parquet") == ([], [])


def test_row_groups(tmp_path: Path) -> None:
    write_parquet(EVENTS, tmp_path / "t.parquet", row_group=3)
    assert pq.ParquetFile(tmp_path / "t.parquet").num_row_groups == 3
    assert read(tmp_path / "t.parquet")[0] == EVENTS


@pytest.mark.parametrize("files", [2, 3, 8, 20])
def test_each_file_holds_one_range_of_order(tmp_path: Path, files: int) -> None:
    runs = [replace(e, run=run, process=e.process + run) for run in "xyz" for e in EVENTS]
    assert write_parquet(runs, tmp_path / "d", files=files) == len(runs)
    parts = sorted((tmp_path / "d").iterdir())
    assert 1 < len(parts) <= files
    orders = [[event.order or 0 for event in read(part)[0]] for part in parts]
    assert [order for part in orders for order in part] == sorted(event.order or 0 for event in runs)
    for one, two in pairwise(orders):
        assert max(one) < min(two)


def test_a_folder_with_parts_of_something_else_is_refused(tmp_path: Path) -> None:
    write_parquet(EVENTS, tmp_path / "d", files=2)
    with pytest.raises(MisuseError, match="holds Parquet files already"):
        write_parquet(EVENTS, tmp_path / "d", files=2)


def test_counts_below_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="count from 1"):
        write_parquet(EVENTS, tmp_path / "t.parquet", files=0)


def test_what_cannot_be_written_says_why(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="cannot be written as Parquet"):
        write_parquet([replace(EVENTS[0], process="\ud800")], tmp_path / "t.parquet")
    with pytest.raises(MisuseError, match="cannot be written as Parquet"):
        write_parquet([replace(EVENTS[0], bytes=2**40)], tmp_path / "t.parquet")


def test_rosters_travel_with_the_table(tmp_path: Path) -> None:
    rosters = [Roster(["a", "b"]), Roster(["a", "b", "é"])]
    write_parquet(EVENTS, tmp_path / "t.parquet", rosters=rosters)
    assert read_rosters(tmp_path / "t.parquet") == rosters
    write_parquet(EVENTS, tmp_path / "u.parquet")
    assert read_rosters(tmp_path / "u.parquet") == []
    pq.write_table(table().replace_schema_metadata({"thence.rosters": '[["a","a"]]'}), tmp_path / "v.parquet")
    with pytest.raises(TraceError, match="holds no rosters"):
        read_rosters(tmp_path / "v.parquet")
    (tmp_path / "w.parquet").write_bytes(b"nothing")
    with pytest.raises(TraceError, match=r"w\.parquet cannot be read"):
        read_rosters(tmp_path / "w.parquet")


@pytest.mark.parametrize("name", ["run", "process", "index", "kind"])
def test_a_missing_column_sets_the_file_aside_by_name(tmp_path: Path, name: str) -> None:
    pq.write_table(table(**{name: None}), tmp_path / "t.parquet")
    file = str(tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet") == (
        [],
        [Quarantined(file, None, f"column {name} is missing; its 1 rows are set aside")],
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"index": ["1"]}, "column index is string; long is accepted"),
        ({"index": [1.0]}, "column index is double; long is accepted"),
        ({"kind": [b"send"]}, "column kind is binary; string is accepted"),
        ({"kind": pa.nulls(1)}, "column kind is null; string is accepted"),
        ({"destinations": ["b"]}, "column destinations is string; array<string> is accepted"),
        ({"destinations": [[1]]}, "column destinations is list<element: int64>; array<string> is accepted"),
        ({"time": ["now"]}, "column time is string; double is accepted"),
        ({"dependencies": [["a1"]]}, "column dependencies is list<element: string>; array<struct<"),
    ],
)
def test_a_column_of_another_type_is_named(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    pq.write_table(table(**change), tmp_path / "t.parquet")
    events, found = read(tmp_path / "t.parquet")
    assert events == []
    assert found[0].reason.startswith(reason)


def test_a_column_that_stands_twice_is_named(tmp_path: Path) -> None:
    twice = pa.Table.from_arrays([pa.array(["r"])] * 2, names=["run", "run"])
    pq.write_table(twice, tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet")[1][0].reason.startswith("column run stands 2 times")


def test_other_spellings_of_the_types_are_fine(tmp_path: Path) -> None:
    pq.write_table(
        table(
            process=pa.array(["a"]).dictionary_encode(),
            index=pa.array([1], pa.uint16()),
            kind=pa.array(["send"], pa.large_string()),
            message=["m"],
            destinations=pa.array([["b"]], pa.large_list(pa.string())),
            time=pa.array([5], pa.int32()),
            label=pa.nulls(1),
            payload=[{"x": 1}],
        ),
        tmp_path / "t.parquet",
    )
    assert read(tmp_path / "t.parquet") == ([Event("r", "a", 1, "send", "m", ("b",), time=5.0)], [])


def test_bad_rows_are_named_by_number(tmp_path: Path) -> None:
    rows = {
        "run": ["r"] * 4,
        "process": ["a", None, "a", "a"],
        "index": [1, 2, 3, 0],
        "kind": ["internal", "internal", "deliver", "crash"],
    }
    pq.write_table(pa.table(rows), tmp_path / "t.parquet")
    events, found = read(tmp_path / "t.parquet")
    assert [event.index for event in events] == [1]
    assert [(each.line, each.reason) for each in found] == [
        (2, "process is missing"),
        (3, "a deliver row needs a message"),
        (4, "index is 0; indexes count from 1"),
    ]


def test_text_that_is_not_utf8_sets_one_row_aside(tmp_path: Path) -> None:
    names = pa.array([b"a", b"\xff", b"c"], pa.binary()).cast(pa.string(), safe=False)
    given = table(run=["r"] * 3, process=names, index=[1, 1, 1], kind=["internal"] * 3)
    pq.write_table(given, tmp_path / "t.parquet")
    events, found = read(tmp_path / "t.parquet")
    assert [event.process for event in events] == ["a", "c"]
    assert [(each.line, each.reason) for each in found] == [(2, "not UTF-8: invalid start byte")]


def test_files_that_are_no_parquet_never_crash(tmp_path: Path) -> None:
    write_parquet(EVENTS * 1000, tmp_path / "t.parquet", row_group=1000)
    whole = (tmp_path / "t.parquet").read_bytes()
    for name, data in {"empty": b"", "text": b"PAR1 but no", "cut": whole[: len(whole) // 2]}.items():
        path = tmp_path / name
        path.write_bytes(data)
        events, found = read(path)
        assert events == []
        assert "cannot be read as Parquet" in found[0].reason
    broken = bytearray(whole)
    start = pq.read_metadata(tmp_path / "t.parquet").row_group(3).column(0).dictionary_page_offset
    broken[start : start + 20] = b"\xaa" * 20
    (tmp_path / "page").write_bytes(broken)
    events, found = read(tmp_path / "page")
    (lost,) = found
    assert len(events) == 7000
    assert re.match(r"row group 4, rows 3001 to 4000, cannot be read as Parquet", lost.reason)


@given(orders=st.lists(st.integers(0, 9), max_size=30), files=st.integers(2, 12))
def test_events_that_come_sorted_are_cut_alike(
    orders: list[int], files: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    events = [replace(EVENTS[0], index=n + 1, order=order) for n, order in enumerate(sorted(orders))]
    write_parquet(events, folder / "held", files=files)
    write_parquet(iter(events), folder / "flowing", files=files, count=len(events))
    held, flowing = (sorted((folder / name).iterdir()) for name in ("held", "flowing"))
    assert [path.name for path in held] == [path.name for path in flowing]
    assert [path.read_bytes() for path in held] == [path.read_bytes() for path in flowing]
    assert 1 <= len(held) <= files
    lengths = [pq.read_metadata(path).num_rows for path in held]
    if len(set(orders)) == len(orders):
        assert max(lengths) - min(lengths) <= 1
