# cython: boundscheck=False, wraparound=False, initializedcheck=False
# boundscheck: every code and row number is made by `coded_rows`, and offsets by Arrow; none is read from a file.
# wraparound: a code of -1 (no message, no label) is compared before it is used as an index.
# initializedcheck: every view is an argument, set by the caller.
"""Loops over coded rows before the scan: usable rows, how rows follow one another, and hashes of names."""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython


def sort_segments(offsets: cython.const[cython.longlong][::1], values: cython.int[::1], odd: cython.uchar[::1]) -> None:
    """Sort each segment in place by insertion; mark those that hold a value twice or one below 0."""
    row: cython.Py_ssize_t
    i: cython.longlong
    at: cython.longlong
    start: cython.longlong
    end: cython.longlong
    value: cython.int
    bad: cython.bint
    with cython.nogil:
        for row in range(offsets.shape[0] - 1):
            start = offsets[row]
            end = offsets[row + 1]
            for i in range(start + 1, end):
                value = values[i]
                at = i
                while at > start and values[at - 1] > value:
                    values[at] = values[at - 1]
                    at -= 1
                values[at] = value
            bad = end > start and values[start] < 0
            for i in range(start + 1, end):
                bad = bad or values[i] == values[i - 1]
            odd[row] = bad


def left_out(
    process: cython.const[cython.int][::1], index: cython.const[cython.longlong][::1], last: cython.longlong[::1]
) -> int:
    """Count the places at which the indexes of a process leave something out; -1 if they do not increase."""
    found: cython.longlong = 0
    row: cython.Py_ssize_t
    p: cython.int
    with cython.nogil:
        for row in range(process.shape[0]):
            p = process[row]
            if index[row] <= last[p]:
                found = -1
                break
            if index[row] > last[p] + 1:
                found += 1
            last[p] = index[row]
    return found


def needs(
    kind: cython.const[cython.schar][::1],
    message: cython.const[cython.int][::1],
    addressed: cython.const[cython.uchar][::1],
    empty: cython.int,
    fate: cython.schar[::1],
) -> None:
    """Set aside rows without their message or destinations."""
    row: cython.Py_ssize_t
    with cython.nogil:
        for row in range(kind.shape[0]):
            if fate[row] != 0 or kind[row] > 2:  # set aside already, or neither send, deliver nor receive
                continue
            if message[row] < 0 or message[row] == empty:
                fate[row] = 3  # NO_MESSAGE
            elif kind[row] == 0 and not addressed[row]:
                fate[row] = 4  # NO_DESTINATIONS


def senders(
    kind: cython.const[cython.schar][::1],
    message: cython.const[cython.int][::1],
    label: cython.const[cython.int][::1],
    sender: cython.longlong[::1],
    fate: cython.schar[::1],
) -> None:
    """Set aside second sends, and deliveries and receipts without a send under their label."""
    row: cython.Py_ssize_t
    sent: cython.longlong
    with cython.nogil:
        for row in range(kind.shape[0]):
            if fate[row] == 0 and kind[row] == 0:
                if sender[message[row]] >= 0:
                    fate[row] = 5  # SENT_TWICE
                else:
                    sender[message[row]] = row
        for row in range(kind.shape[0]):
            if fate[row] == 0 and (kind[row] == 1 or kind[row] == 2):
                sent = sender[message[row]]
                if sent < 0:
                    fate[row] = 6  # NEVER_SENT
                elif label[sent] != label[row]:
                    fate[row] = 7  # OTHER_LABEL


def gather(
    offsets: cython.const[cython.longlong][::1],
    values: cython.const[cython.int][::1],
    rows: cython.const[cython.longlong][::1],
    starts: cython.const[cython.longlong][::1],
    taken: cython.int[::1],
) -> None:
    """Copy the segments of some rows, one after the other."""
    i: cython.Py_ssize_t
    j: cython.longlong
    with cython.nogil:
        for i in range(rows.shape[0]):
            for j in range(starts[i + 1] - starts[i]):
                taken[starts[i] + j] = values[offsets[rows[i]] + j]


def group(keys: cython.const[cython.int][::1], fill: cython.longlong[::1], rows: cython.longlong[::1]) -> None:
    """Write each row where the rows of its key are to stand, in order; a key below 0 has none."""
    row: cython.Py_ssize_t
    with cython.nogil:
        for row in range(keys.shape[0]):
            if keys[row] >= 0:
                rows[fill[keys[row]]] = row
                fill[keys[row]] += 1


def causes_first(
    sends: cython.const[cython.uchar][::1],
    message: cython.const[cython.int][::1],
    following: cython.const[cython.longlong][::1],
    deliveries: cython.const[cython.longlong][::1],
    starts: cython.const[cython.longlong][::1],
    waits: cython.schar[::1],
    queue: cython.longlong[::1],
) -> int:
    """Put rows into the queue, causes first; return how many could be placed."""
    row: cython.Py_ssize_t
    tail: cython.Py_ssize_t = 0
    place: cython.Py_ssize_t = 0
    i: cython.longlong
    effect: cython.longlong
    with cython.nogil:
        for row in range(message.shape[0]):
            if waits[row] == 0:
                queue[tail] = row
                tail += 1
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
    return tail


def hash_names(
    offsets: cython.const[cython.int][::1], data: cython.const[cython.uchar][::1], hashes: cython.ulonglong[::1]
) -> None:
    """Hash each span of bytes: FNV-1a, then the finaliser of splitmix64."""
    row: cython.Py_ssize_t
    i: cython.int
    h: cython.ulonglong
    seed: cython.ulonglong = 0xCBF29CE484222325
    prime: cython.ulonglong = 0x100000001B3
    one: cython.ulonglong = 0xBF58476D1CE4E5B9
    two: cython.ulonglong = 0x94D049BB133111EB
    word: cython.ulonglong = 0xFFFFFFFFFFFFFFFF  # C wraps by itself; Python's numbers are cut to 64 bits
    with cython.nogil:
        for row in range(offsets.shape[0] - 1):
            h = seed
            for i in range(offsets[row], offsets[row + 1]):
                h = (h ^ data[i]) * prime & word
            h = (h ^ (h >> 30)) * one & word
            h = (h ^ (h >> 27)) * two & word
            hashes[row] = h ^ (h >> 31)
