"""The oracle of the long runs finds what it is for, in runs of a few lines."""

from __future__ import annotations

import pytest
from support.live_oracle import Findings, Oracle

GOOD = {
    "a": ["start", "begin m1 b,c", "sent m1", "handed m3 b2 0"],
    "b": ["start", "handed m1 a1 0", "begin m2 c", "within m2 m1>b", "begin m3 a", "within m3 m1>b", "committed m1>b"],
    "c": ["start", "handed m1 a1 0", "start", "handed m1 a1 1", "handed m2 b1 0"],
}
ROWS = {"a": {}, "b": {"m1>b": 1}, "c": {}}


def judged(rows: dict[str, dict[str, int]] | None = None, **instead: list[str]) -> Findings:
    return Oracle({**GOOD, **instead}, {**ROWS, **(rows or {})}).judge()


def test_a_run_that_is_well() -> None:
    found = judged()
    assert found.wrong == []
    assert (found.messages, found.hand_overs, found.pairs) == (3, 5, 1)


@pytest.mark.parametrize(
    ("what", "instead", "sentence"),
    [
        ("lost", {"c": ["handed m2 b1 0"]}, "c was never handed m1"),
        ("early", {"c": ["handed m2 b1 0", "handed m1 a1 0"]}, "c was handed m2 (b1) before m1"),
        ("doubled", {"c": ["handed m1 a1 0", "handed m1 a1 0", "handed m2 b1 0"]}, "c was handed m1 (a1) twice"),
        ("doubled", {"a": ["begin m1 b,c", "sent m1", "handed m3 b2 0", "handed m9 b9 0"]}, "a was handed m9, which"),
        ("doubled", {"a": ["begin m1 b,c", "handed m3 b2 0", "handed m2 b1 0"]}, "which is for ['c']"),
        ("torn", {"a": ["begin m1 b,c", "sent m1"]}, "of transaction m1>b, 1 sends of 2 happened"),
    ],
)
def test_what_is_wrong_is_found(what: str, instead: dict[str, list[str]], sentence: str) -> None:
    assert any(sentence in text for text in getattr(judged(**instead), what))


def test_a_transaction_without_its_row_did_not_happen() -> None:
    assert judged({"b": {}}).torn == ["of transaction m1>b, 2 sends of 0 happened"]
    assert judged({"b": {"m1>b": 2}}).doubled == ["b: m1>b left 2 rows"]


def test_a_send_that_was_withdrawn_is_no_cause_and_not_lost() -> None:
    a = ["start", "begin m0 c", "begin m1 b,c", "sent m1", "handed m3 b2 0"]
    assert judged(a=a).wrong == []


def test_what_an_earlier_life_sent_comes_before_what_this_one_sends() -> None:
    a = ["start", "begin m0 c", "start", "begin m1 b,c", "sent m1", "handed m3 b2 0"]
    late = ["handed m1 a1 0", "handed m0 a0 0", "handed m2 b1 0"]
    assert judged(a=a, c=late).early == ["c was handed m1 (a1) before m0"]
