from __future__ import annotations

import pytest

from thence.core.model.roster import Roster, letters, positions
from thence.errors import MisuseError


def test_masks_and_names() -> None:
    roster = Roster(["a", "b", "c"])
    assert roster.mask(["c", "a"]) == 0b101
    assert roster.members(0b101) == ("a", "c")
    assert list(positions(0b1010)) == [1, 3]


def test_letters_only_names() -> None:
    assert [letters(i) for i in (0, 25, 26, 27, 701, 702)] == ["a", "z", "aa", "ab", "zz", "aaa"]
    assert len(set(Roster.of(800))) == 800


def test_unknown_and_doubled_names_are_named() -> None:
    with pytest.raises(MisuseError, match="no process 'z' in the roster; it holds a, b"):
        Roster("ab").position("z")
    with pytest.raises(MisuseError, match="'a' stands twice"):
        Roster("aba")
    with pytest.raises(MisuseError, match="non-empty string"):
        Roster(["a", ""])


def test_a_joining_process_gets_the_next_position_and_old_masks_keep_their_meaning() -> None:
    before = Roster("ab")
    after = before.joined("c")
    assert after.members(before.mask("b")) == ("b",)
    assert before.hash != after.hash
    assert before in list(after.lineage())
    with pytest.raises(MisuseError, match="in the roster already"):
        after.joined("b")


def test_the_hash_depends_on_order_and_on_where_names_end() -> None:
    assert Roster("ab").hash != Roster("ba").hash
    assert Roster(["ab", "c"]).hash != Roster(["a", "bc"]).hash
