"""JSONL: stable bytes out; events or reasons in."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from support.recorded import located_lines, read_events

from thence.core.model.events import Event, parse
from thence.errors import MisuseError
from thence.tables.files import line_reader as lines
from thence.tables.files import source
from thence.tables.files.jsonl import parse_row, write_jsonl
from thence.tables.files.source import Quarantined

LINE = b'{"run":"r","process":"a","index":1,"kind":"internal"}'


def read(data: bytes, **given: int) -> list[tuple[int, Event] | Quarantined]:
    return list(located_lines(io.BytesIO(data), "f", **given))


def reasons(data: bytes) -> list[tuple[int | None, str]]:
    return [(each.line, each.reason) for each in read(data) if isinstance(each, Quarantined)]


def test_the_bytes_are_these() -> None:
    stream = io.BytesIO()
    events = [*parse("a!1>bc b?a1/red", run="é"), Event("é", "c", 1, "crash", time=1.0)]
    assert write_jsonl(events, stream) == 3
    assert stream.getvalue().decode() == (
        '{"run":"é","process":"a","index":1,"kind":"send","message":"a1","destinations":["b","c"],"order":0}\n'
        '{"run":"é","process":"b","index":1,"kind":"deliver","message":"a1","label":"red","order":1}\n'
        '{"run":"é","process":"c","index":1,"kind":"crash","time":1.0}\n'
    )


def test_what_cannot_be_written_says_why() -> None:
    with pytest.raises(MisuseError, match="cannot be written as JSON"):
        write_jsonl([Event("r", "a", 1, "internal", time=float("inf"))], io.BytesIO())
    with pytest.raises(MisuseError, match="surrogates not allowed"):
        write_jsonl([Event("r", "\ud800", 1, "internal")], io.BytesIO())


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz"])
def test_a_file_is_the_same_every_time(tmp_path: Path, name: str) -> None:
    events = parse("a!1>bc b?a1 c?a1")
    (tmp_path / "x").mkdir()
    for folder in (tmp_path, tmp_path / "x"):
        write_jsonl(events, folder / name)
    assert (tmp_path / name).read_bytes() == (tmp_path / "x" / name).read_bytes()
    found: list[Quarantined] = []
    assert read_events(tmp_path / name, found) == events
    assert found == []


def test_line_order_says_order_where_a_row_does_not() -> None:
    lines = [LINE, b"", LINE[:-1] + b',"order":40}', LINE]
    assert [each[1].order for each in read(b"\n".join(lines), start=10)] == [10, 40, 13]  # type: ignore[index]


def test_blank_lines_a_mark_and_carriage_returns_are_fine() -> None:
    assert len(read(b"\xef\xbb\xbf" + LINE + b"\r\n\r\n  \t\n" + LINE)) == 2


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"run":"r","proc', "not JSON: Unterminated string starting at position 12"),
        (b"[1,2]", "the line holds list; a JSON object is accepted"),
        (b"7", "the line holds 7; a JSON object is accepted"),
        (b'"\xff"', "not UTF-8: byte 0xff at position 2"),
        (b'{"time":NaN}', "not JSON: NaN is not JSON"),
        (b"{} {}", "not JSON: Extra data at position 4"),
        (b"{}", "kind is missing"),
    ],
)
def test_reasons(line: bytes, reason: str) -> None:
    assert reasons(LINE + b"\n" + line + b"\n" + LINE) == [(2, reason)]


@pytest.mark.parametrize("line", [b"[" * 100_000, b'{"index":' + b"9" * 5_000 + b"}"])
def test_monsters_are_refused_without_a_traceback(line: bytes) -> None:
    assert isinstance(parse_row(line), str) or reasons(line)


def test_a_last_line_that_is_cut_off_says_so() -> None:
    assert reasons(LINE + b"\n" + LINE[:20]) == [
        (2, "the last line is cut off or not an event: not JSON: Expecting ':' delimiter at position 21")
    ]
    assert reasons(LINE + b"\n" + LINE) == []


def test_a_line_too_long_is_refused_and_the_rest_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LINE_LIMIT", 64)
    found = read(LINE + b"\n" + b"x" * 1000 + b"\n" + LINE + b"\n" + b"y" * 64 + b"\n" + b"z" * 64)
    assert [each.line for each in found if isinstance(each, Quarantined)] == [2, 4, 5]
    assert [each[0] for each in found if not isinstance(each, Quarantined)] == [1, 3]


def test_a_record_shows_the_beginning_of_the_line() -> None:
    (found,) = read(b"nonsense " * 1000)
    assert isinstance(found, Quarantined)
    assert found.text is not None
    assert found.text.startswith("nonsense")
    assert len(found.text) == source.TEXT_LIMIT
    assert {name: value for name, value in found.row().items() if value is not None} == {
        "file": "f", "line": 1, "reason": found.reason, "text": found.text, "order": 0,
    }  # fmt: skip
    assert str(found) == f"f:1: {found.reason}"


def test_a_damaged_gzip_file_keeps_what_came_before(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(LINE + b"\n" for _ in range(50_000)))[:-40])
    found: list[Quarantined] = []
    events = read_events(path, found)
    assert events
    assert found[-1].reason.startswith("the file breaks off:")
    assert found[-1].line is not None
    assert len(events) <= found[-1].line
