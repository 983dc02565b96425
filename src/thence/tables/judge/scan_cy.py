# cython: boundscheck=False, wraparound=False, initializedcheck=False
# boundscheck: every code and row number is made by `coded_rows` and `label_scan`, none is read from a file.
# wraparound: no code and no row number used as an index is negative.
# initializedcheck: every view is an argument, set by the caller.
# distutils: extra_compile_args = -ftree-vectorize -fvect-cost-model=dynamic
"""Loops of the audit's scan: deliveries matched with sends, vector clocks along an order in which causes come first.

The flags make gcc vectorise the loops over columns, which halves their time.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

Clock = cython.fused_type(cython.int, cython.longlong)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _find(
    values: cython.const[cython.int][::1], start: cython.longlong, end: cython.longlong, wanted: cython.int
) -> cython.longlong:
    middle: cython.longlong
    while start < end:
        middle = (start + end) >> 1
        if values[middle] < wanted:
            start = middle + 1
        else:
            end = middle
    return start


def match(
    sends: cython.const[cython.uchar][::1],
    process: cython.const[cython.int][::1],
    message: cython.const[cython.int][::1],
    offsets: cython.const[cython.longlong][::1],
    destinations: cython.const[cython.int][::1],
    send_row: cython.longlong[::1],
    delivered: cython.longlong[::1],
    role: cython.schar[::1],
    uses: cython.int[::1],
) -> bool:
    """Match each delivery with its send; return whether some send comes after a delivery of its message."""
    disorder: cython.bint = False
    row: cython.Py_ssize_t
    m: cython.int
    origin: cython.longlong
    end: cython.longlong
    copy: cython.longlong
    with cython.nogil:
        for row in range(process.shape[0]):
            m = message[row]
            if sends[row]:
                disorder = disorder or uses[m] > 0
                send_row[m] = row
                continue
            uses[m] += 1
            origin = send_row[m]
            if origin < 0:
                role[row] = 8  # IMPORTED
                continue
            end = offsets[origin + 1]
            copy = _find(destinations, offsets[origin], end, process[row])
            if copy == end or destinations[copy] != process[row]:
                role[row] = 4  # ASTRAY
            elif delivered[copy] >= 0:
                role[row] = 2  # DUPLICATE
            else:
                role[row] = 1  # FIRST
                delivered[copy] = row
    return bool(disorder)


def slots(
    sends: cython.const[cython.uchar][::1],
    message: cython.const[cython.int][::1],
    left: cython.int[::1],
    keep: cython.const[cython.uchar][::1],
    place: cython.int[::1],
    free: cython.int[::1],
) -> int:
    """Give each message that is still to be delivered a place for its clock; return how many places there are."""
    spare: cython.int = 0
    used: cython.int = 0
    row: cython.Py_ssize_t
    m: cython.int
    with cython.nogil:
        for row in range(message.shape[0]):
            m = message[row]
            if sends[row]:
                if left[m] > 0 or keep[m]:
                    if spare > 0:
                        spare -= 1
                        place[m] = free[spare]
                    else:
                        place[m] = used
                        used += 1
            elif place[m] >= 0:
                left[m] -= 1
                if left[m] == 0 and not keep[m]:
                    free[spare] = place[m]
                    spare += 1
    return used


def scan(
    sends: cython.const[cython.uchar][::1],
    process: cython.const[cython.int][::1],
    index: cython.const[cython.longlong][::1],
    message: cython.const[cython.int][::1],
    role: cython.const[cython.schar][::1],
    send_row: cython.const[cython.longlong][::1],
    place: cython.const[cython.int][::1],
    known: Clock[:, ::1],
    carried: Clock[:, ::1],
    low: cython.int,
    late: cython.uchar[::1],
    before: Clock[:, ::1],
    marks: Clock[::1],
    starts: cython.const[cython.longlong][::1],
    contact: cython.int[:, ::1],
    left: cython.longlong[::1],
    due: Clock[:, ::1],
    ahead: cython.int[:, ::1],
    never: Clock,
) -> None:
    """Run the clocks over all rows for a block of columns; see `scan.scan`."""
    width: cython.int = known.shape[1]
    imports: cython.Py_ssize_t = 0
    row: cython.Py_ssize_t
    mark: cython.int
    p: cython.int
    m: cython.int
    at: cython.int
    s: cython.int
    c: cython.int
    reached: cython.int
    a: Clock
    b: Clock
    with cython.nogil:
        for row in range(process.shape[0]):
            p = process[row]
            m = message[row]
            at = place[m]
            if sends[row]:
                if at >= 0:
                    for c in range(width):
                        carried[at, c] = known[p, c]
                    if low <= p < low + width:
                        carried[at, p - low] = index[row]
                continue
            if role[row] == 8:  # IMPORTED
                if before.shape[0]:
                    for c in range(width):
                        before[imports, c] = known[p, c]
                imports += 1
                if at < 0:
                    continue
            elif role[row] == 1:  # FIRST
                s = process[send_row[m]]
                if low <= s < low + width and known[p, s - low] >= index[send_row[m]]:
                    late[row] = 1
            for c in range(width):
                a = carried[at, c]
                b = known[p, c]
                known[p, c] = a if a > b else b
            if left[p] > 0:
                reached = 0
                for c in range(width):
                    reached += known[p, c] >= due[p, c]
                if reached:
                    for c in range(width):
                        while known[p, c] >= due[p, c]:
                            mark = ahead[p, c]
                            contact[mark, p] = row
                            left[p] -= 1
                            ahead[p, c] = mark + 1
                            due[p, c] = marks[mark + 1] if mark + 1 < starts[low + c + 1] else never


def locate(
    sends: cython.const[cython.uchar][::1],
    process: cython.const[cython.int][::1],
    index: cython.const[cython.longlong][::1],
    message: cython.const[cython.int][::1],
    place: cython.const[cython.int][::1],
    known: Clock[:, ::1],
    carried: Clock[:, ::1],
    column_of: cython.const[cython.int][::1],
    least: Clock[::1],
    since: cython.const[cython.longlong][::1],
    asker: cython.const[cython.int][::1],
    left: cython.longlong[::1],
    due: Clock[:, ::1],
    ahead: cython.longlong[:, ::1],
    ends: cython.const[cython.longlong][:, ::1],
    never: Clock,
    answer: cython.longlong[::1],
) -> None:
    """Find for each question the first delivery that answers it; see `scan.locate`."""
    width: cython.int = known.shape[1]
    row: cython.Py_ssize_t
    p: cython.int
    q: cython.int
    at: cython.int
    c: cython.int
    reached: cython.int
    question: cython.longlong
    a: Clock
    b: Clock
    with cython.nogil:
        for row in range(process.shape[0]):
            p = process[row]
            at = place[message[row]]
            if at < 0:
                continue
            if sends[row]:
                for c in range(width):
                    carried[at, c] = known[p, c]
                if column_of[p] >= 0:
                    carried[at, column_of[p]] = index[row]
                continue
            for c in range(width):
                a = carried[at, c]
                b = known[p, c]
                known[p, c] = a if a > b else b
            q = asker[p]
            if q < 0 or left[q] == 0:
                continue
            reached = 0
            for c in range(width):
                reached += known[p, c] >= due[q, c]
            if not reached:
                continue
            for c in range(width):
                while known[p, c] >= due[q, c]:
                    question = ahead[q, c]
                    if since[question] > row:
                        break
                    answer[question] = row
                    left[q] -= 1
                    ahead[q, c] = question + 1
                    due[q, c] = least[question + 1] if question + 1 < ends[q, c] else never
