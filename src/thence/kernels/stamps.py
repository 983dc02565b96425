"""Wire stamps read by arrays: of each stamp what the delivery rule asks of it, and nothing else.

Law. For every byte string, either the answer equals `decode` of `thence.protocols.base` followed by the protocol's
`needs` and `gives`, or the row is flagged and is for Python to judge. The strictness of `thence.model.codec` is kept
(integers and sets in their shortest form, senders ascending, nothing left over): what Python refuses is flagged. Also
flagged is what this reader does not handle: labels, stamps under an earlier roster, numbers of 2**48 and more.

It reads ks, ks-hardware, ci-dc, rst, bss, fifo, prs, history and ech under rosters of up to 128.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

CODES = (1, 2, 3, 4, 5, 6, 7, 9, 10)
"""The wire numbers of the protocols that are read here."""
MOST = 128
"""The largest roster that is read here."""
SMALL = 14
"""Up to this size a set is its mask; as in `thence.model.codec`."""
HEADER = 6
LARGE = 1 << 48


@njit(cache=True)
def _varint(data: Any, at: int, end: int) -> tuple[int, int]:
    """Return an integer and where it ends; -1 where it is malformed or too large for us."""
    if at < 0 or at >= end:
        return 0, -1
    byte = int(data[at])
    at += 1
    if byte < 128:
        return byte, at
    value = byte & 127
    shift = 7
    while True:
        if at >= end or shift > 48:
            return 0, -1
        byte = int(data[at])
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
    if byte == 0 or value >= LARGE:
        return 0, -1
    return value, at


@njit(cache=True)
def _ones(word: Any) -> Any:
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(cache=True)
def _length(word: Any) -> int:
    length = 0
    for step in (32, 16, 8, 4, 2, 1):
        if word >> np.uint64(step):
            word >>= np.uint64(step)
            length += step
    return length + (1 if word else 0)


@njit(cache=True)
def _cost(count: int) -> int:
    return count + (1 if count < 32 else 2)


@njit(cache=True)
def _mask(data: Any, at: int, end: int, size: int, words: Any) -> int:
    """Read a set of positions into two words; return where it ends, or -1."""
    words[0] = 0
    words[1] = 0
    head, at = _varint(data, at, end)
    if at < 0:
        return -1
    if size <= SMALL:
        words[0] = np.uint64(head)
        return -1 if head >> size else at
    form, length = head & 3, head >> 2
    if form == 3 or length > size:
        return -1
    if form == 1:
        if length == 0 or length > 16 or at + length > end or data[at + length - 1] == 0:
            return -1
        for i in range(length):
            words[i >> 3] |= np.uint64(data[at + i]) << np.uint64(8 * (i & 7))
        at += length
    else:
        last = -1
        for _ in range(length):
            step, at = _varint(data, at, end)
            if at < 0:
                return -1
            last += step + 1
            if last >= size:
                return -1
            words[last >> 6] |= np.uint64(1) << np.uint64(last & 63)
    full = ~np.uint64(0)
    low = full if size >= 64 else (np.uint64(1) << np.uint64(size)) - np.uint64(1)
    high = full if size >= 128 else (np.uint64(1) << np.uint64(max(size - 64, 0))) - np.uint64(1)
    if form == 2:
        words[0] ^= low
        words[1] ^= high
    if words[0] & ~low or words[1] & ~high:
        return -1
    ones = _ones(words[0]) + _ones(words[1])
    bits = 64 + _length(words[1]) if words[1] else _length(words[0])
    ids, dense, rest = _cost(ones), _cost((bits + 7) // 8), _cost(size - ones)
    shortest = 0 if ids <= dense and ids <= rest else 1 if dense <= rest else 2
    return at if form == shortest else -1


@njit(cache=True)
def _has(words: Any, position: int) -> bool:
    return bool((words[position >> 6] >> np.uint64(position & 63)) & np.uint64(1))


@njit(cache=True)
def _entries(
    data: Any, at: int, end: int, size: int, me: int, words: Any, counts: Any, source: Any, number: Any, n: int
) -> tuple[int, int]:
    """Read a dependency log; note its entries that name `me`. Return where it ends (or -1) and the notes' end."""
    groups, at = _varint(data, at, end)
    if at < 0 or groups > end - at:
        return -1, n
    last = -1
    for _ in range(groups):
        sender, at = _varint(data, at, end)
        if at < 0 or sender >= size or sender <= last:
            return -1, n
        last = sender
        head, at = _varint(data, at, end)
        if at < 0:
            return -1, n
        empty = head & 1
        length = (head >> 1) + empty
        if length == 0 or length > end - at:
            return -1, n
        count, at = _varint(data, at, end)
        for i in range(length - 1, -1, -1):
            if at < 0 or count < 1:
                return -1, n
            counts[i] = count
            if i:
                step, at = _varint(data, at, end)
                count -= step + 1
        if at < 0:
            return -1, n
        for i in range(length - empty):
            at = _mask(data, at, end, size, words)
            if at < 0:
                return -1, n
            if _has(words, me):
                source[n] = sender
                number[n] = counts[i]
                n += 1
        if not empty and words[0] == 0 and words[1] == 0:
            return -1, n
    return at, n


@njit(cache=True)
def _pairs(data: Any, at: int, end: int, size: int, source: Any, number: Any, n: int) -> tuple[int, int]:
    """Read {process: count}."""
    length, at = _varint(data, at, end)
    if at < 0 or length > end - at:
        return -1, n
    last = -1
    for _ in range(length):
        sender, at = _varint(data, at, end)
        if at < 0 or sender >= size or sender <= last:
            return -1, n
        last = sender
        count, at = _varint(data, at, end)
        if at < 0:
            return -1, n
        source[n] = sender
        number[n] = count
        n += 1
    return at, n


@njit(cache=True)
def _past(data: Any, at: int, end: int, size: int, me: int, words: Any) -> tuple[int, int]:
    """Read one sender's past; return where it ends and its newest message to `me`."""
    count, at = _varint(data, at, end)
    if at < 0 or count > end - at:
        return -1, 0
    latest = 0
    for i in range(count):
        at = _mask(data, at, end, size, words)
        if at < 0:
            return -1, 0
        if _has(words, me):
            latest = i + 1
    return at, latest


@njit(cache=True)
def _body(
    code: int, data: Any, at: int, end: int, size: int, me: int, sender: int, count: int, words: Any, counts: Any,
    source: Any, number: Any, n: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Read the control information; return where it ends (or -1), the notes' end, and the row's own number."""
    if code == 1 or code == 2:
        at, n = _entries(data, at, end, size, me, words, counts, source, number, n)
    elif code == 3:
        at, _ = _entries(data, at, end, size, me, words, counts, source, number, n)
        at, n = _pairs(data, at, end, size, source, number, n) if at >= 0 else (-1, n)
    elif code == 10:
        at, n = _entries(data, at, end, size, me, words, counts, source, number, n)
        at, _ = _entries(data, at, end, size, me, words, counts, source, number, n) if at >= 0 else (-1, n)
    elif code == 4:
        own = 0
        for row in range(size):
            for column in range(size):
                value, at = _varint(data, at, end)
                if at < 0:
                    return -1, n, count
                if column == me and value:
                    source[n] = row
                    number[n] = value
                    n += 1
                    own = value if row == sender else own
        count = own + 1
    elif code == 5:
        for process in range(size):
            value, at = _varint(data, at, end)
            if at < 0:
                return -1, n, count
            if value and process != me:
                source[n] = process
                number[n] = value
                n += 1
    elif code == 6:
        value, at = _varint(data, at, end)
        if at >= 0 and value:
            source[n] = sender
            number[n] = value
            n += 1
    elif code == 7:
        at, n = _by_destination(data, at, end, size, me, source, number, n)
    else:
        for process in range(size):
            at, latest = _past(data, at, end, size, me, words)
            if at < 0:
                return -1, n, count
            if latest:
                source[n] = process
                number[n] = latest
                n += 1
    return at, n, count


@njit(cache=True)
def _by_destination(
    data: Any, at: int, end: int, size: int, me: int, source: Any, number: Any, n: int
) -> tuple[int, int]:
    """Read {destination: {process: count}} and keep what stands under `me`."""
    length, at = _varint(data, at, end)
    if at < 0 or length > end - at:
        return -1, n
    last = -1
    for _ in range(length):
        destination, at = _varint(data, at, end)
        if at < 0 or destination >= size or destination <= last:
            return -1, n
        last = destination
        at, after = _pairs(data, at, end, size, source, number, n)
        if at < 0:
            return -1, n
        n = after if destination == me else n
    return at, n


@njit(cache=True)
def read_stamps(data: Any, offsets: Any, code: int, digest: Any, size: int, me: int) -> Any:
    """Read the stamps of one protocol at one destination.

    `data` and `offsets` are those of an Arrow binary column, `digest` is the roster's hash. Return, for each row, its
    sender, its own number, the start and length of its needs, and whether it was read; and the needs, flat.
    """
    rows = len(offsets) - 1
    sender = np.zeros(rows, np.int64)
    own = np.zeros(rows, np.int64)
    start = np.zeros(rows, np.int64)
    length = np.zeros(rows, np.int64)
    good = np.zeros(rows, np.bool_)
    longest = 0
    for row in range(rows):
        longest = max(longest, offsets[row + 1] - offsets[row])
    counts = np.zeros(longest + 1, np.int64)
    words = np.zeros(2, np.uint64)
    source = np.zeros(4 * rows + 2 * longest + 2 * size, np.int64)
    number = np.zeros(len(source), np.int64)
    n = 0
    for row in range(rows):
        at, end = int(offsets[row]), int(offsets[row + 1])
        room = n + 2 * (end - at) + 2 * size
        if room > len(source):
            source = _grown(source, 2 * room)
            number = _grown(number, 2 * room)
        start[row] = n
        if end - at < HEADER + 3 or data[at] != 1 or data[at + 1] != code or data[at + HEADER] != 0:
            continue
        same = True
        for i in range(4):
            same = same and data[at + 2 + i] == digest[i]
        if not same:
            continue
        who, at = _varint(data, at + HEADER + 1, end)
        count, at = _varint(data, at, end)
        if at < 0 or who >= size or count < 1:
            continue
        at = _mask(data, at, end, size, words)
        if at < 0 or not _has(words, me):
            continue
        at, after, count = _body(code, data, at, end, size, me, who, count, words, counts, source, number, n)
        if at != end:
            continue
        sender[row], own[row], length[row], good[row] = who, count, after - n, True
        n = after
    return sender, own, start, length, good, source[:n], number[:n]


@njit(cache=True)
def _into_order(source: Any, number: Any, start: int, end: int, rank: Any) -> None:
    """Put a few needs into the order of their names; as a rule they are."""
    for i in range(start + 1, end):
        j = i
        while j > start and rank[source[j]] < rank[source[j - 1]]:
            source[j], source[j - 1] = source[j - 1], source[j]
            number[j], number[j - 1] = number[j - 1], number[j]
            j -= 1


@njit(cache=True)
def read_clocks(offsets: Any, keys: Any, values: Any, sender: Any, rank: Any) -> Any:
    """Read clocks whose names are coded; return the same as `read_stamps`.

    `rank` is the place of each name in the order of names, which is the order of a row's needs.
    """
    rows = len(offsets) - 1
    own = np.zeros(rows, np.int64)
    start = np.zeros(rows, np.int64)
    length = np.zeros(rows, np.int64)
    good = np.zeros(rows, np.bool_)
    mark = np.full(len(rank), -1, np.int64)
    source = np.zeros(len(keys), np.int64)
    number = np.zeros(len(keys), np.int64)
    n = 0
    for row in range(rows):
        who = sender[row]
        start[row] = n
        after = n
        fine = who >= 0
        mine = 0
        for i in range(offsets[row], offsets[row + 1]):
            key, value = keys[i], values[i]
            if key < 0 or value < 0 or value >= LARGE or mark[key] == row:
                fine = False
                break
            mark[key] = row
            if key == who:
                mine = value
                value -= 1
            if value > 0:
                source[after] = key
                number[after] = value
                after += 1
        if not fine or mine < 1:
            continue
        _into_order(source, number, n, after, rank)
        own[row], length[row], good[row] = mine, after - n, True
        n = after
    return sender, own, start, length, good, source[:n], number[:n]


@njit(cache=True)
def _grown(values: Any, size: int) -> Any:
    larger = np.zeros(size, values.dtype)
    larger[: len(values)] = values
    return larger
