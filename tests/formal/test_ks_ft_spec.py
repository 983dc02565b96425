"""KsFt.tla under TLC: with crashes and failure detectors its properties hold, and known mistakes break them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support import formal_models as models
from support.explored import explored_states

from thence.lab.formal import tlc
from thence.lab.formal.tlc import check

ERRATUM_20 = ((1, [3]), (1, [2]), (2, [3]))
ALONE = ([1], [2], [3])


@pytest.mark.parametrize(
    ("groups", "messages", "workload", "states"),
    [(([1], [2]), 1, (), 407), (ALONE, 1, (), 7804), (ALONE, 3, ERRATUM_20, 7623)],
)
def test_ks_ft_keeps_its_promises_with_one_crash(
    groups: list[list[int]], messages: int, workload: list[tuple[int, list[int]]], states: int
) -> None:
    found = check(models.ks_ft(groups, messages, 1, workload=workload))
    assert (found.violated, found.distinct) == ("", states)


@pytest.mark.parametrize(("processes", "crashes", "states"), [(2, 1, 379), (2, 2, 595)])
def test_tlc_and_the_explorer_find_the_same_states(processes: int, crashes: int, states: int) -> None:
    found = check(models.ks_ft_member(processes, 1, crashes))
    assert found.violated == ""
    assert explored_states(processes, crashes) == found.printed.count(("state",)) == states


def test_without_the_hold_back_a_message_waits_for_ever() -> None:
    """Errata 20: the message that was lost with its sender is a cause of one that was not."""
    found = check(models.ks_ft(ALONE, 3, 1, workload=ERRATUM_20, holds_back=False))
    assert found.violated == "Validity"


def test_what_must_be_delivered_is_delivered_in_the_end() -> None:
    found = check(models.ks_ft_live(([1], [2]), 1, 2))
    assert (found.violated, found.distinct) == ("", 1425)


MISTAKES = {
    "F-delivery waits for no OKs": (
        "    /\\ Secured(j, e.m, e.okayed)                                                \\* line 17",
        "    /\\ TRUE", {"UniformAgreement", "Validity"},
    ),
    "accuracy in the whole system only": (
        "\\A g \\in Groups : g \\ faulty # {} => (T \\cap g) \\ faulty # {}",
        "(Proc \\ faulty # {}) => (T \\ faulty # {})", {"UniformAgreement"},
    ),
    "OKs do not go to the sender": (
        "IF m.s = j THEN m.Dests ELSE m.Dests \\cup {m.s}", "m.Dests", {"Secures"},
    ),
    "no OKs": ("ELSE IF next THEN Copies(\"ok\", j, told \\ {j}, m) ", "ELSE IF next THEN {} ", {"liveness"}),
    "nothing is fair": ("Spec /\\ WF_vars(Progress)", "Spec", {"liveness"}),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_in_the_specification_are_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right, wrong, expected = MISTAKES[mistake]
    texts = dict(tlc.specifications())
    assert texts["KsFt.tla"].count(right) == 1
    texts["KsFt.tla"] = texts["KsFt.tla"].replace(right, wrong)

    def changed() -> Iterator[tuple[str, str]]:
        yield from texts.items()

    monkeypatch.setattr(tlc, "specifications", changed)
    model = models.ks_ft_live(([1], [2]), 1, 1) if "liveness" in expected else models.ks_ft(ALONE, 1, 1)
    assert check(model).violated in expected
