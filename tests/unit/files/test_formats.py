"""What a file looks like, by its first bytes."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import pytest

from thence.tables.files.formats import Unfit, by_name, detect

LINE = b'{"run":"r","process":"a","index":1,"kind":"internal"}\n'


@pytest.mark.parametrize(
    ("data", "looks"),
    [
        (bz2.compress(LINE), "bzip2"),
        (lzma.compress(LINE), "xz"),
        (b"ORC...", "ORC"),
        (b"Obj\x01...", "Avro"),
        (b"SQLite format 3\x00...", "a SQLite database"),
        (b"%PDF-1.7", "a PDF"),
        (LINE.decode().encode("utf-32"), "UTF-32"),
        (LINE.decode().encode("utf-16-be"), "UTF-16"),
        (bytes(7) + b"\x05\x12\x34\x56\x78", "binary data"),
        (bytes(100), "binary data"),
        (gzip.compress(b"PAR1....", mtime=0), "gzipped Parquet"),
        (b"<?xml version='1.0'?><r/>", "XML or HTML"),
        (b"<!DOCTYPE html>", "XML or HTML"),
        (b'[\n  {"run":"r"}\n]', "one array of JSON"),
        (b'{"run":"r",\n "process":"a"}\n', "JSON printed over several lines"),
    ],
)
@pytest.mark.parametrize("name", ["t.jsonl", "t"])
def test_it_looks_like(tmp_path: Path, data: bytes, looks: str, name: str) -> None:
    (tmp_path / name).write_bytes(data)
    found = detect(tmp_path / name)
    assert isinstance(found, Unfit)
    assert found.reason.startswith(f"this looks like {looks}")
    assert found.claims == (name == "t.jsonl")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("c.journal", b"SQLite format 3\x00..."),
        ("c.journal-wal", b"\x37\x7f\x06\x82" + bytes(100)),
        ("c.journal-shm", b"\x18\xe2\x2d" + bytes(100)),
        ("c.journal.mark", bytes(7) + b"\x05\x12\x34\x56\x78"),
    ],
)
def test_a_journal_is_told_by_its_mark(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / "c.journal.mark").write_bytes(bytes(12))
    (tmp_path / name).write_bytes(data)
    found = detect(tmp_path / name)
    assert isinstance(found, Unfit)
    assert found.reason.startswith("this looks like part of the journal of a `thence endpoint`")
    assert not found.claims


@pytest.mark.parametrize(
    "data",
    [
        b'{"run":\n' + LINE,
        b"{\n"[:1] + b'"run"' + b"\n" + LINE,
        b'[{"run":"r"}]\n' + LINE,
        b"[1]\n" + LINE,
        b"nonsense\n" + LINE,
        b"run\n",
        b"",
    ],
)
def test_a_bad_first_line_does_not_make_another_format(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "t.jsonl").write_bytes(data)
    assert detect(tmp_path / "t.jsonl") == "jsonl"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.jsonl", "jsonl"), ("a.JSON.GZ", "jsonl"), ("a.ndjson", "jsonl"), ("a.pq", "parquet"), ("jsonl", None)],
)
def test_names(name: str, kind: str | None) -> None:
    assert by_name(Path(name)) == kind


def test_tables_of_others_are_told_by_their_beginning(tmp_path: Path) -> None:
    table = b'"run"\t"process"\t"index"\nr\ta\t1'
    for name, data, kind in (("t", b"ARROW1\0\0", "arrow"), ("t.jsonl", b"ARROW1\0\0", "arrow"), ("t", table, "tsv")):
        (tmp_path / name).write_bytes(data)
        assert detect(tmp_path / name) == kind
    (tmp_path / "t.jsonl").write_bytes(table)
    found = detect(tmp_path / "t.jsonl")
    assert isinstance(found, Unfit)
    assert found.reason == "this looks like TSV; name it so, or say --format tsv"
