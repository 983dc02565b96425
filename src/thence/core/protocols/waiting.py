"""The shared delivery rule, stated once: hold until delivered[s] >= t for these (s, t).

Law. Something that arrived needs pairs (source, number) and is free when delivered[s] >= t for each of its needs
(s, t). After a delivery, as long as something held is free, what arrived first among the free goes next.

Whatever is held watches one unmet need at a time, so a delivery touches only what watches its source. Who holds is
named by a ticket, counted in the order of arrival. `receiver.py` runs the rule over copies and positions in a roster;
`delivery/rule.py` runs it over rows of a table, where causes may be given up and sources are whatever a row names.
Numbers delivered are looked up as `delivered[source]`, in a list or in a mapping that knows what stands for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from heapq import heappop, heappush
from typing import Protocol, TypeVar

S = TypeVar("S", bound=Hashable)
Source = TypeVar("Source", contravariant=True)
Watches = dict[S, list[tuple[int, int]]]
"""For each source, as a heap, the numbers that are watched and who watches them."""


class Delivered(Protocol[Source]):
    """The number up to which each source is delivered."""

    def __getitem__(self, source: Source, /) -> int:
        """Return the number of a source."""


def first_unmet(needs: Iterable[tuple[S, int]], delivered: Delivered[S]) -> tuple[S, int] | None:
    """Return the first need that is not met, or None: then whoever has these needs is free."""
    for need in needs:
        if delivered[need[0]] < need[1]:
            return need
    return None


def watch(watches: Watches[S], need: tuple[S, int], ticket: int) -> None:
    """Let the holder of a ticket watch a need."""
    heappush(watches.setdefault(need[0], []), (need[1], ticket))


def wake(
    source: S,
    watches: Watches[S],
    delivered: Delivered[S],
    needs_of: Callable[[int], Iterable[tuple[S, int]] | None],
    ready: list[int],
) -> None:
    """Put the tickets that a delivery of `source` set free on the heap `ready`; the others watch their next need.

    `needs_of` says what a ticket needs, None if nothing is held under it any more.
    """
    watching = watches.get(source)
    if watching is None:
        return
    now = delivered[source]
    while watching and watching[0][0] <= now:
        _, ticket = heappop(watching)
        needs = needs_of(ticket)
        if needs is None:
            continue
        unmet = first_unmet(needs, delivered)
        if unmet is None:
            heappush(ready, ticket)
        else:
            watch(watches, unmet, ticket)
    if not watching:
        del watches[source]


def release(ready: list[int], deliver: Callable[[int], S], woken: Callable[[S, list[int]], None]) -> None:
    """Deliver what is free, first come first served, and what that sets free.

    `deliver` delivers what is held under a ticket and returns its source; `woken` puts on the heap what that woke.
    """
    while ready:
        woken(deliver(heappop(ready)), ready)
