"""One door: formats, folders, globs."""

from __future__ import annotations

from pathlib import Path
from sys import addaudithook
from typing import Any

import pyarrow as pa
import pytest

from thence.core.model.events import Event, parse
from thence.errors import MisuseError, TraceError
from thence.tables.files import batches, formats
from thence.tables.files.formats import detect, find_files
from thence.tables.files.jsonl import write_jsonl
from thence.tables.files.line_reader import Block
from thence.tables.files.parquet import write_parquet
from thence.tables.files.read import open_trace

EVENTS = parse("a!1>bc b?a1 c?a1")
LOG = 'a {"a":1}\none\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_jsonl(EVENTS, tmp_path / "one.jsonl")
    write_jsonl(EVENTS, tmp_path / "two.jsonl.gz")
    write_parquet(EVENTS, tmp_path / "three.parquet")
    (tmp_path / "four.log").write_text(LOG)
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".one.jsonl.crc").write_text("x")
    (tmp_path / "sub").mkdir()
    write_jsonl(EVENTS[:1], tmp_path / "sub" / "five.json")
    return tmp_path


def test_a_folder_is_everything_in_it_but_hidden_files(folder: Path) -> None:
    trace = open_trace(folder)
    assert {path.name: kind for path, kind in trace.files.items()} == {
        "five.json": "jsonl",
        "four.log": "shiviz",
        "one.jsonl": "jsonl",
        "three.parquet": "parquet",
        "two.jsonl.gz": "jsonl",
    }
    assert len(list(trace.events())) == 10
    assert [event.text for event in trace.clocks()] == ["one"]
    assert trace.quarantine == []


def test_globs_and_names_each_file_once(folder: Path) -> None:
    assert [p.path.name for p in find_files([str(folder / "*.jsonl"), folder / "one.jsonl"])] == ["one.jsonl"]
    assert [p.path.name for p in find_files(str(folder / "**" / "*.json*"))] == [
        "one.jsonl",
        "five.json",
        "two.jsonl.gz",
    ]


@pytest.mark.parametrize("name", ["nothing.jsonl", "no*thing"])
def test_names_of_nothing(folder: Path, name: str) -> None:
    with pytest.raises(MisuseError, match="does not exist: a file, a folder or a glob that matches one"):
        open_trace(folder / name)


def test_a_folder_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="holds no files"):
        open_trace(tmp_path)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b'{"run":"r"', "jsonl"),
        (b'\n\n {"run"', "jsonl"),
        (b"\xef\xbb\xbf{", "jsonl"),
        (b"PAR1....", "parquet"),
        (LOG.encode(), "shiviz"),
        (b"text\n" + LOG.encode(), "shiviz"),
        (b"(?<host>a) (?<clock>b)", "shiviz"),
    ],
)
def test_content_says_the_format_where_the_name_does_not(tmp_path: Path, data: bytes, kind: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    assert detect(path) == kind
    assert open_trace(path, format="jsonl").files == {path: "jsonl"}


def test_an_unknown_format_says_what_would_do(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello")
    with pytest.raises(TraceError, match="no format known here; name one with --format: jsonl, parquet, shiviz"):
        open_trace(tmp_path / "x")
    assert open_trace(tmp_path / "x", pattern="p").files == {tmp_path / "x": "shiviz"}
    with pytest.raises(MisuseError, match="no format 'orc'"):
        open_trace(tmp_path / "x", format="orc")


def test_damage_in_a_name_known_by_content(tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(b"\x1f\x8b no")
    with pytest.raises(TraceError, match="cannot be read"):
        open_trace(tmp_path / "x.gz")


def test_lines_are_numbered_across_files(tmp_path: Path) -> None:
    line = '{"run":"r","process":"a","index":1,"kind":"internal"}'
    (tmp_path / "a.jsonl").write_text(f"{line}\n\nnonsense\n")
    (tmp_path / "b.jsonl").write_text(f"{line}\n{line}")
    trace = open_trace(tmp_path)
    assert [event.order for event in trace.events()] == [0, 3, 4]
    assert [(Path(each.file).name, each.line) for each in trace.quarantine] == [("a.jsonl", 3)]


def test_a_file_gone_after_it_was_found_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it is so small that it was read to tell its format."""
    monkeypatch.setattr(formats, "KEPT_BYTES", 0)
    (tmp_path / "a.jsonl").write_text("\n")
    trace = open_trace(tmp_path)
    (tmp_path / "a.jsonl").unlink()
    assert list(trace.events()) == []
    assert trace.quarantine[0].reason.startswith("it cannot be read")


@pytest.mark.parametrize(("kept", "opens"), [(formats.KEPT_BYTES, 1), (0, 2)])
def test_a_file_is_opened_once_to_be_told_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int, opens: int
) -> None:
    """A large one twice: once to tell its format, once to read it; what it holds is parsed once."""
    from thence.tables.engines.local.chunks import audit_files

    monkeypatch.setattr(formats, "KEPT_BYTES", kept)
    rows = [Event("r", "a", index, "internal") for index in range(1, 35_001)]
    path = tmp_path / "t.jsonl"
    write_jsonl(rows, path)
    opened: list[object] = []

    def count(event: str, given: tuple[object, ...]) -> None:
        if event == "open" and given[0] == str(path):
            opened.append(given)

    addaudithook(count)
    parsed: list[int] = []
    parse_block = batches.block_batch

    def counted(block: Block, *given: Any, **named: Any) -> pa.RecordBatch:
        parsed.append(len(block.data))
        return parse_block(block, *given, **named)

    monkeypatch.setattr(batches, "block_batch", counted)
    with audit_files(open_trace(path)) as result:
        assert (result.verdict, result.events) == ("causal", 35_000)
    assert (len(opened), sum(parsed)) == (opens, path.stat().st_size)
    del opened[:]
    assert sum(1 for _ in open_trace(path).events()) == 35_000
    assert len(opened) == opens
