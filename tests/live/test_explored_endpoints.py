"""The explorer drives cores and links: every execution of small systems, step by step, each after a restart."""

from __future__ import annotations

import pytest
from live.explored_setting import LiveSetting

from thence.lab.explorer.coverage import Coverage
from thence.lab.explorer.search import Explorer
from thence.live.core import Core
from thence.live.group import InputResult

JUDGED = frozenset({"causal order", "no duplicates", "liveness"})


def explored(**setting: object) -> Coverage:
    return Explorer(LiveSetting(fifo=True, **setting), properties=JUDGED).run()  # type: ignore[arg-type]


def test_every_execution_of_two_messages_to_any_destinations() -> None:
    found = explored(protocol="ks", messages=2, destinations="any")
    assert (found.complete, found.failures) == (True, [])
    assert (found.states, found.executions) == (565, 163)


def test_every_execution_of_three_messages_to_one_destination() -> None:
    found = explored(protocol="ks", messages=3)
    assert (found.complete, found.failures) == (True, [])
    assert (found.states, found.executions) == (1317, 685)


def test_every_execution_of_a_message_to_groups() -> None:
    found = explored(protocol="ks-ft", messages=1, destinations="any", groups="ab|c")
    assert (found.complete, found.failures) == (True, [])
    assert (found.states, found.executions) == (816, 450)


def test_unordered_is_found() -> None:
    (failure,) = explored(protocol="unordered", messages=3).failures
    assert failure.problem.property == "causal order"


def test_a_core_that_forgets_what_it_holds_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    deliver = Core._deliver

    def once(self: Core, copy: object, step: InputResult) -> None:
        if not step.delivered:
            deliver(self, copy, step)  # type: ignore[arg-type]

    monkeypatch.setattr(Core, "_deliver", once)
    (failure,) = explored(protocol="ks", messages=3).failures
    assert failure.problem.property == "liveness"
