# cython: boundscheck=False, wraparound=False, initializedcheck=False
# boundscheck: every number is made by `proof_path` from coded rows, none is read from a file.
# wraparound: no number used as an index is negative.
# initializedcheck: every view is an argument, set by the caller.
"""The loop that finds by how few messages each process is reached from a send; see `proof_path`.

Deliveries that came nearer are written into a buffer that the caller enlarges: the loop stops when the next row might
not fit, and is called again from there.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython


def nearer(
    sends: cython.const[cython.uchar][::1],
    process: cython.const[cython.int][::1],
    message: cython.const[cython.int][::1],
    send_row: cython.const[cython.longlong][::1],
    place: cython.const[cython.int][::1],
    start: cython.const[cython.longlong][::1],
    goal: cython.const[cython.longlong][::1],
    by_goal: cython.const[cython.longlong][::1],
    hops: cython.int[:, ::1],
    via: cython.longlong[:, ::1],
    carried: cython.int[:, ::1],
    column: cython.longlong[::1],
    owner: cython.longlong[::1],
    free: cython.longlong[::1],
    last: cython.longlong[::1],
    reached: cython.uchar[::1],
    state: cython.longlong[::1],
    found: cython.longlong[::1],
) -> int:
    """Walk on from `state` (row, next to begin, next to end, free columns); return how much of `found` is written."""
    row: cython.Py_ssize_t = state[0]
    following: cython.Py_ssize_t = state[1]
    ending: cython.Py_ssize_t = state[2]
    spare: cython.Py_ssize_t = state[3]
    count: cython.Py_ssize_t = start.shape[0]
    width: cython.Py_ssize_t = hops.shape[1]
    written: cython.Py_ssize_t = 0
    each: cython.Py_ssize_t
    c: cython.Py_ssize_t
    far: cython.int = 2147483647  # not reached
    p: cython.int
    at: cython.int
    sent: cython.longlong
    question: cython.longlong
    with cython.nogil:
        while row < process.shape[0] and ending < count and written + 3 * width <= found.shape[0]:
            p = process[row]
            while following < count and start[following] == row:
                spare -= 1
                c = free[spare]
                column[following] = c
                owner[c] = following
                for each in range(hops.shape[0]):
                    hops[each, c] = far
                    via[each, c] = -1
                hops[p, c] = 0
                following += 1
            at = place[message[row]]
            if at >= 0 and sends[row]:
                for c in range(width):
                    carried[at, c] = hops[p, c]
            elif at >= 0:
                sent = send_row[message[row]]
                for c in range(width):
                    if owner[c] >= 0 and sent >= start[owner[c]] and carried[at, c] < hops[p, c] - 1:
                        hops[p, c] = carried[at, c] + 1
                        via[p, c] = row
                        found[written] = owner[c]
                        found[written + 1] = p
                        found[written + 2] = row
                        written += 3
            while ending < count and goal[by_goal[ending]] == row:
                question = by_goal[ending]
                c = column[question]
                last[question] = via[p, c]
                reached[question] = hops[p, c] < far
                owner[c] = -1
                free[spare] = c
                spare += 1
                ending += 1
            row += 1
    state[0] = row
    state[1] = following
    state[2] = ending
    state[3] = spare
    return written
