"""Batches say what the reader by the standard library says, row by row, whatever stands in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.recorded import located_rows

from thence.core.model.events import parse
from thence.tables.contract.columns import EVENT_COLUMNS, JUDGED_COLUMNS, PLACE_COLUMNS, Column, names_of
from thence.tables.contract.row_validity import row_of
from thence.tables.contract.spark_to_arrow_types import arrow_schema
from thence.tables.files import batches
from thence.tables.files import line_reader as lines
from thence.tables.files.batches import read_batches
from thence.tables.files.jsonl import Located, write_jsonl
from thence.tables.files.parquet import write_parquet
from thence.tables.files.read import open_trace, split_files
from thence.tables.files.source import Quarantined

GOOD = [
    b'{"run":"r","process":"a","index":1,"kind":"send","message":"a1","destinations":["b","c"]}',
    b'{"run":"r","process":"b","index":1,"kind":"deliver","message":"a1","order":70,"time":1.5,"bytes":3}',
    b'{"run":"r","process":"b","index":2,"kind":"internal","label":"x","payload":{"x":[1,2]}}',
    '{"run":"é","process":"\\u00e9","index":3,"kind":"crash","time":7}'.encode(),
]
ODD = [
    b"", b"  ", b"\r", b"7", b"null", b"[1]", b"{}", b"{} {}", b"{", b"}", b'{"run":"r"', b'{"a":1}{"b":2}',
    GOOD[2][:-1] + b',"run":"s"}', GOOD[2][:-1] + b',"payload":1}', GOOD[2][:-1] + b',"time":NaN}',
    GOOD[2][:-1] + b',"x":NaN}', GOOD[2][:-1] + b',"x":Infinity}', GOOD[2][:-1] + b',"x":"a NaN"}',
    GOOD[2][:-1] + b',"time":1e999}', GOOD[2][:-1] + b',"time":-1E400}', GOOD[2][:-1] + b',"x":1e999}',
    GOOD[2][:-1] + b',"order":1.0}', GOOD[2][:-1] + b',"order":9223372036854775808}',
    GOOD[2][:-1] + b',"bytes":-1}', GOOD[2][:-1] + b',"bytes":3000000000}', GOOD[2][:-1] + b',"entries":true}',
    GOOD[2].replace(b'"index":2', b'"index":0'), GOOD[2].replace(b'"index":2', b'"index":"2"'),
    GOOD[2].replace(b'"index":2', b'"index":-0'), GOOD[2].replace(b'"index":2', b'"index":null'),
    GOOD[2].replace(b'"b"', b'""'), GOOD[2].replace(b'"b"', b'"\xff"'), GOOD[2].replace(b'"b"', b'"\\ud800"'),
    GOOD[2].replace(b'"b"', b'"\\udc00\\ud800"'), GOOD[2].replace(b'"b"', b'"\\u0000"'),
    GOOD[2].replace(b'"b"', b'"\x01"'), GOOD[2].replace(b'"b"', b'"\x7f"'), GOOD[2].replace(b'"b"', b'"a\0b"'),
    GOOD[2].replace(b'"x"', b"4"), GOOD[2].replace(b"internal", b"sent"), GOOD[2].replace(b'"run"', b'"RUN"'),
    GOOD[2].replace(b'"run"', b'"r\\u0075n"'), GOOD[2].replace(b"[1,2]", b"[" * 300 + b"]" * 300),
    GOOD[2].replace(b"[1,2]", b"[" * 198 + b"]" * 198), GOOD[2].replace(b"[1,2]", b'"' + b"[" * 300 + b'"'),
    GOOD[0].replace(b'"c"', b'"b"'), GOOD[0].replace(b'"c"', b"null"), GOOD[0].replace(b'"c"', b'""'),
    GOOD[0].replace(b'["b","c"]', b"null"), GOOD[0].replace(b'["b","c"]', b"[]"),
    GOOD[0].replace(b'["b","c"]', b"[[]]"), GOOD[0].replace(b'"a1"', b'""'), GOOD[0].replace(b'"a1"', b"null"),
    GOOD[1][:-1] + b',"dependencies":[{"message":"m","destinations":["b"]}]}',
    GOOD[1][:-1] + b',"dependencies":[{"message":"m","message":"n","destinations":["b"]}]}',
    GOOD[1][:-1] + b',"dependencies":[{"message":"m"}]}', GOOD[1] + b" ", b" " + GOOD[1], GOOD[1] + b"\r",
    GOOD[1].replace(b",", b",\x0b"), b"\xef\xbb\xbf" + GOOD[1], GOOD[1] + b"\0", b'"' + b"x" * 3000,
]  # fmt: skip


def schema_of(columns: tuple[Column, ...]) -> pa.Schema:
    schema = arrow_schema((*columns, *PLACE_COLUMNS), nullable=True)
    return schema.set(schema.get_field_index("file"), pa.field("file", pa.dictionary(pa.int32(), pa.string())))


def by_rows(path: Path, size: int | None = None, columns: tuple[Column, ...] = EVENT_COLUMNS) -> list[Located]:
    return [row for part in split_files(open_trace(path).files, size).splits for row in located_rows(part, columns)]


def as_rows(found: list[Located], file: str, columns: tuple[Column, ...] = EVENT_COLUMNS) -> list[dict[str, object]]:
    rows = []
    for each in found:
        row: dict[str, object] = dict.fromkeys(names_of(columns))
        if isinstance(each, Quarantined):
            row |= {name: plain(each.left.get(name)) for name in row}
            row |= {"file": each.file, "line": each.line, "reason": each.reason}
        else:
            said = row_of(each[1])
            row |= {name: said[name] for name in row if name in said} | {"file": file, "line": each[0], "reason": None}
        rows.append(row)
    return rows


def plain(value: object) -> object:
    """Return tuples as a table has them."""
    if not isinstance(value, tuple):
        return value
    return [{"message": e[0], "destinations": list(e[1])} if isinstance(e, tuple) else e for e in value]


def by_batches(
    path: Path, size: int | None = None, columns: tuple[Column, ...] = EVENT_COLUMNS
) -> list[dict[str, object]]:
    cut = split_files(open_trace(path).files, size)
    found = [batch for part in cut.splits for batch in read_batches(part, columns)]
    return pa.Table.from_batches(found, schema=schema_of(columns)).to_pylist()


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_line_among_good_ones(tmp_path: Path, odd: bytes) -> None:
    path = tmp_path / "t.jsonl"
    for data in (odd, odd + b"\n", b"\n".join([*GOOD, odd, *GOOD]) + b"\n", b"\n".join([*GOOD, odd])):
        path.write_bytes(data)
        trace = open_trace(path, format="jsonl")
        (part,) = trace.splits().splits
        read = pa.Table.from_batches(read_batches(part), schema=schema_of(EVENT_COLUMNS)).to_pylist()
        assert read == as_rows(list(located_rows(part)), str(path))


def test_good_lines_are_read_by_arrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_row_by_row", None)
    for end in (b"\n", b"\r\n"):
        (tmp_path / "t.jsonl").write_bytes(end.join([*GOOD * 50, b""]))
        found = by_batches(tmp_path / "t.jsonl")
        assert [row["line"] for row in found] == list(range(1, 201))
        assert [row["order"] for row in found[:3]] == [0, 70, 2]
        assert not any(row["reason"] for row in found)


lines_of_a_file = st.lists(st.sampled_from([*GOOD * 8, *ODD]), max_size=12)


@settings(max_examples=60, deadline=None)
@given(lines_of_a_file, st.sampled_from([b"\n", b"\r\n"]), st.integers(1, 400), st.integers(1, 700), st.booleans())
def test_however_the_file_is_cut(
    tmp_path_factory: pytest.TempPathFactory, some: list[bytes], end: bytes, block: int, size: int, ended: bool
) -> None:
    path = tmp_path_factory.mktemp("cut") / "t.jsonl"
    path.write_bytes(GOOD[0] + end + end.join(some) + (end if ended else b""))
    whole = as_rows(by_rows(path), str(path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK", block)
        patch.setattr("thence.tables.files.splits.COUNTED", block)
        assert as_rows(by_rows(path, size), str(path)) == whole
        assert by_batches(path, size) == whole
        assert by_batches(path) == whole


def test_some_columns_alone(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_bytes(b"\n".join([*GOOD, GOOD[2][:-1] + b',"time":NaN}', *GOOD]))
    found = by_batches(tmp_path / "t.jsonl", columns=JUDGED_COLUMNS)
    assert found == as_rows(by_rows(tmp_path / "t.jsonl"), str(tmp_path / "t.jsonl"), JUDGED_COLUMNS)
    assert found[4]["reason"] == "not JSON: NaN is not JSON"


def test_rows_of_parquet(tmp_path: Path) -> None:
    events = parse("a!1>bc b?a1 c<a1 c?a1 b. a#") * 40
    write_parquet(events, tmp_path / "good.parquet", row_group=50)
    bad = [row_of(event) for event in events]
    bad[3] |= {"index": 0}
    bad[60] |= {"process": None}
    bad[61] |= {"run": None}
    bad[130] |= {"destinations": ["b", "b"]}
    bad[131] |= {"time": float("nan")}
    pq.write_table(pa.Table.from_pylist(bad, arrow_schema(nullable=True)), tmp_path / "bad.parquet", row_group_size=50)
    for name in ("good.parquet", "bad.parquet"):
        path = tmp_path / name
        for columns in (EVENT_COLUMNS, JUDGED_COLUMNS):
            assert by_batches(path, columns=columns) == as_rows(by_rows(path, None, columns), str(path), columns)
    assert [row["line"] for row in by_batches(tmp_path / "bad.parquet") if row["reason"]] == [4, 61, 62, 131, 132]
    assert [row["line"] for row in by_batches(tmp_path / "bad.parquet", columns=JUDGED_COLUMNS) if row["reason"]] == [
        4, 61, 62, 131,
    ]  # fmt: skip


def test_columns_of_the_users_own_change_nothing(tmp_path: Path) -> None:
    rows = [row_of(event) for event in parse("a!1>bc b?a1 c?a1")]
    plain = pa.Table.from_pylist(rows, arrow_schema())
    own = plain.set_column(2, "index", plain.column("index").cast(pa.uint64()))
    for name in ("line", "reason", "file", "odd", "Run", "INDEX", "order.x", "run.x"):
        own = own.append_column(name, pa.array(["mine", None, "yours"]))
    pq.write_table(plain, tmp_path / "plain.parquet")
    pq.write_table(own, tmp_path / "own.parquet")
    found = [by_batches(tmp_path / name) for name in ("plain.parquet", "own.parquet")]
    assert [row | {"file": ""} for row in found[0]] == [row | {"file": ""} for row in found[1]]


def test_several_files_and_what_cannot_be_read(tmp_path: Path) -> None:
    events = parse("a!1>bc b?a1 c?a1")
    write_jsonl(events, tmp_path / "a.jsonl")
    write_parquet(events, tmp_path / "b.parquet")
    (tmp_path / "c.parquet").write_bytes(b"PAR1 no more")
    (tmp_path / "d.jsonl").write_text(json.dumps([{"run": "r"}], indent=1))
    trace = open_trace(tmp_path)
    table = pa.Table.from_batches(trace.batches())
    refused = {Path(row["file"]).name: row["reason"] for row in table.to_pylist() if row["reason"]}
    assert table.num_rows == 8
    assert refused.keys() == {"c.parquet", "d.jsonl"}
    assert refused["d.jsonl"].startswith("this looks like one array of JSON")
