# cython: wraparound=False, initializedcheck=False, cdivision=True
# wraparound: no index is negative. Words, positions and entries are plain memory: a position is below the roster's
# size, and `_grown` makes place for entries before they are read. `BitReader` reads bytes, with bounds checks.
# boundscheck: off in `_lowest`, where a number below 64 is looked up in a table of 64.
# initializedcheck: no view is used before it is set.
# cdivision: no dividend is negative, and `_width` divides by a count above 0.
# mypy: disable-error-code="attr-defined,name-defined,valid-type,misc,no-redef,type-arg,index,assignment,no-any-return"
"""Dependency logs in bits: the form of wire version 2.

Invariant. A log has one form, and the reader accepts no other. It is, lowest bit of each byte first:

- how many senders have entries, as one of size + 1 values, and which, as a set;
- two widths of 6 bits: for the differences of the newest counts and for the gaps within a group;
- for each sender its group: how many entries have destinations and whether one without follows; its newest count, as
  the difference to that of the sender before; the gaps down from it; the sets, oldest first;
- zeros up to a whole byte.

Numbers and sets have the codes of `bits_cy.py`. The widths follow from the numbers themselves (`_width`), so a reader
can check them.

Chosen by measurement (benchmarks/wire): an adaptive model of the same facts would need 0.87 to 0.96 of these bytes.
"""

from __future__ import annotations

from thence.errors import PeerError

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

if cython.compiled:
    from cython.cimports.thence.core.wire.bits_cy import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        BitReader,
        BitWriter,
        length_of,
    )
    from cython.cimports.thence.core.wire.dependency_log_cy import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        Log,
        blank,
    )
    from cython.cimports.thence.core.wire.reader_cy import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        Reader,
    )
    from cython.cimports.thence.core.wire.words_cy import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        Words,
        numbers_in,
        room,
        width_of,
    )
else:
    from thence.core.wire.bits_cy import BitReader, BitWriter, length_of
    from thence.core.wire.dependency_log_cy import Log, blank
    from thence.core.wire.reader_cy import Reader
    from thence.core.wire.words_cy import Words, numbers_in, room, width_of

WIDTH_BITS = cython.declare(cython.int, 6)
LARGEST = cython.declare(cython.longlong, (1 << 63) - 1)
ALL = cython.declare(cython.ulonglong, (1 << 64) - 1)
DE_BRUIJN = 0x03F79D71B4CB0A89
"""shifted left by 0 to 63 places, its upper six bits are 64 different numbers"""
ORDER = cython.declare(cython.ulonglong, DE_BRUIJN)
PLACES = cython.declare(bytes, bytes([at for _, at in sorted((DE_BRUIJN << at >> 58 & 63, at) for at in range(64))]))
"""the number of places for each of them"""


@cython.cfunc
@cython.exceptval(check=False)
def _width(lengths: cython.longlong, count: cython.longlong) -> cython.int:
    """Return the width for that many numbers with this many bits together: one less than their mean length."""
    mean: cython.longlong = (2 * lengths + count) // (2 * count) if count else 0
    return mean - 1 if mean > 1 else 0


@cython.cfunc
@cython.exceptval(check=False)
@cython.boundscheck(False)
def _lowest(word: cython.ulonglong) -> cython.longlong:
    """Return the position of the lowest bit of a word that has one."""
    return PLACES[((word & -word) * ORDER & ALL) >> 58]


@cython.ccall
def write_log(log: Log, out: bytearray, size: cython.Py_ssize_t) -> object:
    """Append a log. An empty entry that is not the newest of its sender says nothing and is left out."""
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    first: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t
    groups: cython.Py_ssize_t = 0
    entries: cython.Py_ssize_t
    sizes: cython.longlong[4] = [0, 0, 0, 0]
    before: cython.longlong = 0
    change: cython.longlong
    positions: cython.p_longlong
    word: cython.longlong
    at: cython.longlong
    kept: bytearray = room(max(size, 56 * log.width))
    positions = numbers_in(kept)
    to: BitWriter = BitWriter(out, 32 + 5 * log.entries)
    while first < log.entries:  # which senders there are, and how large the numbers
        end = _last(log, first)
        positions[groups] = log.sender(first)
        if groups:
            change = log.count(end) - before
            sizes[0] += length_of(change if change >= 0 else -change)
            sizes[1] += 1
        before = log.count(end)
        at = before
        for i in range(end - 1, first - 1, -1):
            if not log.empty(i):
                sizes[2] += length_of(at - log.count(i) - 1)
                sizes[3] += 1
                at = log.count(i)
        groups += 1
        first = end + 1
    to.one_of(groups, size + 1)
    to.middle(positions, 0, groups, 0, size - 1)
    if groups:
        to.put(_width(sizes[0], sizes[1]), WIDTH_BITS)
        to.put(_width(sizes[2], sizes[3]), WIDTH_BITS)
    before = 0
    first = 0
    while first < log.entries:
        end = _last(log, first)
        entries = 0
        for i in range(first, end + 1):
            entries += not log.empty(i)
        to.number(2 * entries + log.empty(end) - 1, 0)
        change = log.count(end) - before
        to.number(change if change >= 0 else -change, _width(sizes[0], sizes[1]))
        if change and before:
            to.put(change < 0, 1)
        before = log.count(end)
        at = before
        for i in range(end - 1, first - 1, -1):
            if not log.empty(i):
                to.number(at - log.count(i) - 1, _width(sizes[2], sizes[3]))
                at = log.count(i)
        for i in range(first, end + 1):
            entries = 0
            for j in range(log.width):
                word = log.data[i * log.stride + 2 + j]
                while word:
                    positions[entries] = 56 * j + _lowest(word)
                    entries += 1
                    word &= word - 1
            if entries:
                to.number(entries - 1, 0)
                to.middle(positions, 0, entries, 0, size - 1)
        first = end + 1
    to.close()
    return None


@cython.cfunc
@cython.exceptval(check=False)
def _last(log: Log, first: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the newest entry of a group."""
    sender: cython.longlong = log.sender(first)
    while first + 1 < log.entries and log.data[(first + 1) * log.stride] == sender:
        first += 1
    return first


@cython.ccall
def read_log_bits(reader: Reader) -> Log:
    """Read what `write_log` wrote; raise `PeerError` for invalid bytes."""
    size: cython.Py_ssize_t = reader.size
    width: cython.Py_ssize_t = width_of(size)
    bits: BitReader = BitReader(reader)
    senders: Words = Words(width)
    words: Words = Words(width)
    lengths: cython.longlong[4] = [0, 0, 0, 0]
    before: cython.longlong = 0
    sender: cython.longlong
    wide: cython.int = 0
    narrow: cython.int = 0
    groups: cython.longlong = bits.one_of(size + 1)
    log: Log = blank(min(2 * groups, 8 * (reader.end - reader.at) + 8), width)  # an entry takes a bit or more
    bits.middle(senders, groups, 0, size - 1)
    if groups:
        wide = bits.get(WIDTH_BITS)
        narrow = bits.get(WIDTH_BITS)
    for sender in range(size):
        if senders.has(sender):
            log = _read_group(bits, log, sender, before, wide, narrow, words, lengths)
            before = log.count(log.entries - 1)
    if wide != _width(lengths[0], lengths[1]) or narrow != _width(lengths[2], lengths[3]):
        raise PeerError(f"a dependency log before byte {reader.at} has widths {wide} and {narrow}, not its own")
    bits.close()
    return log.trimmed()


@cython.cfunc
def _read_group(
    bits: BitReader,
    log: Log,
    sender: cython.longlong,
    before: cython.longlong,
    wide: cython.int,
    narrow: cython.int,
    words: Words,
    lengths: cython.p_longlong,
) -> Log:
    """Read the entries of one sender; `before` is the newest count of the sender before, 0 for the first."""
    i: cython.Py_ssize_t
    _i: cython.Py_ssize_t
    head: cython.longlong = bits.number(0) + 1
    entries: cython.longlong = (head >> 1) + (head & 1)
    count: cython.longlong = bits.number(wide)
    gap: cython.longlong
    first: cython.Py_ssize_t = log.entries
    if head < 0 or entries > 8 * (bits.reader.end - bits.reader.at) + bits.fill + 1:
        raise PeerError(f"{entries} entries of sender {sender} before byte {bits.reader.at} are impossible")
    while log.entries + entries > log.place:
        log = _grown(log, entries)
    if before:
        lengths[0] += length_of(count)
        lengths[1] += 1
        if count and bits.get(1):
            count = -count
        elif count > LARGEST - before:
            count = -before  # refused below
        count += before
    for _i in range(entries):
        log.head(sender, 0)
    for i in range(log.entries - 1, first - 1, -1):
        if i < log.entries - 1:
            gap = bits.number(narrow)
            lengths[2] += length_of(gap)
            lengths[3] += 1
            count = count - gap - 1 if gap < count else 0
        if count < 1:
            raise PeerError(f"an entry of sender {sender} before byte {bits.reader.at} counts less than 1 or too much")
        log.data[i * log.stride + 1] = count
    for i in range(first, log.entries - (head & 1)):
        gap = bits.number(0) + 1
        if gap < 1 or gap > bits.reader.size:
            raise PeerError(f"a set of {gap} of {bits.reader.size} processes at byte {bits.reader.at} is impossible")
        words.clear()
        bits.middle(words, gap, 0, bits.reader.size - 1)
        for gap in range(log.width):
            log.data[i * log.stride + 2 + gap] = words.word[gap]
    return log


@cython.cfunc
def _grown(log: Log, more: cython.Py_ssize_t) -> Log:
    """Return the log with place for more entries."""
    i: cython.Py_ssize_t
    made: Log = blank(2 * log.entries + more, log.width)
    for i in range(log.entries * log.stride):
        made.data[i] = log.data[i]
    made.entries = log.entries
    return made
