"""The specifications in larger systems, and longer traces against them; minutes each."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support import formal_models as models
from support.explored import explored_states
from support.mutant_ks import recorded
from support.mutant_ks_ft import recorded as recorded_ft

from thence.core.protocols.ks import KS
from thence.core.protocols.ks_ft import KsFt
from thence.lab.explorer.search import explore
from thence.lab.explorer.setting import Setting
from thence.lab.formal.conform import conform
from thence.lab.formal.tlc import check

HOURS = 2 * 3600.0


@pytest.mark.parametrize(
    ("processes", "messages", "destinations", "states"),
    [(3, 3, "any", 44_785), (3, 4, "unicast", None), (4, 3, "unicast", None), (4, 2, "any", None)],
)
def test_ks_keeps_its_promises(processes: int, messages: int, destinations: str, states: int | None) -> None:
    found = check(models.ks(processes, messages, destinations), workers=2, patience=HOURS)
    print(processes, messages, destinations, found.distinct)
    assert found.violated == ""
    assert states in (None, found.distinct)


def test_whatever_is_sent_is_delivered() -> None:
    assert check(models.ks_live(3, 3, "unicast"), patience=HOURS).violated == ""


@pytest.mark.parametrize(
    ("processes", "messages", "destinations", "states"),
    [(3, 3, "any", 11_700), (3, 4, "unicast", 11_657), (4, 3, "unicast", None), (4, 2, "any", None)],
)
def test_tlc_and_the_explorer_count_the_same_states(
    processes: int, messages: int, destinations: str, states: int | None
) -> None:
    judged = frozenset({"causal order", "no duplicates"})
    ours = explore(Setting("ks", processes, messages, destinations), reduce=False, properties=judged)
    theirs = check(models.ks_member(processes, messages, destinations), patience=HOURS)
    print(processes, messages, destinations, ours.states, theirs.distinct)
    assert ours.states == theirs.distinct
    assert states in (None, ours.states)


@pytest.mark.parametrize(
    ("groups", "messages", "crashes", "states"),
    [(([1], [2]), 2, 1, 11_431), (([1, 2], [3]), 1, 1, 43_630), (([1], [2], [3]), 1, 2, None)],
)
def test_ks_ft_keeps_its_promises(
    groups: Sequence[Sequence[int]], messages: int, crashes: int, states: int | None
) -> None:
    found = check(models.ks_ft(groups, messages, crashes), workers=2, patience=HOURS)
    print(groups, messages, crashes, found.distinct)
    assert found.violated == ""
    assert states in (None, found.distinct)


def test_what_must_be_delivered_is_delivered_in_the_end() -> None:
    found = check(models.ks_ft_live(([1], [2], [3]), 1, 1), patience=HOURS)
    assert (found.violated, found.distinct) == ("", 46_072)


def test_tlc_and_the_explorer_find_the_same_states_of_ks_ft() -> None:
    found = check(models.ks_ft_member(3, 1, 1), patience=HOURS)
    assert found.violated == ""
    assert explored_states(3, 1) == found.printed.count(("state",)) == 35_419


@pytest.mark.parametrize("seed", range(1, 6))
def test_long_traces_conform(seed: int) -> None:
    (found,) = conform(recorded(KS, 8, 300, seed), patience=HOURS)
    assert found.conforms, f"seed {seed}: {found.sentence}"


@pytest.mark.parametrize(("groups", "crashes"), [("", 1), ("", 2), ("ab|c|de", 2)])
def test_long_traces_of_ks_ft_conform(groups: str, crashes: int) -> None:
    traces = [recorded_ft(KsFt, seed, groups=groups, crashes=crashes, messages=80) for seed in range(1, 21)]
    found = conform([row for rows in traces for row in rows], protocol="ks-ft", groups=groups, patience=HOURS)
    assert [each.sentence for each in found if not each.conforms] == []
    assert len(found) == 20
