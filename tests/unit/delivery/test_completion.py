"""The delivery rule by completion: a cause is met when it is done, not when it leaves."""

from __future__ import annotations

import pytest

from thence.errors import MisuseError
from thence.protocols import create
from thence.tables.delivery import KINDS, Outcome, Policy, Reading, Rule
from thence.tables.delivery.reading import By, rosters_of


def rule(by: By = "depends_on") -> Rule:
    made = Rule(Reading(by, ()), Policy())
    made.by_completion()
    return made


def push(made: Rule, message: str, *causes: str) -> list[tuple[int, str]]:
    return told(made.push(made.reading.read(message, None, None, list(causes)), message))


def count(made: Rule, sender: str, **clock: int) -> list[tuple[int, str]]:
    return told(made.push(made.reading.read(None, sender, "d", clock)))


def told(outcomes: list[Outcome]) -> list[tuple[int, str]]:
    return [(each.ticket, KINDS[each.kind]) for each in outcomes]


def reasons(made: Rule) -> list[str]:
    return [each.reason for each in made.pending()]


def test_an_effect_starts_when_its_cause_is_done() -> None:
    made = rule()
    assert push(made, "a") == [(1, "delivered")]
    assert push(made, "b", "a") == []
    assert reasons(made) == ["waits for a; a has not finished"]
    assert push(made, "a") == [(3, "duplicate")]
    assert told(made.done(1)) == [(2, "delivered")]
    assert push(made, "a") == [(4, "duplicate")]
    assert told(made.done(2)) == []


def test_the_root_of_a_wait_is_the_row_that_runs() -> None:
    made = rule()
    push(made, "a")
    push(made, "b", "a")
    push(made, "c", "b")
    assert [each.blocker for each in made.pending()] == ["a", "a"]


def test_effects_of_a_skipped_row_are_released() -> None:
    made = rule()
    push(made, "a")
    push(made, "b", "a")
    (freed,) = made.skip(1, "skipped")
    assert (KINDS[freed.kind], freed.missing, freed.reason) == ("released", ["a"], "released without a, skipped")
    assert push(made, "a") == [(3, "late")]


def test_a_dead_letter_takes_everything_behind_it() -> None:
    made = rule()
    push(made, "a")
    push(made, "b", "a")
    push(made, "c", "b", "x")
    push(made, "d", "x")
    assert told(made.dead_letter(1, "gone")) == [(2, "quarantined"), (3, "quarantined")]
    assert push(made, "e", "c") == [(5, "quarantined")]
    assert push(made, "f", "e") == [(6, "quarantined")]
    assert push(made, "a") == [(7, "duplicate")]
    assert [each.ticket for each in made.pending()] == [4]


def test_a_dead_letter_of_a_clock_takes_what_counts_it() -> None:
    made = rule("clock")
    assert count(made, "a", a=1) == [(1, "delivered")]
    assert count(made, "a", a=2) == []
    assert count(made, "b", a=1, b=1) == []
    assert count(made, "c", c=1) == [(4, "delivered")]
    assert told(made.dead_letter(1, "gone")) == [(2, "quarantined"), (3, "quarantined")]
    assert count(made, "c", b=1, c=2) == [(5, "quarantined")]
    assert count(made, "a", a=1) == [(6, "quarantined")]


def test_numbers_of_a_clock_follow_each_other() -> None:
    made = rule("clock")
    count(made, "a", a=1)
    count(made, "a", a=3)
    count(made, "a", a=2)
    assert [each.blocker for each in made.pending()] == ["a#1", "a#1"]
    assert told(made.done(1)) == [(3, "delivered")]
    assert told(made.done(3)) == [(2, "delivered")]


def test_a_row_that_is_taken_back_never_came() -> None:
    made = rule()
    push(made, "b", "a")
    push(made, "c", "b")
    made.withdraw(1)
    assert [(each.ticket, each.blocker) for each in made.pending()] == [(2, "b")]
    push(made, "a")
    made.withdraw(3)
    assert push(made, "a") == [(4, "delivered")]
    assert push(made, "b", "a") == []
    assert told(made.done(4)) == [(5, "delivered")]
    assert told(made.done(5)) == [(2, "delivered")]


def test_nothing_is_kept_of_a_row_that_was_taken_back() -> None:
    made = rule()
    for number in range(5):
        push(made, f"b{number}", f"a{number}")
        made.withdraw(number + 1)
    assert made.orders == {None: {}}


def test_what_the_target_has_is_met_and_nothing_is_missing() -> None:
    made = rule()
    push(made, "c", "a", "b")
    assert made.unarrived(1) == ["a", "b"]
    push(made, "b")
    assert made.unarrived(1) == ["a"]
    assert made.met_elsewhere(["a", "b", "z"]) == []
    assert push(made, "a") == [(3, "duplicate")]
    assert told(made.done(2)) == [(1, "delivered")]


def test_a_protocol_with_a_rule_of_its_own_is_refused() -> None:
    roster = rosters_of("stamp", ["a", "b"])
    made = Rule(Reading("stamp", roster), Policy())
    made.by_completion()
    member = create("ses", ["a", "b"], "a")
    (copy,) = member.send(["b"]).copies
    read = made.reading.read(None, "a", "b", member.encode(copy))
    with pytest.raises(MisuseError, match="ses decides by a rule of its own"):
        made.push(read)
