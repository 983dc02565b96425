"""Tables that are read whole (CSV, Arrow, Delta, Iceberg), and files that are packed by zstandard."""

from __future__ import annotations

import builtins
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
    with pytest.raises(TraceError, match="invalid value 'one'"):
        thence.audit(file)


def test_ids_of_csv_are_texts(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,parent\n7,007\n007,\nNA,7\n")
    assert ids(tmp_path / "t.csv") == ["007", "7", "NA"]


def test_parquet_of_a_plain_folder_is_still_read(tmp_path: Path) -> None:
    (tmp_path / "metadata").mkdir()
    pq.write_table(ROWS, tmp_path / "metadata" / "x.parquet")
    assert ids(tmp_path) == ["a", "b"]
