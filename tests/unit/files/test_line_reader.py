"""Lines: their numbers, their ends, and that none of them is ever too much."""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.recorded import located_rows

from thence.tables.files import line_reader as module
from thence.tables.files.line_reader import Line, lines
from thence.tables.files.read import split_files
from thence.tables.files.splits import split_lines


class Endless(io.BufferedIOBase):
    """A stream of so many letters, then a newline and one more line; nothing of it is held."""

    def __init__(self, letters: int) -> None:
        self.letters = letters
        self.rest = b"\nlast\n"

    def read1(self, size: int = -1) -> bytes:
        if self.letters:
            count = min(size, self.letters)
            self.letters -= count
            return b"x" * count
        rest, self.rest = self.rest[:size], self.rest[size:]
        return rest


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.binary(max_size=12).map(lambda data: data.replace(b"\n", b"")), max_size=12),
    st.integers(1, 40),
    st.integers(1, 20),
    st.booleans(),
)
def test_lines_are_those_of_a_split(some: list[bytes], block: int, limit: int, ended: bool) -> None:
    data = b"\n".join(some) + (b"\n" if ended and some else b"")
    parts = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    last = parts.pop()
    expected = [(number, part, True) for number, part in enumerate(parts, 1)]
    expected += [(len(parts) + 1, last, False)] if last else []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", max(block, 3))
        patch.setattr(module, "LINE_LIMIT", limit)
        found = list(lines(io.BytesIO(data)))
    assert [line.number for line in found] == [number for number, _, _ in expected]
    for line, (_, part, has_end) in zip(found, expected, strict=True):
        assert line.whole == (len(part) < limit)
        assert part.startswith(line.data)
        if line.whole:
            assert line.data == (part.rstrip(b"\r") if has_end else part)
            assert line.ended == has_end


def test_a_byte_order_mark_goes_only_where_the_file_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = b"\xef\xbb\xbf"
    for block in (3, 4, 64):  # a later one begins a block too, inside the first line and after it
        monkeypatch.setattr(module, "BLOCK", block)
        found = [line.data for line in lines(io.BytesIO(mark + mark + b"a\n" + mark + b"\n" + mark))]
        assert found == [mark + b"a", mark, mark]


def test_a_line_that_is_too_long_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINE_LIMIT", 1 << 17)
    monkeypatch.setattr(module, "BLOCK", 1 << 14)
    tracemalloc.start()
    found = list(lines(Endless(1 << 26)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == [Line(1, b"x" * module.BEGINNING, whole=False), Line(2, b"last")]
    assert peak < 1 << 20


def test_a_line_longer_than_a_split_belongs_to_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINE_LIMIT", 5000)
    monkeypatch.setattr("thence.tables.files.splits.COUNTED", 100)
    path = tmp_path / "t.jsonl"
    good = b'{"run":"r","process":"a","index":1,"kind":"internal"}\n'
    path.write_bytes(good * 10 + b"x" * 50_000 + b"\n" + good * 10 + b"y" * 6000)
    splits, count = split_lines(path, 200, 0, last=True)
    assert (len(splits) > 5, count) == (True, 22)
    assert sum(part.length or 0 for part in splits) == path.stat().st_size
    rows = [row for part in split_files({path: "jsonl"}, 200).splits for row in located_rows(part)]
    assert [row[0] if isinstance(row, tuple) else row.line for row in rows] == list(range(1, 23))
    assert [row.line for row in rows if not isinstance(row, tuple)] == [11, 22]
