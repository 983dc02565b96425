"""Proposition 6.1 of the genuine multicast paper in its round model, by trying everything.

Invariant: in a round every process puts a message for every other into its buffer; of one that crashes in the round any
subset gets there; then each process looks at what it got. Process p multicasts m in this round, so only p knew of m
before, and what a process sees at the end is from whom it heard. An algorithm that delivers m at the end of the round
is a set of views (process, heard from) at which it does. It breaks uniform agreement for sure if a process delivers,
some addressee never crashes, and no process that is left has ever heard of m; otherwise one is left to pass it on.

As printed, no such delivery is possible with f >= 2. That holds at another process than p that has missed at most f - 2
others and heard from an addressee that is neither p nor itself. It does not hold at p, which has lived through the
round, so that all have m; nor at a process that misses f - 1 or more, for then it or p never crashes; nor where
no process is left whom m is addressed to (errata 29).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple


class View(NamedTuple):
    """The view of one process at the end of a round: the mask of processes it received from."""

    process: int
    heard: int


class CrashRound(NamedTuple):
    """One round: who crashes in it and whom its messages reach, and who crashes right after it."""

    reached: tuple[int, ...]
    """of each process, whom its messages of the round reach"""
    crashed: int
    after: int


def runs(n: int, f: int) -> Iterator[CrashRound]:
    """Yield every round of n processes of which at most f crash, in it or right after it."""
    everyone = (1 << n) - 1
    for count in range(f + 1):
        for faulty in combinations(range(n), count):
            for early in range(1 << count):
                during = [p for place, p in enumerate(faulty) if early >> place & 1]
                after = sum(1 << p for p in faulty if p not in during)
                for reached in _reached(n, during, everyone):
                    yield CrashRound(reached, sum(1 << p for p in during), after)


def _reached(n: int, crashing: list[int], everyone: int) -> Iterator[tuple[int, ...]]:
    if not crashing:
        yield tuple(everyone & ~(1 << p) for p in range(n))
        return
    first, *rest = crashing
    for others in _reached(n, rest, everyone):
        for mask in range(everyone + 1):
            if not mask >> first & 1:
                yield (*others[:first], mask, *others[first + 1 :])


def views(run: CrashRound, n: int) -> dict[int, View]:
    """Return what each process that lives through the round sees."""
    return {
        q: View(q, sum(1 << p for p in range(n) if p != q and run.reached[p] >> q & 1))
        for q in range(n)
        if not run.crashed >> q & 1
    }


def breaks(delivering: set[View], run: CrashRound, n: int, destinations: int, sender: int = 0) -> bool:
    """Return whether delivering at these views breaks uniform agreement in a run for sure."""
    alive = (1 << n) - 1 & ~run.crashed & ~run.after
    knows = run.reached[sender] | 1 << sender
    delivered = any(view in delivering and destinations >> q & 1 for q, view in views(run, n).items())
    return delivered and bool(destinations & alive) and not knows & alive


def possible_views(n: int, f: int, destinations: int, sender: int = 0) -> set[View]:
    """Return every view at which an addressee knows m, and so could deliver it."""
    found = set()
    for run in runs(n, f):
        for q, view in views(run, n).items():
            if destinations >> q & 1 and (q == sender or view.heard >> sender & 1):
                found.add(view)
    return found


def undecided(n: int, f: int, destinations: int, sender: int = 0) -> set[View]:
    """Return the views at which delivering breaks agreement in no run; empty if the proposition holds.

    An algorithm that delivers at several views breaks whatever one of them alone breaks.
    """
    left = possible_views(n, f, destinations, sender)
    for run in runs(n, f):
        left -= {view for view in left if breaks({view}, run, n, destinations, sender)}
    return left


def spared(view: View, n: int, f: int, destinations: int, sender: int = 0) -> bool:
    """Return whether a view is one of those that the printed proposition overlooks."""
    enough_gone = n - 1 - view.heard.bit_count() >= f - 1
    nobody_else = not view.heard & destinations & ~(1 << sender)
    return view.process == sender or enough_gone or nobody_else
