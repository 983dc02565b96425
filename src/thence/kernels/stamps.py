"""Wire stamps read by arrays: of each stamp what the delivery rule asks of it, and nothing else.

Law. For every byte string, either the answer equals `decode` of `thence.protocols.base` followed by the protocol's
`needs` and `gives`, or the row is flagged and is for Python to judge. The strictness of `thence.model.codec` is kept
(integers and sets in their shortest form, senders ascending, nothing left over): what Python refuses is flagged. Also
flagged is what this reader does not handle: labels, stamps under an earlier roster, numbers of 2**48 and more.

It reads ks, ks-hardware, ci-dc, rst, bss, fifo, prs, history and ech under rosters of up to 128.
"""

from __future__ import annotations

import numpy as np

from thence.kernels.arrays import Hashes, Letters, Longs, Records, fixed
from thence.kernels.arrival_rows import CAUSE, READ, RowsRead, rows_read
from thence.kernels.compiling import inlined, loop, part
from thence.kernels.stamp_bytes import has, read_set, varint
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


@part
def _entries(
    data: Letters, at: int, end: int, size: int, me: int, words: Hashes, counts: Longs, notes: Records, n: int
) -> tuple[int, int]:
    """Read a dependency log; note its entries that name `me`. Return where it ends (or -1) and the notes' end."""
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
                notes[n].source, notes[n].number = sender, counts[i]
                n += 1
        if not empty and words[0] == 0 and words[1] == 0:
            return -1, n
    return at, n


@part
def _pairs(data: Letters, at: int, end: int, size: int, notes: Records, n: int) -> tuple[int, int]:
    """Read {process: count}."""
    length, at = varint(data, at, end)
    if at < 0 or length > end - at:
        return -1, n
    last = -1
    for _ in range(length):
        sender, at = varint(data, at, end)
        if at < 0 or sender >= size or sender <= last:
            return -1, n
        last = sender
        count, at = varint(data, at, end)
        if at < 0:
            return -1, n
        notes[n].source, notes[n].number = sender, count
        n += 1
    return at, n


@inlined
def _by_destination(data: Letters, at: int, end: int, size: int, me: int, notes: Records, n: int) -> tuple[int, int]:
    """Read {destination: {process: count}} and keep what stands under `me`."""
    length, at = varint(data, at, end)
    if at < 0 or length > end - at:
        return -1, n
    last = -1
    for _ in range(length):
        destination, at = varint(data, at, end)
        if at < 0 or destination >= size or destination <= last:
            return -1, n
        last = destination
        at, after = _pairs(data, at, end, size, notes, n)
        if at < 0:
            return -1, n
        n = after if destination == me else n
    return at, n


@inlined
def _matrix(
    data: Letters, at: int, end: int, size: int, me: int, sender: int, notes: Records, n: int
) -> tuple[int, int, int]:
    """Read a count for each sender and destination; return where it ends, the notes' end, and the row's own number."""
    own = 0
    for row in range(size):
        for column in range(size):
            value, at = varint(data, at, end)
            if at < 0:
                return -1, n, own
            if column == me and value:
                notes[n].source, notes[n].number = row, value
                n += 1
                own = value if row == sender else own
    return at, n, own + 1


@inlined
def _vector(data: Letters, at: int, end: int, size: int, me: int, notes: Records, n: int) -> tuple[int, int]:
    """Read a count for each process; keep those of the others."""
    for process in range(size):
        value, at = varint(data, at, end)
        if at < 0:
            return -1, n
        if value and process != me:
            notes[n].source, notes[n].number = process, value
            n += 1
    return at, n


@inlined
def _pasts(
    data: Letters, at: int, end: int, size: int, me: int, words: Hashes, notes: Records, n: int
) -> tuple[int, int]:
    """Read every sender's past; keep of each its newest message to `me`."""
    for process in range(size):
        count, at = varint(data, at, end)
        if at < 0 or count > end - at:
            return -1, n
        latest = 0
        for i in range(count):
            at = read_set(data, at, end, size, words)
            if at < 0:
                return -1, n
            if has(words, me):
                latest = i + 1
        if latest:
            notes[n].source, notes[n].number = process, latest
            n += 1
    return at, n


@inlined
def _is_ours(data: Letters, at: int, end: int, code: int, digest: Letters) -> bool:
    """Tell whether a stamp begins as one of this protocol and roster, and has no label."""
    if end - at < HEADER + 3 or data[at] != 1 or data[at + 1] != code or data[at + HEADER] != 0:
        return False
    same = True
    for i in range(4):
        same = same and data[at + 2 + i] == digest[i]
    return same


@loop
def _read_heads(
    data: Letters, offsets: Longs, code: int, digest: Letters, size: int, me: int, words: Hashes, read: Records
) -> None:
    """Read sender and number of each stamp that is for `me`, and where its control information starts."""
    for row in range(len(read)):
        at, end = offsets[row], offsets[row + 1]
        if not _is_ours(data, at, end, code, digest):
            continue
        who, at = varint(data, at + HEADER + 1, end)
        count, at = varint(data, at, end)
        if at < 0 or who >= size or count < 1:
            continue
        at = read_set(data, at, end, size, words)
        if at >= 0 and has(words, me):
            read[row].sender, read[row].number, read[row].start, read[row].good = who, count, at, 1


@inlined
def _note(row: int, read: Records, at: int, end: int, n: int, after: int) -> int:
    """Note where the needs of a row stand, if its stamp ends where it should; return the notes' end."""
    read[row].start = n
    if at != end:
        read[row].good = 0
        return n
    read[row].length = after - n
    return after


@loop
def _read_logs(
    data: Letters, offsets: Longs, code: int, size: int, me: int, words: Hashes, counts: Longs, read: Records,
    notes: Records, row: int, n: int,
) -> tuple[int, int]:  # fmt: skip
    """Read dependency logs: of ech two, of which the first counts, and of ci-dc what stands behind it counts."""
    while row < len(read) and n + offsets[row + 1] - offsets[row] <= len(notes):
        if read[row].good:
            at, end = read[row].start, offsets[row + 1]
            at, after = _entries(data, at, end, size, me, words, counts, notes, n)
            if code == _CI_DC and at >= 0:
                at, after = _pairs(data, at, end, size, notes, n)
            elif code == _ECH and at >= 0:
                at, _ = _entries(data, at, end, size, me, words, counts, notes, after)
            n = _note(row, read, at, end, n, after)
        row += 1
    return row, n


@loop
def _read_counts(
    data: Letters, offsets: Longs, code: int, size: int, me: int, words: Hashes, read: Records, notes: Records,
    row: int, n: int,
) -> tuple[int, int]:  # fmt: skip
    """Read control information that is no dependency log."""
    while row < len(read) and n + offsets[row + 1] - offsets[row] <= len(notes):
        if read[row].good:
            at, end, sender = read[row].start, offsets[row + 1], read[row].sender
            after = n
            if code == _RST:
                at, after, read[row].number = _matrix(data, at, end, size, me, sender, notes, n)
            elif code == _BSS:
                at, after = _vector(data, at, end, size, me, notes, n)
            elif code == _FIFO:
                value, at = varint(data, at, end)
                if at >= 0 and value:
                    notes[n].source, notes[n].number = sender, value
                    after = n + 1
            elif code == _PRS:
                at, after = _by_destination(data, at, end, size, me, notes, n)
            else:
                at, after = _pasts(data, at, end, size, me, words, notes, n)
            n = _note(row, read, at, end, n, after)
        row += 1
    return row, n


def read_stamps(data: Letters, offsets: Longs, code: int, digest: Letters, size: int, me: int) -> RowsRead:
    """Read the stamps of one protocol at one destination.

    `data` and `offsets` are those of an Arrow binary column, `digest` is the roster's hash.
    """
    data, digest = fixed(data), fixed(digest)
    read, words = np.zeros(len(offsets) - 1, READ), np.zeros(2, np.uint64)
    _read_heads(data, offsets, code, digest, size, me, words, read)
    longest = int(np.diff(offsets).max(initial=0))  # a note takes at least a byte of its stamp
    counts, notes = np.zeros(longest + 1, np.int64), np.empty(4 * len(read) + longest, CAUSE)
    row = n = 0
    while True:  # again with more room, where there was not enough
        if code in (_KS, _KS_HARDWARE, _CI_DC, _ECH):
            row, n = _read_logs(data, offsets, code, size, me, words, counts, read, notes, row, n)
        else:
            row, n = _read_counts(data, offsets, code, size, me, words, read, notes, row, n)
        if row == len(read):
            return rows_read(read, notes["source"][:n], notes["number"][:n])
        notes = np.concatenate([notes, np.empty(len(notes) + longest, CAUSE)])
