"""Tables that are read whole (CSV, Arrow, Delta, Iceberg), and files that are packed by zstandard."""

from __future__ import annotations

import builtins
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.odd_files import write_delta, write_iceberg

import thence
from thence.errors import MisuseError, TraceError
from thence.tables.files.source import open_bytes
from thence.tables.files.whole_tables import ending_of
from thence.tables.files.write_table import write_table

ROWS = pa.table({"id": ["b", "a"], "parent": ["a", None], "n": [1, 2]})
TABLES = {"delta": write_delta, "iceberg": write_iceberg}


def zstd(data: bytes) -> bytes:
    return pa.Codec("zstd").compress(data, asbytes=True)


def ids(path: Path) -> list[str]:
    return thence.deliver(path, id="id", causes="parent").column("id").to_pylist()


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_is_its_newest_version(kind: str, tmp_path: Path) -> None:
    TABLES[kind](tmp_path / "t", ROWS)
    assert len(list((tmp_path / "t").rglob("*.parquet"))) == 2
    assert ids(tmp_path / "t") == ["a", "b"]


@pytest.mark.parametrize("kind", TABLES)
def test_without_its_library_a_table_is_refused(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    TABLES[kind](tmp_path / "t", ROWS)
    real = builtins.__import__

    def lacking(name: str, *more: object) -> object:
        if name.partition(".")[0] in ("deltalake", "pyiceberg"):
            raise ModuleNotFoundError(name)
        return real(name, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", lacking)
    with pytest.raises(MisuseError, match=rf"t is an? {kind.title()} table, .* pip install 'thence\[{kind}\]'"):
        ids(tmp_path / "t")


@pytest.mark.parametrize("kind", TABLES)
def test_a_folder_of_tables_is_refused(kind: str, tmp_path: Path) -> None:
    TABLES[kind](tmp_path / "all" / "t", ROWS)
    with pytest.raises(MisuseError, match=rf"{kind.title()} table, one of several things in .*; name it itself"):
        ids(tmp_path / "all")


def test_a_broken_table_is_said(tmp_path: Path) -> None:
    write_delta(tmp_path / "t", ROWS)
    for log in (tmp_path / "t" / "_delta_log").iterdir():
        log.write_text("nonsense")
    with pytest.raises(TraceError, match="cannot be read as a Delta table"):
        ids(tmp_path / "t")


@pytest.mark.parametrize("stream", [False, True])
def test_arrow_files_and_streams(stream: bool, tmp_path: Path) -> None:
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(tmp_path / "rows", ROWS.schema) as writer:
        writer.write_table(ROWS)
    assert ids(tmp_path / "rows") == ["a", "b"]
    whole = (tmp_path / "rows").read_bytes()
    (tmp_path / "torn.arrow").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TraceError, match=r"torn\.arrow cannot be read as Arrow"):
        ids(tmp_path / "torn.arrow")


def test_zstandard_is_unpacked_whatever_the_name(tmp_path: Path) -> None:
    lines = [json.dumps(row).encode() + b"\n" for row in ROWS.to_pylist()]
    packed = zstd(lines[0]) + zstd(lines[1])  # two frames are one text
    (tmp_path / "rows.jsonl").write_bytes(packed)
    assert ids(tmp_path / "rows.jsonl") == ["a", "b"]
    (tmp_path / "rows.csv.zst").write_bytes(zstd(b"id,parent\nb,a\na,\n"))
    assert ids(tmp_path / "rows.csv.zst") == ["a", "b"]
    assert ending_of(packed) == ".jsonl.zst"
    assert ending_of(zstd(b"id\tparent\n")) == ".tsv.zst"
    with pytest.raises(OSError, match="Truncated"), open_bytes(tmp_path, packed[:-5]) as stream:
        stream.read()


def test_a_trace_in_csv_says_what_it_lacks(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text('run,process,index,kind,message,destinations\nr,a,1,send,m,"[""b"",""c""]"\nr,b,1,deliver,m,\n')
    assert thence.audit(file).verdict == "causal"
    assert [row["destination"] for row in thence.audit(file).undelivered] == ["c"]
    file.write_text("run,process,index,kind,message,destinations\nr,a,1,send,m,b\nr,b,1,deliver,m,\n")
    assert thence.audit(file).runs[0]["undelivered"] == 0
    file.write_text("run,host,index,kind\nr,a,1,internal\n")
    with pytest.raises(MisuseError, match="column process is missing; found: host, index, kind, run"):
        thence.audit(file)
    assert thence.audit(file, columns={"process": "host"}).verdict == "causal"
    file.write_text("run,process,index,kind\nr,a,one,internal\n")
    with pytest.raises(MisuseError, match=r"column index holds 'one', which is not a whole number; .*as in index=NAME"):
        thence.audit(file)
    file.write_text("run,process,index,kind,order\nr,a,1,internal,Kunde0\n")
    with pytest.raises(MisuseError, match=r"column order holds 'Kunde0', .* or order= if there is none"):
        thence.audit(file)


@pytest.mark.parametrize("several", ["b,c", "b; c", "b|c", "[b, c]", "['b', 'c']"])
def test_several_destinations_in_one_text_are_refused_with_the_accepted_form(tmp_path: Path, several: str) -> None:
    file = tmp_path / "t.csv"
    rows = 'run,process,index,kind,message,destinations\nr,a,1,send,m,"{}"\nr,b,1,deliver,m,\nr,c,1,deliver,m,\n'
    file.write_text(rows.format(several))
    with pytest.raises(TraceError, match=r'no process has this name; .* JSON: \["b", "c"\]'):
        thence.audit(file)
    file.write_text(rows.format('[""b"", ""c""]'))
    assert not list(thence.audit(file).undelivered)


def test_a_process_may_have_a_comma_in_its_name(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    head = "run,process,index,kind,message,destinations\n"
    file.write_text(head + 'r,a,1,send,m,"b,c"\nr,"b,c",1,deliver,m,\n')
    assert not list(thence.audit(file).undelivered)
    file.write_text(head + 'r,a,1,send,m,"[""b,c""]"\n')
    assert [row["destination"] for row in thence.audit(file).undelivered] == ["b,c"]


def test_ids_of_csv_are_texts(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,parent\n7,007\n007,\nNA,7\n")
    assert ids(tmp_path / "t.csv") == ["007", "7", "NA"]


WRITTEN = ["00123", "+49301234", "1.10", "123456789012345678901234", "2024-05-01T10:00:00+02:00", "true", "NaN", ""]


@pytest.mark.parametrize("sign", [",", "\t", ";"])
def test_what_the_rule_does_not_need_comes_out_of_csv_as_it_was_written(sign: str, tmp_path: Path) -> None:
    names = [f"column {place}" for place in range(len(WRITTEN))]
    lines = [["id", "parent", "arrival", *names], ["1", "", "007", *WRITTEN], ["2", "1.0", "8.0", *WRITTEN]]
    file = tmp_path / ("t.tsv" if sign == "\t" else "t.csv")
    file.write_text("".join(sign.join(line) + "\n" for line in lines))
    found = thence.deliver(file, id="id", causes="parent")
    assert found.column("outcome").to_pylist() == ["delivered", "delivered"]
    assert found.select(lines[0]).to_pylist() == [
        {name: value or None for name, value in zip(lines[0], line, strict=True)} for line in lines[1:]
    ]


@pytest.mark.parametrize(
    "times",
    [
        ("1", "62"), ("1.5", " 62.5"), ("1", "62.0"), ("2024-05-01T10:00:00+02:00", "2024-05-01T08:01:01Z"),
        ("2024-05-01", "2024-05-01 00:01:01"), ("2024-05-01T10:00:00.123456789Z", "2024-05-01T10:01:01.123456"),
    ],
)  # fmt: skip
def test_event_times_of_csv_are_read_from_texts(times: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"id,parent,time\nb,lost,{times[0]}\nc,,{times[1]}\n")
    found = thence.deliver(tmp_path / "t.csv", id="id", causes="parent", policy="release", after_seconds=60)
    rows = {row["id"]: (row["outcome"], row["time"]) for row in found.to_pylist()}
    assert rows == {"b": ("released", times[0]), "c": ("delivered", times[1])}


@pytest.mark.parametrize("where", ["header", "id", "other"])
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_csv_that_is_not_utf_8_is_refused_with_its_line(where: str, name: str, tmp_path: Path) -> None:
    lines = [
        "id,parent,name" + "é" * (where == "header"),
        "a,,x",
        f"b{'é' * (where == 'id')},a,{'é' * (where != 'id')}",
    ]
    data = "\n".join(lines).encode("latin1")
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    line = 1 if where == "header" else 3
    with pytest.raises(
        TraceError, match=rf"{name} cannot be .* line {line} looks like Latin-1 text; .* iconv -f latin1 -t utf-8"
    ):
        ids(tmp_path / name)


@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
def test_the_first_line_of_csv_says_its_separator_and_a_short_line_its_row(sign: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,parent\nb,a\na,\n".replace(",", sign))
    assert ids(tmp_path / "t.csv") == ["a", "b"]
    (tmp_path / "t.csv").write_text("id,parent\nb,a\na\n".replace(",", sign))
    with pytest.raises(TraceError, match=r"Row #3: Expected 2 columns, got 1"):
        ids(tmp_path / "t.csv")


def test_integers_of_json_above_64_bits_keep_their_digits(tmp_path: Path) -> None:
    big = 123456789012345678901234567890
    rows = [{"id": big, "parent": None, "n": 5, "m": [1]}, {"id": 1, "parent": big, "n": big, "m": [big]}]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = thence.deliver(tmp_path / "t.jsonl", id="id", causes="parent")
    assert found.column("outcome").to_pylist() == ["delivered", "delivered"]
    assert found.column("id").to_pylist() == [str(big), "1"]
    assert found.column("n").to_pylist() == ["5", str(big)]
    assert found.column("m").to_pylist() == ["[1]", f"[{big}]"]


def test_parquet_of_a_plain_folder_is_still_read(tmp_path: Path) -> None:
    (tmp_path / "metadata").mkdir()
    pq.write_table(ROWS, tmp_path / "metadata" / "x.parquet")
    assert ids(tmp_path) == ["a", "b"]


def test_a_map_is_written_as_an_object_unless_a_key_is_there_twice(tmp_path: Path) -> None:
    clocks = pa.array([[("a", 1)], None, [("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64()))
    write_table(pa.table({"clock": clocks}), tmp_path / "out.jsonl", "jsonl")
    rows = [json.loads(line)["clock"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert rows == [{"a": 1}, None, [["a", 1], ["a", 2]]]
