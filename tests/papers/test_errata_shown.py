"""Findings of docs/explanation/errata.md that no exploration shows: played by hand, as the page draws them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from papers import test_separators as separators
from support.neighbours import Changing
from support.walk import play

from thence.core.model.events import render
from thence.core.model.roster import Roster
from thence.core.protocols.ech import ECH
from thence.core.protocols.ech_r9 import ECHR9
from thence.core.wire.dependency_log_cy import Log
from thence.lab.papers.variants.topology import Letter
from thence.lab.simulator import Scenario, simulate
from thence.lab.topology.joins import TopologyMembership

FOLDER = Path(__file__).parents[2] / "docs/explanation/errata"
PAGE = "\n".join(page.read_text(encoding="utf-8") for page in FOLDER.glob("*.md"))


def turns(number: int) -> str:
    """Erratum 27: a speaks to b and to c in turn, and everything arrives at once."""
    return " ".join(f"a!{2 * t + 1}>b b?a{2 * t + 1} a!{2 * t + 2}>c c?a{2 * t + 2}" for t in range(number))


def test_r63_as_printed_lets_histories_grow_for_ever() -> None:
    assert f"\n{turns(2)}\n" in PAGE
    for number in (2, 10, 60):
        script = turns(number).replace("?", "<")
        printed = play(Letter, 3, script)
        grown = printed.members[2].log_size()
        assert grown == number
        for protocol in (ECH, ECHR9):
            ours = play(protocol, 3, script)
            assert printed.delivered == ours.delivered
            assert ours.members[2].log_size() == 1
            assert max(member.log_size() for member in ours.members) <= 2
    said = f"after {number} turns {grown} elements at c, and {ours.members[2].log_size()} with the repair"
    assert said in " ".join(PAGE.split())


def hand_over_too_early() -> list[str]:
    """x takes what s knew before it heard of b1, and s counts x as told of everything."""
    membership = TopologyMembership(*separators.members_of("b-c b-s c-s s-f", "s"))
    run = Changing(membership)
    early = membership.members["s"].fork().hand_over()
    run.send("b", "c")
    run.arrive(run.send("b", "s")[0])
    run.arrive(run.send("s", "f")[0])
    run.join("x", "f", "c")
    again = ECHR9(membership.roster, "x", separators=membership.members["x"].separators)
    again.take_over(early)
    membership.members["x"] = again
    return separators.round_trip(run, "x")


JOINS: list[tuple[Callable[[], list[str]], str, str]] = [
    (hand_over_too_early, "b1", "b!1>c b!2>s s?b2 s!1>f f?s1 f!1>x x?f1 x!1>c c?x1"),
    (
        lambda: separators.two_members(separators.Hasty, second=False),
        "s1",
        "s!1>c s!2>t s!3>f f?s3 s# f!1>x x?f1 x!1>c c?x1",
    ),
    (
        lambda: separators.own_message(separators.Hasty, wait=False),
        "s1",
        "s!1>c s!2>f f?s2 s# f!1>x x?f1 x!1>c c?x1",
    ),
    (
        lambda: separators.two_members(separators.LastToFail, second=True, stable=True),
        "s1",
        "s!1>c s!2>t s!3>f f?s3 s# f!1>x x?f1 x!1>c c?x1",
    ),
]


@pytest.mark.parametrize(("broken", "missing", "shown"), JOINS)
def test_what_section_44_leaves_open_breaks_the_order(
    broken: Callable[[], list[str]], missing: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Erratum 28: c delivers x1 without what must come first, in the execution that the page draws."""
    told: list[str] = []
    drain = Changing.drain
    monkeypatch.setattr(Changing, "drain", lambda run: (told.append(render(run.events)), drain(run))[1])
    assert broken() == [missing]
    assert told == [shown.replace("s# ", "")]
    assert f"\n{shown}\n" in PAGE


class Omitting(ECH):
    """R7 in spite of explicit contexts."""

    def _stamp(self, destinations: int) -> tuple[Log, Log]:
        self.explicit = False
        stamp = super()._stamp(destinations)
        self.explicit = True
        return stamp


@pytest.mark.parametrize(("kind", "outcome"), [(Omitting, "Deliver"), (ECH, "Hold")])
def test_r7_loses_what_an_application_does_not_hold(kind: type[ECH], outcome: str) -> None:
    """Erratum 34: a uses what came with c3 alone, and b must not deliver a1 before c1."""
    a, b, c = (kind(Roster("abc"), name, explicit=True) for name in "abc")
    c.send(["b"])
    for _ in range(2):
        (told,) = c.send(["a"]).copies
        assert [type(effect).__name__ for effect in a.receive(told)] == ["Deliver"]
    (last,) = a.send(["b"], context=a.context_of(told)).copies
    assert [type(effect).__name__ for effect in b.receive(last)] == [outcome]
    assert "\nc!1>b c!2>a a?c2 c!3>a a?c3 a!1>b b?a1\n" in PAGE


def test_one_stamp_for_all_carries_the_more_the_more_processes_there_are() -> None:
    """Erratum 6."""

    def times(processes: int, fanout: str) -> float:
        size = {"processes": processes, "messages": 40 * processes, "fanout": fanout}
        runs = (simulate(Scenario(protocol=protocol, **size)) for protocol in ("ks-hardware", "ks"))
        ours, least = (run.measures["facts_per_copy"].mean for run in runs)
        return ours / least

    assert times(8, "unicast") == 1
    assert 1 < times(4, "uniform") < times(8, "uniform") < times(16, "uniform")
