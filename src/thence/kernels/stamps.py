"""Wire stamps read by arrays: of each stamp what the delivery rule asks of it, and nothing else.

Law. For every byte string, either the answer equals `decode` of `thence.protocols.base` followed by the protocol's
`needs` and `gives`, or the row is flagged and is for Python to judge. The strictness of `thence.model.codec` is kept
(integers and sets in their shortest form, senders ascending, nothing left over): what Python refuses is flagged. Also
flagged is what this reader does not handle: labels, stamps under an earlier roster, numbers of 2**48 and more.

It reads ks, ks-hardware, ci-dc, rst, bss, fifo, prs, history and ech under rosters of up to 128.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from thence.kernels.arrays import Hashes, Letters, Longs
from thence.kernels.arrival_rows import RowsRead
from thence.kernels.stamp_bytes import Notes, Scratch, Stamp, has, read_set, varint
from thence.protocols.bss import BSS
from thence.protocols.ci_dc import CiDc
from thence.protocols.ech import ECH
from thence.protocols.fifo import Fifo
from thence.protocols.history import History
from thence.protocols.ks import KS
from thence.protocols.ks_hardware import KSHardware
from thence.protocols.prs import PRS
from thence.protocols.rst import RST

_KS, _KS_HARDWARE, _CI_DC, _ECH = KS.code, KSHardware.code, CiDc.code, ECH.code
_RST, _BSS, _FIFO, _PRS = RST.code, BSS.code, Fifo.code, PRS.code
CODES = (_KS, _KS_HARDWARE, _CI_DC, _ECH, _RST, _BSS, _FIFO, _PRS, History.code)
"""The wire numbers of the protocols that are read here."""
MOST = 128
"""The largest roster that is read here."""
HEADER = 6


@njit(cache=True)
def _entries(stamp: Stamp, at: int, scratch: Scratch, notes: Notes, n: int) -> tuple[int, int]:
    """Read a dependency log; note its entries that name `me`. Return where it ends (or -1) and the notes' end."""
    data, end, size, me = stamp
    words, counts = scratch.words, scratch.counts
    groups, at = varint(data, at, end)
    if at < 0 or groups > end - at:
        return -1, n
    last = -1
    for _ in range(groups):
        sender, at = varint(data, at, end)
        if at < 0 or sender >= size or sender <= last:
            return -1, n
        last = sender
        head, at = varint(data, at, end)
        if at < 0:
            return -1, n
        empty = head & 1
        length = (head >> 1) + empty
        if length == 0 or length > end - at:
            return -1, n
        count, at = varint(data, at, end)
        for i in range(length - 1, -1, -1):
            if at < 0 or count < 1:
                return -1, n
            counts[i] = count
            if i:
                step, at = varint(data, at, end)
                count -= step + 1
        if at < 0:
            return -1, n
        for i in range(length - empty):
            at = read_set(data, at, end, size, words)
            if at < 0:
                return -1, n
            if has(words, me):
                notes.source[n] = sender
                notes.number[n] = counts[i]
                n += 1
        if not empty and words[0] == 0 and words[1] == 0:
            return -1, n
    return at, n


@njit(cache=True)
def _pairs(stamp: Stamp, at: int, notes: Notes, n: int) -> tuple[int, int]:
    """Read {process: count}."""
    data, end = stamp.data, stamp.end
    length, at = varint(data, at, end)
    if at < 0 or length > end - at:
        return -1, n
    last = -1
    for _ in range(length):
        sender, at = varint(data, at, end)
        if at < 0 or sender >= stamp.size or sender <= last:
            return -1, n
        last = sender
        count, at = varint(data, at, end)
        if at < 0:
            return -1, n
        notes.source[n] = sender
        notes.number[n] = count
        n += 1
    return at, n


@njit(cache=True)
def _by_destination(stamp: Stamp, at: int, notes: Notes, n: int) -> tuple[int, int]:
    """Read {destination: {process: count}} and keep what stands under `me`."""
    data, end = stamp.data, stamp.end
    length, at = varint(data, at, end)
    if at < 0 or length > end - at:
        return -1, n
    last = -1
    for _ in range(length):
        destination, at = varint(data, at, end)
        if at < 0 or destination >= stamp.size or destination <= last:
            return -1, n
        last = destination
        at, after = _pairs(stamp, at, notes, n)
        if at < 0:
            return -1, n
        n = after if destination == stamp.me else n
    return at, n


@njit(cache=True)
def _past(stamp: Stamp, at: int, words: Hashes) -> tuple[int, int]:
    """Read one sender's past; return where it ends and its newest message to `me`."""
    count, at = varint(stamp.data, at, stamp.end)
    if at < 0 or count > stamp.end - at:
        return -1, 0
    latest = 0
    for i in range(count):
        at = read_set(stamp.data, at, stamp.end, stamp.size, words)
        if at < 0:
            return -1, 0
        if has(words, stamp.me):
            latest = i + 1
    return at, latest


@njit(cache=True)
def _matrix(stamp: Stamp, at: int, sender: int, notes: Notes, n: int) -> tuple[int, int, int]:
    """Read a count for each sender and destination; return where it ends, the notes' end, and the row's own number."""
    own = 0
    for row in range(stamp.size):
        for column in range(stamp.size):
            value, at = varint(stamp.data, at, stamp.end)
            if at < 0:
                return -1, n, own
            if column == stamp.me and value:
                notes.source[n] = row
                notes.number[n] = value
                n += 1
                own = value if row == sender else own
    return at, n, own + 1


@njit(cache=True)
def _vector(stamp: Stamp, at: int, notes: Notes, n: int) -> tuple[int, int]:
    """Read a count for each process; keep those of the others."""
    for process in range(stamp.size):
        value, at = varint(stamp.data, at, stamp.end)
        if at < 0:
            return -1, n
        if value and process != stamp.me:
            notes.source[n] = process
            notes.number[n] = value
            n += 1
    return at, n


@njit(cache=True)
def _pasts(stamp: Stamp, at: int, words: Hashes, notes: Notes, n: int) -> tuple[int, int]:
    """Read every sender's past; keep of each its newest message to `me`."""
    for process in range(stamp.size):
        at, latest = _past(stamp, at, words)
        if at < 0:
            return -1, n
        if latest:
            notes.source[n] = process
            notes.number[n] = latest
            n += 1
    return at, n


@njit(cache=True)
def _body(
    code: int, stamp: Stamp, at: int, sender: int, count: int, scratch: Scratch, notes: Notes, n: int
) -> tuple[int, int, int]:
    """Read the control information; return where it ends (or -1), the notes' end, and the row's own number."""
    if code in (_KS, _KS_HARDWARE):
        at, n = _entries(stamp, at, scratch, notes, n)
    elif code == _CI_DC:
        at, _ = _entries(stamp, at, scratch, notes, n)
        at, n = _pairs(stamp, at, notes, n) if at >= 0 else (-1, n)
    elif code == _ECH:
        at, n = _entries(stamp, at, scratch, notes, n)
        at, _ = _entries(stamp, at, scratch, notes, n) if at >= 0 else (-1, n)
    elif code == _RST:
        at, n, count = _matrix(stamp, at, sender, notes, n)
    elif code == _BSS:
        at, n = _vector(stamp, at, notes, n)
    elif code == _FIFO:
        value, at = varint(stamp.data, at, stamp.end)
        if at >= 0 and value:
            notes.source[n] = sender
            notes.number[n] = value
            n += 1
    elif code == _PRS:
        at, n = _by_destination(stamp, at, notes, n)
    else:
        at, n = _pasts(stamp, at, scratch.words, notes, n)
    return at, n, count


@njit(cache=True)
def _longer(values: Longs, size: int) -> Longs:
    larger = np.zeros(size, np.int64)
    larger[: len(values)] = values
    return larger


@njit(cache=True)
def _is_ours(data: Letters, at: int, end: int, code: int, digest: Letters) -> bool:
    """Tell whether a stamp begins as one of this protocol and roster, and has no label."""
    if end - at < HEADER + 3 or data[at] != 1 or data[at + 1] != code or data[at + HEADER] != 0:
        return False
    same = True
    for i in range(4):
        same = same and data[at + 2 + i] == digest[i]
    return same


@njit(cache=True)
def read_stamps(data: Letters, offsets: Longs, code: int, digest: Letters, size: int, me: int) -> RowsRead:
    """Read the stamps of one protocol at one destination.

    `data` and `offsets` are those of an Arrow binary column, `digest` is the roster's hash.
    """
    rows = len(offsets) - 1
    sender, own = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    start, length = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    good = np.zeros(rows, np.bool_)
    longest = 0
    for row in range(rows):
        longest = max(longest, offsets[row + 1] - offsets[row])
    scratch = Scratch(np.zeros(2, np.uint64), np.zeros(longest + 1, np.int64))
    room = 4 * rows + 2 * longest + 2 * size
    notes = Notes(np.zeros(room, np.int64), np.zeros(room, np.int64))
    n = 0
    for row in range(rows):
        at, end = int(offsets[row]), int(offsets[row + 1])
        room = n + 2 * (end - at) + 2 * size
        if room > len(notes.source):
            notes = Notes(_longer(notes.source, 2 * room), _longer(notes.number, 2 * room))
        start[row] = n
        if not _is_ours(data, at, end, code, digest):
            continue
        stamp = Stamp(data, end, size, me)
        who, at = varint(data, at + HEADER + 1, end)
        count, at = varint(data, at, end)
        if at < 0 or who >= size or count < 1:
            continue
        at = read_set(data, at, end, size, scratch.words)
        if at < 0 or not has(scratch.words, me):
            continue
        at, after, count = _body(code, stamp, at, who, count, scratch, notes, n)
        if at != end:
            continue
        sender[row], own[row], length[row], good[row] = who, count, after - n, True
        n = after
    return RowsRead(sender, own, start, length, good, notes.source[:n], notes.number[:n])
