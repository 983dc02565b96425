"""Texts to small integers, against a dictionary."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import assume, example, given
from hypothesis import strategies as st

from thence.tables.judge import coded_rows as intern
from thence.tables.judge.ids import hashes_of


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


@given(st.lists(st.text(max_size=9), max_size=30), st.integers(0, 4))
def test_equal_ids_have_equal_hashes(names: list[str], start: int) -> None:
    hashes = hashes_of(pa.array(names, pa.string()).slice(start)).tolist()
    told = dict(zip(names[start:], hashes, strict=True))
    assert [told[name] for name in names[start:]] == hashes
    assert len(set(hashes)) == len(told)
