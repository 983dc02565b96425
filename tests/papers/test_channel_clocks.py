"""Krishnamurthy and Mukund, Discussion: a clock for each channel, in both readings, and what each of them breaks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.definition import needless
from support.walk import play, walk

from thence.core.model.roster import Roster
from thence.errors import MisuseError
from thence.lab.explorer.search import explore
from thence.lab.papers.channel_clocks import ChannelClocks, ReceiverAlone
from thence.lab.papers.variants import setting_of
from thence.lab.papers.variants.bounded import VARIANTS
from thence.protocols import Deferred

WHOLE: list[tuple[dict, int]] = [
    ({"processes": 2, "messages": 8, "options": {"bound": 2}}, 13468),
    ({"processes": 3, "messages": 5}, 10439),
]
SHOWN = [
    "a!1>b b?a1 b!1>a a?b1 a!2>c c?a2 a!3>b b?a3 b!2>a a?b2 a!4>b b?a4 c!1>b b<c1",
    "a!1>c c?a1 a!2>b b?a2 c!1>a a?c1 a!3>c c?a3 c!2>a a?c2 a!4>c a!5>d d?a5 b!1>d d?b1 d!1>c c?d1",
    "a!1>b b?a1 b!1>a a?b1",
]
"""what the page draws"""
SAFE = frozenset({"causal order", "no duplicates", "no needless waiting"})


def test_a_stamp_has_n_cubed_numbers_of_at_most_three_epochs() -> None:
    largest = 0
    for seed in range(20):
        run = walk(ChannelClocks, 4, 60, seed, fanout="unicast", options={"bound": 3})
        assert {ChannelClocks.entries(copy) for copy in run.copies} == {4**3 + 4}
        largest = max(largest, *(max(map(max, matrix)) for copy in run.copies for matrix in copy.stamp[0]))
    assert 3 < largest <= 3 * 3


@pytest.mark.parametrize(
    ("size", "states"),
    WHOLE,
    ids=["2x8", "3x5"],
)
def test_epochs_that_everybody_knows_of_are_safe_in_all_executions(size: dict, states: int) -> None:
    found = explore(setting_of("channel-clocks", **size), properties=SAFE)
    assert (found.verdict, found.complete, found.states) == ("holds", True, states)


def test_the_page_says_what_was_explored() -> None:
    (two, _), (three, _) = WHOLE
    said = f"of {two['processes']} processes with {two['messages']} messages (B = {two['options']['bound']})"
    page = (Path(__file__).parents[2] / "docs" / "explanation/errata/bounded.md").read_text(encoding="utf-8")
    assert f"{said} and of {three['processes']} with {three['messages']}, which are too few" in " ".join(page.split())
    for text in SHOWN:
        assert f"\n{text}\n" in page


class Turning(ChannelClocks):
    """Counts how often each clock of a process enters its next epoch."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.turns = [0] * self.size

    def _turn(self) -> None:
        before = list(self.epoch)
        super()._turn()
        self.turns = [count + (now != then) for count, now, then in zip(self.turns, self.epoch, before, strict=True)]


def test_epochs_that_everybody_knows_of_are_safe_at_random() -> None:
    round_again = {2: 0, 3: 0, 4: 0}
    for seed in range(120):
        run = walk(
            Turning,
            n := 2 + seed % 3,
            20 + (seed % 5) * 30,
            seed,
            fanout="unicast" if seed % 2 else "uniform",
            fifo=seed % 3 == 0,
            wire=seed % 4 == 0,
            options={"bound": 4 + seed % 60},
        )
        run.check(deadlock=True)
        assert not needless(run.events), f"needless waiting in {run}"
        round_again[n] += any(max(member.turns) > 3 for member in run.members)  # type: ignore[attr-defined]
    assert min(round_again.values()) >= 10, f"values hardly came round: {round_again}"


def test_a_value_that_comes_round_holds_a_copy_for_ever() -> None:
    """Erratum 30: c knows of T_ab what was true two epochs ago."""
    acked = next(v for v in VARIANTS if v.name == "channel-clocks-acked")
    run = play(acked.protocol, 3, acked.smallest, fifo=True, drain=True)
    assert [pending.message for member in run.members for pending in member.pending()] == ["c1"]
    for ours in ("bounded", ChannelClocks):
        play(ours, 3, acked.smallest, fifo=True, drain=True).check()
    runs = [walk(ReceiverAlone, 3, 40, seed, fanout="unicast", options={"bound": 50}) for seed in range(60)]
    assert any(member.pending() for run in runs for member in run.members)
    assert not any(run.judge().violations for run in runs)


def test_a_value_that_comes_round_makes_a_fourth_forget() -> None:
    """Erratum 30: b tells d of a1, of epoch 0 of T_ac; d takes it for later than a4, of epoch 2, and forgets that."""
    run = play(ReceiverAlone, 4, SHOWN[1].replace("?", "<"), fifo=True, drain=True)
    (violation,) = run.judge().violations
    assert (violation.destination, violation.early, violation.missing) == ("c", "d1", "a4")
    for ours in ("bounded", ChannelClocks):
        play(ours, 4, SHOWN[1].replace("?", "<"), fifo=True, drain=True).check()
    runs = [walk(ReceiverAlone, 4, 120, seed, fanout="unicast", options={"bound": 90}) for seed in range(40)]
    assert any(run.judge().violations for run in runs)


def talk(kind: type[ChannelClocks], turns: int, bound: int) -> int:
    """Let a and b talk while c has stopped; return how many messages a could send."""
    a, b = (kind(Roster.of(3), place, bound=bound) for place in (0, 1))
    for turn in range(turns):
        sent = a.send(["b"])
        if isinstance(sent, Deferred):
            return turn
        b.receive(sent.copies[0])
        answer = b.send(["a"])
        assert not isinstance(answer, Deferred)
        a.receive(answer.copies[0])
    return turns


@pytest.mark.parametrize("bound", [1, 2, 5])
def test_one_that_has_stopped_ends_a_channel_of_others(bound: int) -> None:
    """Erratum 30: each of a's messages is acknowledged, and still only B of them may be sent."""
    assert talk(ChannelClocks, 40, bound) == bound
    assert talk(ReceiverAlone, 40, bound) == 40


def test_nobody_addresses_itself() -> None:
    with pytest.raises(MisuseError, match="no channel"):
        ChannelClocks(Roster.of(2), 0).send(["a"])
