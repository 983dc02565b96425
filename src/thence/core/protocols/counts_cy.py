# cython: wraparound=False
# wraparound: no index is negative. Bounds checks stay on: rows come out of stamps.
# mypy: disable-error-code="valid-type,misc,no-redef,type-arg,assignment,unreachable"
"""Counts by process, as tuples with one for each position and as dicts {process: count}: later ones and known ones.

*Invariant.* What is given is never changed. Where the result equals the first argument it is that object, so that
members share what they have in common.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython


def later(one: tuple, two: tuple) -> tuple:
    """Return the componentwise maximum; a time from before a process joined is shorter and counts as zero there."""
    place: cython.Py_ssize_t
    size: cython.Py_ssize_t = len(one)
    known: cython.longlong
    count: cython.longlong
    found: list = None  # until something in `two` is later
    if one is two:
        return one
    if size != len(two):
        size = max(size, len(two))
        one, two = one + (0,) * (size - len(one)), two + (0,) * (size - len(two))
    for place in range(size):
        known = one[place]
        count = two[place]
        if count > known:
            if found is None:
                found = list(one)
            found[place] = two[place]
    return one if found is None else tuple(found)


NO_PAIRS = cython.declare(dict, {})


@cython.ccall
def later_pairs(pairs: dict, more: dict, covered: dict) -> dict:
    """Return `pairs` with the pairs of `more` that are later, but not with those that are covered."""
    count: cython.longlong
    known: cython.longlong
    found: dict = None  # until something in `more` is later
    if pairs is more:
        return pairs
    for process, value in more.items():
        count = value
        known = pairs.get(process, 0)
        if count > known:
            known = covered.get(process, 0)
            if count > known:
                if found is None:
                    found = pairs.copy()
                found[process] = value
    return pairs if found is None else found


@cython.ccall
def beyond(pairs: dict, covered: dict) -> dict:
    """Return the pairs whose count is above the covered one of their process."""
    count: cython.longlong
    known: cython.longlong
    left: cython.Py_ssize_t = 0
    if pairs is covered:
        return {}
    for process, value in pairs.items():
        count = value
        known = covered.get(process, 0)
        left += count > known
    if left == len(pairs):
        return pairs
    found: dict = {}
    if left:
        for process, value in pairs.items():
            count = value
            known = covered.get(process, 0)
            if count > known:
                found[process] = value
    return found


def later_rows(rows: dict, more: dict, covered: dict, without: object) -> dict:
    """Return `later_pairs` for each position of `more` that is not in a mask, and the other rows as they are."""
    found: dict = rows.copy()
    row: dict
    pairs: dict
    for position, pairs in more.items():
        if not without >> position & 1:
            row = rows.get(position, NO_PAIRS)
            found[position] = later_pairs(row, pairs, covered.get(position, NO_PAIRS))
    return found


def replaced_rows(rows: dict, less: dict, message: dict, covered: dict, chosen: list) -> dict:
    """Return the rows with a message at the chosen positions, in place of what `rows` and `less` have there both."""
    found: dict = rows.copy()
    left: dict
    for position in chosen:
        left = beyond(rows.get(position, NO_PAIRS), less.get(position, NO_PAIRS))
        found[position] = later_pairs(left, message, covered.get(position, NO_PAIRS))
    return found


def newest(rows: dict, process: object) -> int:
    """Return the highest count of a process in dicts of counts; 0 if it is in none."""
    most: cython.longlong = 0
    count: cython.longlong
    pairs: dict
    for pairs in rows.values():
        count = pairs.get(process, 0)
        most = max(most, count)
    return most
