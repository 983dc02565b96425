"""The shared delivery rule over arrays: the twin of `protocols/receiver.py` and of `delivery/lane.py`.

Law. Rows are given in the order of arrival, the held ones of before first. A row is free when delivered[s] >= t for
each of its needs (s, t); a delivery sets free what watched its source; of the free rows the one that arrived first goes
next. Row for row the answer equals `delivery.engine.Engine` under the same policy up to the row at which that policy
first acts: there the loop stops and Python goes on. A test holds them equal.

A held row watches one unmet need. The watchers of a source form a pairing heap by the number they wait for, so a
delivery touches only rows that it may set free.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import numpy as np
from numba import njit

HELD, DELIVERED, HELD_ALREADY, DELIVERED_BEFORE, SKIPPED = 0, 1, 2, 3, 4
NONE = -1


@njit(cache=True)
def _meld(one: int, two: int, wanted: Any, child: Any, sibling: Any) -> int:
    if one == NONE:
        return two
    if two == NONE:
        return one
    if wanted[two] < wanted[one]:
        one, two = two, one
    sibling[two] = child[one]
    child[one] = two
    return one


@njit(cache=True)
def _popped(root: int, wanted: Any, child: Any, sibling: Any) -> int:
    """Return the heap without its root: children paired left to right, then melded right to left."""
    node = child[root]
    child[root] = NONE
    pairs = NONE
    while node != NONE:
        other = sibling[node]
        sibling[node] = NONE
        following = NONE
        if other != NONE:
            following = sibling[other]
            sibling[other] = NONE
        pair = _meld(node, other, wanted, child, sibling)
        sibling[pair] = pairs
        pairs = pair
        node = following
    result = NONE
    while pairs != NONE:
        following = sibling[pairs]
        sibling[pairs] = NONE
        result = _meld(result, pairs, wanted, child, sibling)
        pairs = following
    return result


@njit(cache=True)
def _watch(
    row: int, delivered: Any, start: Any, length: Any, need_source: Any, need_number: Any,
    heap: Any, wanted: Any, child: Any, sibling: Any,
) -> bool:  # fmt: skip
    """Let a row watch its first unmet need; tell whether it has one."""
    for i in range(start[row], start[row] + length[row]):
        s, t = need_source[i], need_number[i]
        if delivered[s] < t:
            wanted[row] = t
            child[row] = NONE
            sibling[row] = NONE
            heap[s] = _meld(heap[s], row, wanted, child, sibling)
            return True
    return False


@njit(cache=True)
def _slot(table: Any, source: int, number: int) -> Any:
    mixed = (np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)) ^ (np.uint64(source) * np.uint64(0xC2B2AE3D27D4EB4F))
    mixed ^= mixed >> np.uint64(29)
    return np.int64(mixed & np.uint64(len(table) - 1))


@njit(cache=True)
def _enter(table: Any, row: int, source: Any, number: Any) -> None:
    """Note a held row under its source and number; entries stay, and are stale once the row has left."""
    slot = _slot(table, source[row], number[row])
    while table[slot] != 0:
        slot = (slot + 1) & (len(table) - 1)
    table[slot] = row + 1


@njit(cache=True)
def _is_held(table: Any, row: int, source: Any, number: Any, status: Any) -> bool:
    slot = _slot(table, source[row], number[row])
    while table[slot] != 0:
        other = table[slot] - 1
        if source[other] == source[row] and number[other] == number[row] and status[other] == HELD:
            return True
        slot = (slot + 1) & (len(table) - 1)
    return False


@njit(cache=True)
def run(
    held: int, skip: Any, source: Any, number: Any, start: Any, length: Any, need_source: Any, need_number: Any,
    ticket: Any, clock: Any, delivered: Any, seen: Any, after_rows: int, after_seconds: float, limit: int,
) -> Any:  # fmt: skip
    """Deliver rows; the first `held` of them have arrived before and wait.

    `clock` is for held rows the event time of the destination when they came, for new rows as they come (NaN: none).
    Changed in place: `delivered`, `seen` (new rows by source), and for each row that is held `length` and its needs,
    of which only those that were unmet remain, in order. Return the status of each row, the rows that left in order,
    at which row each of them left, and the row after which the policy acts (-1: never).
    """
    rows = len(source)
    status = np.zeros(rows, np.int8)
    order = np.empty(rows, np.int64)
    left_at = np.empty(rows, np.int64)
    wanted = np.zeros(rows, np.int64)
    child = np.full(rows, NONE, np.int64)
    sibling = np.full(rows, NONE, np.int64)
    heap = np.full(len(delivered), NONE, np.int64)
    bits = 4
    while (1 << bits) < 2 * rows:
        bits += 1
    table = np.zeros(1 << bits, np.int64)
    waiting = 0
    for row in range(held):
        _watch(row, delivered, start, length, need_source, need_number, heap, wanted, child, sibling)
        _enter(table, row, source, number)
        waiting += 1
    ready = [np.int64(0)]
    ready.pop()
    out = 0
    oldest = 0
    for row in range(held, rows):
        if skip[row]:
            status[row] = SKIPPED
            order[out], left_at[out] = row, row
            out += 1
        else:
            s = source[row]
            if waiting and _is_held(table, row, source, number, status):
                status[row] = HELD_ALREADY
            elif number[row] <= delivered[s]:
                status[row] = DELIVERED_BEFORE
            if status[row] != 0:
                order[out], left_at[out] = row, row
                out += 1
            else:
                seen[s] += 1
                first = start[row]
                n = first
                for i in range(first, first + length[row]):
                    if delivered[need_source[i]] < need_number[i]:
                        need_source[n], need_number[n] = need_source[i], need_number[i]
                        n += 1
                length[row] = n - first
                if n > first:
                    _watch(row, delivered, start, length, need_source, need_number, heap, wanted, child, sibling)
                    _enter(table, row, source, number)
                    waiting += 1
                else:
                    heappush(ready, np.int64(row))
        while len(ready) > 0:
            free = heappop(ready)
            if free != row:
                waiting -= 1
            status[free] = DELIVERED
            order[out], left_at[out] = free, row
            out += 1
            s = source[free]
            if number[free] > delivered[s]:
                delivered[s] = number[free]
            while heap[s] != NONE and wanted[heap[s]] <= delivered[s]:
                top = heap[s]
                heap[s] = _popped(top, wanted, child, sibling)
                if not _watch(top, delivered, start, length, need_source, need_number, heap, wanted, child, sibling):
                    heappush(ready, np.int64(top))
        while oldest <= row and status[oldest] != HELD:
            oldest += 1
        if oldest > row:
            continue
        if ticket[row] - ticket[oldest] >= after_rows or waiting > limit:
            return status, order[:out], left_at[:out], row
        if clock[row] - clock[oldest] >= after_seconds:
            return status, order[:out], left_at[:out], row
    return status, order[:out], left_at[:out], NONE
