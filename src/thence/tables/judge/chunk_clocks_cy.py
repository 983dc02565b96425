# cython: boundscheck=False, wraparound=False, initializedcheck=False
# boundscheck: every number is made by `chunk` and `merge_chunks`, none is read from a file.
# wraparound: no number used as an index is negative.
# initializedcheck: every view is an argument, set by the caller.
# distutils: extra_compile_args = -ftree-vectorize -fvect-cost-model=dynamic
"""Loops that join the clocks of a chunk with what entered it; see `chunk_clocks`."""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

Few = cython.fused_type(cython.ushort, cython.int)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _latest(
    since: cython.const[cython.longlong][::1], start: cython.longlong, end: cython.longlong, index: cython.longlong
) -> cython.longlong:
    middle: cython.longlong
    while end - start > 1:
        middle = (start + end) >> 1
        if since[middle] <= index:
            start = middle
        else:
            end = middle
    return start


def lift(
    clocks: cython.const[cython.longlong][:, ::1],
    who: cython.const[cython.int][::1],
    row_of: cython.const[cython.int][::1],
    rows: cython.const[cython.longlong][:, ::1],
    since: cython.const[cython.longlong][::1],
    starts: cython.const[cython.longlong][::1],
    lifted: cython.longlong[:, ::1],
    before: cython.longlong[::1],
    joined: cython.longlong[:, ::1],
) -> None:
    """Join each clock with the rows of the stack that its columns know; see `chunk_clocks.lift`."""
    i: cython.Py_ssize_t
    width: cython.Py_ssize_t = clocks.shape[1]
    c: cython.Py_ssize_t
    k: cython.Py_ssize_t
    last: cython.longlong
    place: cython.longlong
    a: cython.longlong
    b: cython.longlong
    with cython.nogil:
        for i in range(clocks.shape[0]):
            last = before[who[i]]
            if last >= 0:
                for c in range(width):
                    a = lifted[last, c]
                    b = lifted[i, c]
                    lifted[i, c] = a if a > b else b
            before[who[i]] = i
            for k in range(width):
                if clocks[i, k] > 0:
                    place = _latest(since, starts[row_of[k]], starts[row_of[k] + 1], clocks[i, k])
                    if place != joined[who[i], k]:
                        joined[who[i], k] = place
                        for c in range(width):
                            a = rows[place, c]
                            b = lifted[i, c]
                            lifted[i, c] = a if a > b else b


def knew(
    before: cython.const[cython.longlong][:, ::1],
    at: cython.const[cython.int][::1],
    index: cython.const[cython.longlong][::1],
    source: cython.const[cython.longlong][::1],
    least: cython.const[cython.longlong][::1],
    row_of: cython.const[cython.int][::1],
    rows: cython.const[cython.longlong][:, ::1],
    since: cython.const[cython.longlong][::1],
    starts: cython.const[cython.longlong][::1],
    known: cython.uchar[::1],
) -> None:
    """Mark the deliveries whose process knew of `least` or later just before; see `chunk_clocks.knew`."""
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    s: cython.longlong
    d: cython.int
    p: cython.int
    found: cython.bint
    with cython.nogil:
        for i in range(at.shape[0]):
            s = source[i]
            d = at[i]
            found = before[i, s] > 0 or rows[_latest(since, starts[d], starts[d + 1], index[i] - 1), s] >= least[i]
            for k in range(before.shape[1]):
                if found:
                    break
                if before[i, k] > 0:
                    p = row_of[k]
                    found = rows[_latest(since, starts[p], starts[p + 1], before[i, k]), s] >= least[i]
            known[i] = found


def earliest(
    to: cython.const[cython.longlong][::1],
    source: cython.const[cython.longlong][::1],
    least: cython.const[cython.longlong][::1],
    rows: cython.const[cython.longlong][:, ::1],
    starts: cython.const[cython.longlong][::1],
    origin: cython.const[cython.longlong][::1],
    row_of: cython.const[cython.int][::1],
    here: cython.const[cython.longlong][::1],
    column: cython.const[cython.longlong][::1],
    met: cython.const[Few][:, ::1],
    heard: cython.const[Few][:, ::1],
    place: cython.const[Few][::1],
    answer: cython.longlong[::1],
) -> None:
    """Find the first delivery that answers each question; see `chunk_clocks.earliest`."""
    q: cython.Py_ssize_t
    p: cython.Py_ssize_t
    d: cython.longlong
    s: cython.longlong
    own: cython.longlong
    low: cython.longlong
    high: cython.longlong
    middle: cython.longlong
    best: cython.longlong
    with cython.nogil:
        for q in range(to.shape[0]):
            d = here[to[q]]
            s = source[q]
            best = answer[q]
            for p in range(here.shape[0]):
                if here[p] < 0:
                    continue
                own = column[p]
                if (
                    own >= 0 and p == row_of[s] and met[own, d] < best
                ):  # any send of it here comes after the missing one
                    best = met[own, d]
                low = starts[p]
                high = starts[p + 1]
                while low < high:
                    middle = (low + high) >> 1
                    if rows[middle, s] >= least[q]:
                        high = middle
                    else:
                        low = middle + 1
                if low == starts[p + 1]:
                    continue
                if low == starts[p]:
                    if own >= 0 and met[own, d] < best:
                        best = met[own, d]
                else:
                    if heard[origin[low], d] < best:
                        best = heard[origin[low], d]
                    if p == to[q] and place[origin[low]] < best:
                        best = place[origin[low]]
            answer[q] = best
