"""What people read has no control characters; what has none is unchanged."""

from __future__ import annotations

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from thence.core.model.escape import escaped_json, visible, visible_lines

TURNING = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\ufeff")
anything = st.text(st.characters() | st.sampled_from([*sorted(TURNING), "\x1b", "\x9b", "\x7f", "\ud800", "\n"]))


def dangerous(text: str) -> set[str]:
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cs") or c in TURNING}


@given(anything)
def test_no_control_character_is_left(text: str) -> None:
    assert not dangerous(visible(text))
    assert dangerous(visible_lines(text)) <= {"\n"}
    assert visible_lines(text).count("\n") == text.count("\n")
    if not dangerous(text):
        assert visible(text) == visible_lines(text) == text


def test_they_show_as_escapes() -> None:
    assert visible("a\x1b[31mb\x9b\u202e\n\t\ud800") == r"a\x1b[31mb\x9b\u202e\n\t\ud800"
    assert visible("naïve 二 \\x1b 👩‍💻") == "naïve 二 \\x1b 👩‍💻"


@given(st.recursive(anything, lambda inner: st.lists(inner) | st.dictionaries(anything, inner), max_leaves=5))
def test_json_says_the_same(value: object) -> None:
    text = escaped_json(json.dumps(value, ensure_ascii=False))
    assert not dangerous(text)
    assert json.loads(text) == value
