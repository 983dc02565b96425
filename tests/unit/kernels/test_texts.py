"""Texts that travel as one come apart as they were."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from thence.kernels.texts import END, INDEX, LABEL, LAST, NEXT, NO_TEXT, NOBODY, NULL, ODD, UNADDRESSED, split

NAMES = st.one_of(st.none(), st.sampled_from(["", "a", "b", "ab", "é", "\x00", "\U0010ffff"]), st.text(max_size=5))
REASONS = st.one_of(st.none(), st.text(min_size=1, max_size=5))
ROWS = st.tuples(NAMES, NAMES, st.one_of(st.none(), st.lists(NAMES, max_size=4)), NAMES, REASONS)
Row = tuple[Any, ...]


def name(text: str | None) -> bytes:
    return bytes([NULL]) if text is None else text.encode()


def joined(row: Row) -> bytes:
    """Say of one row what `spark.transport` says of all."""
    process, message, destinations, label, odd = row
    if destinations is None:
        told = bytes([UNADDRESSED])
    else:
        told = bytes([NEXT]).join(map(name, destinations)) if destinations else bytes([NOBODY])
    text = bytes([END]).join([name(process), name(message), told])
    if label is None and odd is None:
        return text
    return text + bytes([LABEL]) + name(label) + bytes([ODD]) + (odd or "").encode()


def apart(texts: list[bytes]) -> list[Row]:
    found = split(pa.array(texts, pa.binary()))
    assert not found.indexes
    for column in found[:5]:
        column.validate(full=True)
    return list(zip(*(column.to_pylist() for column in found[:5]), strict=True))


@given(st.lists(ROWS, max_size=30))
@example([(None, None, [None, ""], None, None), ("", "", [], "", None), ("", "", [""], None, "why")])
def test_what_was_joined_comes_apart(rows: list[Row]) -> None:
    assert apart([joined(row) for row in rows]) == [tuple(row) for row in rows]


@given(st.lists(st.tuples(ROWS, st.one_of(st.none(), st.just("fits"), st.integers(-(2**63), 2**63 - 1)))))
def test_an_index_that_came_as_a_text(rows: list[tuple[Row, int | str | None]]) -> None:
    told = []
    for (process, message, destinations, label, odd), index in rows:
        text = joined((process, message, destinations, label, odd))
        if index != "fits":
            tail = b"" if label is not None or odd is not None else bytes([LABEL, NULL, ODD])
            text += tail + bytes([INDEX]) + (bytes([NULL]) if index is None else str(index).encode())
        told.append(text)
    found = split(pa.array(told, pa.binary()))
    assert found.indexes == {place: index for place, (_, index) in enumerate(rows) if index != "fits"}
    assert list(zip(*(column.to_pylist() for column in found[:5]), strict=True)) == [row for row, _ in rows]


def test_a_reason_may_hold_any_bytes() -> None:
    tail = bytes([END, END, UNADDRESSED, LABEL, NULL, ODD])
    found = split(pa.array([tail + b"\xf8why", tail + b"\xf87\xf89", tail + b"\xf8"], pa.binary()))
    assert found.odd.to_pylist() == ["\ufffdwhy", "\ufffd7", "\ufffd"]
    assert found.indexes == {1: 9}


def test_many_names() -> None:
    rows = [(f"p{i}", f"m{i}", [f"p{i + 1}", f"p{2 * i}"], f"l{i % 700}", None) for i in range(5000)]
    assert apart([joined(row) for row in rows]) == rows


def test_a_slice_of_a_column() -> None:
    rows = [("a", "m", ["b"], None, None), ("b", None, None, "l", None), ("c", "m", [], None, "why")]
    texts = pa.array([joined(row) for row in rows], pa.binary())
    assert split(texts.slice(1)).process.to_pylist() == ["b", "c"]


@given(st.lists(st.binary(max_size=12).flatmap(lambda b: st.just(bytes(c | 0xF0 if c % 3 else c for c in b)))))
def test_what_is_no_text_is_said_so(texts: list[bytes]) -> None:
    """Nothing is lost and nothing crashes: a row is odd, or it says its own text again."""
    found = split(pa.array(texts, pa.binary()))
    told = found.odd.cast(pa.binary()).to_pylist()
    columns = [column.cast(kind).to_pylist() for column, kind in zip(found[:3], _BYTES, strict=True)]
    assert [len(column) for column in (*columns, told)] == [len(texts)] * 4
    for text, process, message, destinations, odd in zip(texts, *columns, told, strict=True):
        if odd == NO_TEXT.encode():
            assert (process, message, destinations) == (None, None, None)
        else:
            assert text.count(END) == 2 or ODD in text
            assert process is None or max(process, default=0) <= LAST


_BYTES = (pa.binary(), pa.binary(), pa.list_(pa.binary()))


def test_stray_marks() -> None:
    good = joined(("a", "m", ["b", "c"], None, None))
    for mark in (END, NEXT, NULL, UNADDRESSED, NOBODY, ODD, LABEL, INDEX):
        for place in range(3):
            spoilt = good[:place] + bytes([mark]) + good[place:]
            told = apart([good, spoilt, good])
            assert told[0] == told[2] == ("a", "m", ["b", "c"], None, None)
            assert told[1] == (None, None, None, None, NO_TEXT), (mark, place)
