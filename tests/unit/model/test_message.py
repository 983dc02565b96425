"""Names of messages and hops: the forms that docs/reference/trace.md shows, and no two alike."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thence.core.model.message import MESSAGE, Copy, is_hop
from thence.core.model.message_names import hop_name, name_of

TEXTS = st.text("a1:#/b7", min_size=1, max_size=6)
KEYS = st.tuples(TEXTS, st.integers(1, 120), st.none() | st.text("a1:#/b7", max_size=6))


@pytest.mark.parametrize(
    ("sender", "label", "name"),
    [
        ("a", None, "a7"),
        ("a", "red", "a7/red"),
        ("node1", None, "node1:7"),
        ("node1", "red", "node1:7/red"),
        ("a:", None, "a::7"),
        ("a#", None, "a#:7"),
        ("rack1/x", None, "rack1:/x7"),
        ("rack/x", None, "rack/x7"),
    ],
)
def test_forms(sender: str, label: str | None, name: str) -> None:
    assert name_of(sender, 7, label) == name


@given(KEYS, KEYS)
def test_no_two_messages_have_one_name(one: tuple[str, int, str | None], other: tuple[str, int, str | None]) -> None:
    assert (name_of(*one) == name_of(*other)) == (one == other)


def test_no_two_messages_have_one_name_where_collisions_are_likely() -> None:
    """Every sender and label of up to four characters out of those that names are made with."""
    texts = ["".join(chars) for size in range(1, 5) for chars in product("a1:/", repeat=size)]
    labels = [None, "", "1", "a1", "/1", "1/a", "a1/1"]
    names = {name_of(text, count, label) for text in texts for label in labels for count in (1, 11)}
    assert len(names) == len(texts) * len(labels) * 2


def test_a_hop_counts_along_its_link() -> None:
    assert hop_name("a", 7, "b") == "a7/b"
    assert hop_name("node1", 7, "node2") == "node1:7/node2"


@pytest.mark.parametrize(
    ("copy", "hop"),
    [
        (Copy(0, 1, 0b110, 0, 1, None), False),
        (Copy(0, 1, 0b110, 2, 1, None), True),
        (Copy(0, 1, 0b100, 0, 1, None), True),
        (Copy(0, 1, 0b110, 0, 1, None, kind="ok"), True),
    ],
    ids=["straight", "by another", "to a process it is not for", "of the protocol"],
)
def test_what_a_hop_is(copy: Copy, hop: bool) -> None:
    assert is_hop(copy) is hop
    assert copy.kind == MESSAGE or hop
