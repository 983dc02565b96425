"""Texts to small integers, against a dictionary."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from thence.kernels import interning as intern
from thence.kernels.ids import hashes_of
from thence.kernels.texts import END, UNADDRESSED, split


def slowly(texts: list[str | None]) -> tuple[list[int], list[str]]:
    codes: dict[str, int] = {}
    return [-1 if text is None else codes.setdefault(text, len(codes)) for text in texts], list(codes)


TEXTS = st.lists(st.none() | st.sampled_from(["", "a", "aa", "b", "ä"]) | st.text(max_size=12), min_size=1, max_size=40)


@given(TEXTS, st.integers(0, 5))
@example(["", ""], 0)
def test_codes_are_those_of_a_dictionary(texts: list[str | None], start: int) -> None:
    column = pa.array(texts, pa.string()).slice(start)
    assume(len(column))
    codes, names = intern.intern(column)
    assert codes.dtype == np.int32
    assert (codes.tolist(), names.to_pylist()) == slowly(texts[start:])


@pytest.mark.parametrize("one_hash", [0, 1 << 63, (1 << 64) - 1])
def test_bytes_decide_where_hashes_agree(one_hash: int) -> None:
    table = np.full(16, -1, np.int32)
    spans, known = np.zeros((8, 2), np.int32), np.full(8, one_hash, np.uint64)
    data = np.frombuffer(b"abacab", np.uint8)
    found = []
    count = 0
    for start in (0, 2, 4):
        code = intern.code_of(table, spans, known, data, np.uint64(one_hash), start, start + 2)
        if code < 0:
            table[-1 - code] = code = count
            spans[count] = start, start + 2
            count += 1
        found.append(int(code))
    assert found == [0, 1, 0]


def test_rows_with_many_names() -> None:
    names = [f"process {n % 700}" for n in range(2000)]
    rows = [name.encode() + bytes([END]) + b"m" + bytes([END, UNADDRESSED]) for name in names]
    assert split(pa.array(rows, pa.binary())).process.to_pylist() == names


@given(st.lists(st.text(max_size=9), max_size=30), st.integers(0, 4))
def test_equal_ids_have_equal_hashes(names: list[str], start: int) -> None:
    hashes = hashes_of(pa.array(names, pa.string()).slice(start)).tolist()
    told = dict(zip(names[start:], hashes, strict=True))
    assert [told[name] for name in names[start:]] == hashes
    assert len(set(hashes)) == len(told)
