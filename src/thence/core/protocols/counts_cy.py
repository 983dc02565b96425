# cython: wraparound=False
# wraparound: no index is negative. Bounds checks stay on for tuples, which come out of stamps. Packed pairs are plain
# memory: each index is compared with their length before.
# mypy: disable-error-code="attr-defined,name-defined,valid-type,misc,no-redef,type-arg,assignment,unreachable"
"""Counts by process, as tuples with one for each position and as packed pairs: later ones and known ones.

*Invariant.* What is given is never changed. Where the result equals the first argument it is that object, so that
members share what they have in common. Packed pairs are C integers, process and count in turn, by ascending process:
about half of the memory of a dict, and two of them are merged without a look into a table.
"""

from __future__ import annotations

from collections.abc import Iterable

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

if cython.compiled:
    from cython.cimports.thence.core.wire.words_cy import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        Writer,
        numbers_in,
        room,
    )
else:
    from thence.core.wire.words_cy import Writer, numbers_in, room


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


NO_PAIRS = cython.declare(bytearray, bytearray())


def packed(pairs: Iterable[tuple[int, int]]) -> bytearray:
    """Pack pairs (process, count), which come by ascending process."""
    given: list = list(pairs)
    raw: bytearray = room(2 * len(given))
    numbers: cython.p_longlong = numbers_in(raw)
    at: cython.Py_ssize_t = 0
    pair: tuple
    for pair in given:
        numbers[at] = pair[0]
        numbers[at + 1] = pair[1]
        at += 2
    return raw


def pairs_in(pairs: bytearray) -> list:
    """Return packed pairs as tuples."""
    numbers: cython.p_longlong = numbers_in(pairs)
    at: cython.Py_ssize_t
    found: list = []
    for at in range(0, len(pairs) // 8, 2):
        found.append((numbers[at], numbers[at + 1]))
    return found


def put_packed(out: bytearray, pairs: bytearray) -> None:
    """Append the number of pairs, and each pair as position and count."""
    numbers: cython.p_longlong = numbers_in(pairs)
    end: cython.Py_ssize_t = len(pairs) // 8
    at: cython.Py_ssize_t
    writer: Writer = Writer(out, 9 + 9 * end)
    writer.number(end // 2)
    for at in range(end):
        writer.number(numbers[at])
    writer.close()


@cython.ccall
def later_pairs(pairs: bytearray, more: bytearray, covered: bytearray) -> bytearray:
    """Return `pairs` with the pairs of `more` that are later, but not with those that are covered."""
    old: cython.p_longlong = numbers_in(pairs)
    new: cython.p_longlong = numbers_in(more)
    bound: cython.p_longlong = numbers_in(covered)
    old_end: cython.Py_ssize_t = len(pairs) // 8
    new_end: cython.Py_ssize_t = len(more) // 8
    bound_end: cython.Py_ssize_t = len(covered) // 8
    raw: bytearray
    made: cython.p_longlong
    i: cython.Py_ssize_t = 0
    j: cython.Py_ssize_t
    k: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t = 0
    process: cython.longlong
    count: cython.longlong
    known: cython.longlong
    there: cython.bint
    changed: cython.bint = False
    if pairs is more:
        return pairs
    raw = room(old_end + new_end)
    made = numbers_in(raw)
    for j in range(0, new_end, 2):
        process = new[j]
        count = new[j + 1]
        while i < old_end and old[i] < process:
            made[end] = old[i]
            made[end + 1] = old[i + 1]
            i += 2
            end += 2
        there = i < old_end and old[i] == process
        known = old[i + 1] if there else 0
        if count > known:
            while k < bound_end and bound[k] < process:
                k += 2
            if k == bound_end or bound[k] > process or count > bound[k + 1]:
                known = count
                changed = True
        if there or known:
            made[end] = process
            made[end + 1] = known
            end += 2
        if there:
            i += 2
    while i < old_end:
        made[end] = old[i]
        made[end + 1] = old[i + 1]
        i += 2
        end += 2
    return raw[: 8 * end] if changed else pairs


@cython.ccall
def beyond(pairs: bytearray, covered: bytearray) -> bytearray:
    """Return the pairs whose count is above the covered one of their process."""
    old: cython.p_longlong = numbers_in(pairs)
    bound: cython.p_longlong = numbers_in(covered)
    bound_end: cython.Py_ssize_t = len(covered) // 8
    raw: bytearray = room(len(pairs) // 8)
    made: cython.p_longlong = numbers_in(raw)
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t = 0
    for i in range(0, len(pairs) // 8, 2):
        while k < bound_end and bound[k] < old[i]:
            k += 2
        if k == bound_end or bound[k] > old[i] or old[i + 1] > bound[k + 1]:
            made[end] = old[i]
            made[end + 1] = old[i + 1]
            end += 2
    return pairs if 8 * end == len(pairs) else raw[: 8 * end]


def later_rows(rows: dict, more: dict, covered: dict, without: object) -> dict:
    """Return `later_pairs` for each position of `more` that is not in a mask, and the other rows as they are."""
    found: dict = rows.copy()
    row: bytearray
    pairs: bytearray
    for position, pairs in more.items():
        if not without >> position & 1:
            row = rows.get(position, NO_PAIRS)
            found[position] = later_pairs(row, pairs, covered.get(position, NO_PAIRS))
    return found


def replaced_rows(rows: dict, less: dict, message: bytearray, covered: dict, chosen: list) -> dict:
    """Return the rows with a message at the chosen positions, in place of what `rows` and `less` have there both."""
    found: dict = rows.copy()
    left: bytearray
    for position in chosen:
        left = beyond(rows.get(position, NO_PAIRS), less.get(position, NO_PAIRS))
        found[position] = later_pairs(left, message, covered.get(position, NO_PAIRS))
    return found


def newest(rows: Iterable[bytearray], process: cython.longlong) -> int:
    """Return the highest count of a process in packed pairs; 0 if it is in none."""
    most: cython.longlong = 0
    pairs: bytearray
    numbers: cython.p_longlong
    at: cython.Py_ssize_t
    for pairs in rows:
        numbers = numbers_in(pairs)
        for at in range(0, len(pairs) // 8, 2):
            if numbers[at] == process and numbers[at + 1] > most:
                most = numbers[at + 1]
    return most
