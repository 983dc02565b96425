"""KS.tla under TLC: its properties hold, its states are the explorer's, and mistakes in it are found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support import formal_models as models

from thence.lab.explorer.search import explore
from thence.lab.explorer.setting import Setting
from thence.lab.formal import tlc
from thence.lab.formal.tlc import check

ORDERLY = frozenset({"causal order", "no duplicates"})


@pytest.mark.parametrize(
    ("processes", "messages", "destinations", "to_self", "states"),
    [(3, 2, "any", False, 1528), (2, 2, "any", True, 794), (3, 3, "unicast", False, 3133)],
)
def test_ks_keeps_its_promises(processes: int, messages: int, destinations: str, to_self: bool, states: int) -> None:
    found = check(models.ks(processes, messages, destinations, to_self=to_self))
    assert (found.violated, found.distinct) == ("", states)


def test_whatever_is_sent_is_delivered() -> None:
    found = check(models.ks_live(3, 2, "any"))
    assert (found.violated, found.distinct) == ("", 1528)


@pytest.mark.parametrize(
    ("processes", "messages", "destinations", "to_self", "states"),
    [(2, 3, "any", False, 79), (3, 2, "any", False, 547), (2, 3, "any", True, 4279), (3, 3, "unicast", False, 1265)],
)
def test_tlc_and_the_explorer_count_the_same_states(
    processes: int, messages: int, destinations: str, to_self: bool, states: int
) -> None:
    """The explorer without its reductions: each state of the system and the judge's memory once."""
    ours = explore(Setting("ks", processes, messages, destinations, to_self=to_self), reduce=False, properties=ORDERLY)
    theirs = check(models.ks_member(processes, messages, destinations, to_self=to_self))
    assert (ours.verdict, theirs.violated) == ("holds", "")
    assert ours.states == theirs.distinct == states
    assert ours.depth == theirs.depth - 1, "TLC counts states on the way, the explorer steps"


MISTAKES = {
    "a copy says nothing of its own destination": (
        "(@ \\ D) \\cup (@ \\cap {d})", "@ \\ D", "CausalOrder ExactCopies NoNeedlessWaiting",
    ),
    "a copy carries the whole log": ("(@ \\ D) \\cup (@ \\cap {d})", "@", "ExactCopies"),
    "RCV(1) is left out": ("    /\\ Deliverable(j, c) ", "    /\\ TRUE ", "CausalOrder"),
    "the log keeps what a later message covers": ("Purge(Without(L, D) \\cup {", "Purge(L \\cup {", "ExactLogs"),
    "RCV(4) as printed": ("<<e.s, e.t>> \\notin names /\\ \\E n", "FALSE /\\ \\E n", "ExactLogs"),
    "RCV(3) keeps the destination": ("\\cup c.O, {c.d})", "\\cup c.O, {})", "ExactLogs"),
    "the newest empty entry is purged": (
        "l.Dests # {} \\/ ~ \\E k \\in L : k.s = l.s /\\ l.t < k.t", "l.Dests # {}", "CanonicalLogs ExactLogs",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_in_the_specification_are_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right, wrong, expected = MISTAKES[mistake]
    texts = dict(tlc.specifications())
    (name,) = [name for name in ("KS.tla", "DependencyLog.tla") if texts[name].count(right) == 1]
    texts[name] = texts[name].replace(right, wrong)

    def changed() -> Iterator[tuple[str, str]]:
        yield from texts.items()

    monkeypatch.setattr(tlc, "specifications", changed)
    found = check(models.ks(3, 3, "unicast" if "RCV(1)" in mistake else "any"))
    assert found.violated in expected.split()
