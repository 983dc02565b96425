"""An order in which causes come first, from the order of each process and from sends before deliveries.

Law. `order_of` returns a permutation of the rows in which each row follows the previous row of its process and each
delivery follows its send, or, if there is none, all rows that could be placed and the mark of those that could not.
`on_cycles` marks the deliveries from which their own send can be reached, as `model.order` defines them.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from thence.kernels.arrays import Flags, Ints, Longs


@njit(cache=True, nogil=True)
def by_process(process: Ints, index: Longs, processes: int) -> tuple[Longs, Longs]:
    """Return (rows sorted by process and index, where each process starts)."""
    starts = np.zeros(processes + 1, np.int64)
    for p in process:
        starts[p + 1] += 1
    for p in range(processes):
        starts[p + 1] += starts[p]
    fill = starts[:-1].copy()
    rows = np.empty(len(process), np.int64)
    for row in range(len(process)):
        rows[fill[process[row]]] = row
        fill[process[row]] += 1
    for p in range(processes):
        for i in range(starts[p] + 1, starts[p + 1]):
            if index[rows[i]] < index[rows[i - 1]]:
                _sort_by(index, rows, starts[p], starts[p + 1])
                break
    return rows, starts


@njit(cache=True, nogil=True)
def _sort_by(keys: Longs, rows: Longs, start: int, end: int) -> None:
    """Sort some rows by their keys (a heap in place: nothing to compile but these lines)."""
    count = end - start
    for first in range(count // 2 - 1, -1, -1):
        _sift_down(keys, rows, start, first, count)
    for last in range(count - 1, 0, -1):
        rows[start], rows[start + last] = rows[start + last], rows[start]
        _sift_down(keys, rows, start, 0, last)


@njit(cache=True, nogil=True)
def _sift_down(keys: Longs, rows: Longs, start: int, place: int, count: int) -> None:
    row = rows[start + place]
    while 2 * place + 1 < count:
        child = 2 * place + 1
        if child + 1 < count and keys[rows[start + child]] < keys[rows[start + child + 1]]:
            child += 1
        if keys[rows[start + child]] <= keys[row]:
            break
        rows[start + place] = rows[start + child]
        place = child
    rows[start + place] = row


@njit(cache=True, nogil=True)
def _following(process: Ints, index: Longs, processes: int) -> Longs:
    rows, starts = by_process(process, index, processes)
    following = np.full(len(process), -1, np.int64)
    for p in range(processes):
        for i in range(starts[p] + 1, starts[p + 1]):
            following[rows[i - 1]] = rows[i]
    return following


@njit(cache=True, nogil=True)
def _deliveries(sends: Flags, message: Ints, messages: int) -> tuple[Longs, Longs]:
    starts = np.zeros(messages + 1, np.int64)
    for row in range(len(message)):
        if not sends[row]:
            starts[message[row] + 1] += 1
    for m in range(messages):
        starts[m + 1] += starts[m]
    fill = starts[:-1].copy()
    rows = np.empty(starts[messages], np.int64)
    for row in range(len(message)):
        if not sends[row]:
            rows[fill[message[row]]] = row
            fill[message[row]] += 1
    return rows, starts


@njit(cache=True, nogil=True)
def order_of(sends: Flags, process: Ints, index: Longs, message: Ints, processes: int, messages: int) -> Longs:
    """Return the rows in an order in which causes come first; fewer than all if there is a cycle."""
    following = _following(process, index, processes)
    deliveries, starts = _deliveries(sends, message, messages)
    waits = np.zeros(len(process), np.int8)
    for row in range(len(process)):
        if following[row] >= 0:
            waits[following[row]] += 1
        if not sends[row]:
            waits[row] += 1
    queue = np.empty(len(process), np.int64)
    tail = 0
    for row in range(len(process)):
        if waits[row] == 0:
            queue[tail] = row
            tail += 1
    place = 0
    while place < tail:
        row = queue[place]
        place += 1
        effect = following[row]
        if effect >= 0:
            waits[effect] -= 1
            if waits[effect] == 0:
                queue[tail] = effect
                tail += 1
        if sends[row]:
            for i in range(starts[message[row]], starts[message[row] + 1]):
                effect = deliveries[i]
                waits[effect] -= 1
                if waits[effect] == 0:
                    queue[tail] = effect
                    tail += 1
    return queue[:tail]


@njit(cache=True, nogil=True)
def on_cycles(sends: Flags, process: Ints, index: Longs, message: Ints, processes: int, messages: int) -> Flags:
    """Mark each delivery that lies in one strongly connected component with its send (Tarjan, without recursion)."""
    count = len(process)
    following = _following(process, index, processes)
    deliveries, starts = _deliveries(sends, message, messages)
    send_row = np.full(messages, -1, np.int64)
    for row in range(count):
        if sends[row]:
            send_row[message[row]] = row
    number = np.full(count, -1, np.int64)
    low = np.zeros(count, np.int64)
    component = np.full(count, -1, np.int64)
    stack = np.empty(count, np.int64)
    trail = np.empty(count, np.int64)
    step = np.zeros(count, np.int64)
    height = 0
    clock = 0
    for root in range(count):
        if number[root] >= 0:
            continue
        depth = 0
        trail[0] = root
        number[root] = low[root] = clock
        clock += 1
        stack[height] = root
        height += 1
        while depth >= 0:
            row = trail[depth]
            effect = -1
            if step[row] == 0:
                effect = following[row]
            elif sends[row] and starts[message[row]] + step[row] - 1 < starts[message[row] + 1]:
                effect = deliveries[starts[message[row]] + step[row] - 1]
            elif step[row] > 0:
                if low[row] == number[row]:
                    while True:
                        height -= 1
                        component[stack[height]] = row
                        if stack[height] == row:
                            break
                depth -= 1
                if depth >= 0:
                    low[trail[depth]] = min(low[trail[depth]], low[row])
                continue
            step[row] += 1
            if effect < 0:
                continue
            if number[effect] < 0:
                number[effect] = low[effect] = clock
                clock += 1
                stack[height] = effect
                height += 1
                depth += 1
                trail[depth] = effect
            elif component[effect] < 0:
                low[row] = min(low[row], number[effect])
    marked = np.zeros(count, np.bool_)
    for row in range(count):
        if not sends[row]:
            marked[row] = component[row] == component[send_row[message[row]]]
    return marked
