"""Proposition 6.1: what can, and cannot, be delivered at the end of the round in which it was multicast."""

from __future__ import annotations

from itertools import chain, combinations

import pytest
from support.some import some

from thence.lab.papers.lower_bound import View, breaks, possible_views, runs, spared, undecided

ADDRESSED = {n: [mask for mask in range(1 << n) if mask.bit_count() >= 2] for n in (3, 4)} | {5: [0b00110, 0b11111]}
SIZES = ((3, 2), (3, 3), (4, 2), (4, 3), (4, 4), (5, 2))


@pytest.mark.parametrize(
    ("n", "f", "destinations"),
    [(n, f, mask) for n, f in SIZES for mask in ADDRESSED[n]],
    ids=lambda value: f"{value:b}",
)
def test_no_view_suffices_but_for_those_the_proposition_overlooks(n: int, f: int, destinations: int) -> None:
    known = possible_views(n, f, destinations)
    left = {view for view in known if spared(view, n, f, destinations)}
    assert undecided(n, f, destinations) == left


def test_no_algorithm_of_three_processes_suffices() -> None:
    """Not only one view at a time: every set of views that has one of another process that has heard from all."""
    every = list(runs(3, 2))
    for destinations in ADDRESSED[3]:
        known = sorted(possible_views(3, 2, destinations))
        algorithms = chain.from_iterable(combinations(known, size) for size in range(1, len(known) + 1))
        for algorithm in some(algorithms):
            certain = any(breaks(set(algorithm), run, 3, destinations) for run in every)
            assert certain == any(not spared(view, 3, 2, destinations) for view in algorithm), algorithm


def test_erratum_29_two_ways_to_deliver_at_the_end_of_the_round() -> None:
    """p itself, and q when it misses r: with both together nobody who is left is ever without m."""
    for n in (3, 4):
        for destinations in ADDRESSED[n]:
            overlooked = {view for view in possible_views(n, 2, destinations) if spared(view, n, 2, destinations)}
            assert any(view.process != 0 for view in overlooked)
            assert not any(breaks(overlooked, run, n, destinations) for run in runs(n, 2))


@pytest.mark.parametrize("n", [3, 4])
def test_with_one_crash_hearing_of_it_is_enough(n: int) -> None:
    """The proposition needs f >= 2: who hears of m and cannot crash any more passes it on. The check can fail."""
    for destinations in ADDRESSED[n]:
        heard = {view for view in possible_views(n, 1, destinations) if view.process != 0}
        assert heard <= undecided(n, 1, destinations)


def test_the_run_of_the_proof() -> None:
    """p crashes, only q hears of m, q delivers and crashes."""
    found = [run for run in runs(3, 2) if breaks({View(1, 0b101)}, run, 3, 0b110)]
    assert any(run.crashed == 0b001 and run.reached[0] == 0b010 and run.after == 0b010 for run in found)
