# cython: wraparound=False, initializedcheck=False
# wraparound: positions in a roster are never negative. Bounds checks stay on: needs come out of stamps.
# initializedcheck: no view is used before it is set.
# mypy: disable-error-code="valid-type,misc,no-redef,type-arg"
"""The shared delivery rule of protocols, stated once: hold until delivered[s] >= t for these (s, t).

A held copy watches one unmet need at a time, so a delivery touches only what watches its sender. What is held is named
by a ticket, counted in the order of arrival. `receiver.py` runs the rule over copies; rows of a table have a rule of
their own (`tables/delivery/delivery_rule_cy.py`), in which causes may be given up.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

Watches = dict[int, list[tuple[int, int]]]
"""For each sender, as a heap, the numbers that are watched and the tickets that watch them."""


@cython.ccall
def unmet(needs: Any, delivered: list) -> list:
    """Return the needs (sender, number) that are not met; what has none is free."""
    need: tuple
    found: list = []
    sender: cython.Py_ssize_t
    number: cython.longlong
    reached: cython.longlong
    for need in needs:
        sender = need[0]
        number = need[1]
        reached = delivered[sender]
        if reached < number:
            found.append(need)
    return found


@cython.cfunc
def first_unmet(needs: list, delivered: list) -> Any:
    """Return the first need that is not met, None if all are: most of what is woken waits for something else still."""
    need: tuple
    sender: cython.Py_ssize_t
    number: cython.longlong
    reached: cython.longlong
    for need in needs:
        sender = need[0]
        number = need[1]
        reached = delivered[sender]
        if reached < number:
            return need
    return None


@cython.ccall
def watch(watches: dict, need: tuple, ticket: Any) -> object:
    """Let a held copy, named by its ticket, watch a need."""
    heappush(watches.setdefault(need[0], []), (need[1], ticket))
    return None


def wake(sender: Any, watches: dict, delivered: list, held: dict, ready: list) -> None:
    """Put the tickets that a delivery of `sender` set free on the heap `ready`; the others watch their next need.

    `held` has under each ticket a copy and the needs that were not met when it was first looked at.
    """
    watching: list = watches[sender]
    now: Any = delivered[sender]
    ticket: Any
    while watching and watching[0][0] <= now:
        ticket = heappop(watching)[1]
        need = first_unmet(held[ticket][1], delivered)
        if need is None:
            heappush(ready, ticket)
        else:
            watch(watches, need, ticket)
    if not watching:
        del watches[sender]
