# cython: wraparound=False, initializedcheck=False, cdivision=True
# Bounds checks stay on: these are the bytes of strangers. No index and no dividend is negative, and no view is used
# before it is set.
# mypy: disable-error-code="valid-type,misc,no-redef"
"""Integers and sets of processes as bytes, and the strict reader of bytes from outside.

Law. An integer is little-endian base 128, in its shortest form, and has at most 63 bits. A set over a small roster is
its mask; over a larger one the shortest of sorted ids, bit set and sorted ids of the complement, and of equals the
first. Whatever else stands where one is expected raises `PeerError` with the place, and no announced length goes beyond
the bytes that are left. So a value has one form only.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from thence.errors import PeerError

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

MAX_BYTES = 1 << 24
SMALL_ROSTER = 14
"""up to this size a set is its mask"""
ONE_BYTE_ROSTER = 128
"""up to this size a difference of ids takes one byte"""
WORD = 56
"""positions in a word of a set; below, these three stand as numbers, for a C compiler to divide by them"""
ZERO = array("q", [0])


@cython.final
@cython.cclass
class Words:
    """A set of positions as words of 56 bits, lowest first: seven bytes, and a C integer holds them without a sign."""

    def __init__(self, width: cython.Py_ssize_t) -> None:
        """Start empty, with that many words."""
        self.width = width
        self.word = ZERO * width

    @cython.ccall
    def mask(self) -> Any:
        """Return the set as one integer."""
        j: cython.Py_ssize_t
        found: Any = self.word[self.width - 1]
        for j in range(self.width - 2, -1, -1):
            found = found << 56 | self.word[j]
        return found

    @cython.cfunc
    def has(self, position: cython.Py_ssize_t) -> cython.bint:
        j: cython.Py_ssize_t = position // 56
        return j < self.width and (self.word[j] >> position % 56 & 1) != 0

    @cython.cfunc
    def empty(self) -> cython.bint:
        j: cython.Py_ssize_t
        found: cython.longlong = 0
        for j in range(self.width):
            found |= self.word[j]
        return found == 0

    @cython.cfunc
    def clear(self) -> cython.void:
        j: cython.Py_ssize_t
        for j in range(self.width):
            self.word[j] = 0

    @cython.cfunc
    def form(self, size: cython.Py_ssize_t) -> cython.int:
        """Choose among 0 ids, 1 bit set, 2 ids of the complement: the shortest, and of equals the first."""
        ones: cython.Py_ssize_t = 0
        top: cython.Py_ssize_t = 0
        j: cython.Py_ssize_t
        word: cython.longlong
        for j in range(self.width):
            word = self.word[j]
            if word:
                top = 7 * j
                while word:
                    word &= word - 1
                    ones += 1
                word = self.word[j]
                while word:
                    word >>= 8
                    top += 1
        ids: cython.Py_ssize_t = ones + head_bytes(ones)
        bits: cython.Py_ssize_t = top + head_bytes(top)
        rest: cython.Py_ssize_t = size - ones + head_bytes(size - ones)
        if size > 128:  # what is longer than the bit set already need not be known exactly
            if ids <= bits:
                ids += self._extra(size, False)
            if rest <= bits:
                rest += self._extra(size, True)
        if ids <= bits and ids <= rest:
            return 0
        return 1 if bits <= rest else 2

    @cython.cfunc
    def _extra(self, size: cython.Py_ssize_t, rest: cython.bint) -> cython.Py_ssize_t:
        """Count the bytes that differences of 128 and more take beyond one each."""
        more: cython.Py_ssize_t = 0
        last: cython.Py_ssize_t = -1
        j: cython.Py_ssize_t
        at: cython.Py_ssize_t
        gap: cython.Py_ssize_t
        word: cython.longlong
        for j in range(self.width):
            word = self.word[j] ^ word_below(size, j) if rest else self.word[j]
            at = 56 * j
            while word:
                if word & 1:
                    gap = at - last - 1
                    while gap > 127:
                        gap >>= 7
                        more += 1
                    last = at
                word >>= 1
                at += 1
        return more


@cython.final
@cython.cclass
class Writer:
    """Bytes that are written one behind the other, into as many as can come at most."""

    def __init__(self, most: cython.Py_ssize_t) -> None:
        """Start with nothing written."""
        self.raw = bytearray(most)
        self.data = self.raw
        self.at = 0

    @cython.cfunc
    def written(self) -> object:
        return self.raw[: self.at]

    @cython.cfunc
    def number(self, value: cython.longlong) -> cython.Py_ssize_t:
        """Write a non-negative integer in its shortest form; return where it ends."""
        if value < 0:
            raise ValueError(f"{value} is negative")
        while value > 127:
            self.data[self.at] = value & 127 | 128
            self.at += 1
            value >>= 7
        self.data[self.at] = value
        self.at += 1
        return self.at

    @cython.cfunc
    def set(self, words: Words, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Write a set in its shortest form."""
        if size <= 14:
            return self.number(words.word[0])
        form: cython.int = words.form(size)
        return self._bits(words) if form == 1 else self._ids(words, size, form == 2)

    @cython.cfunc
    def _bits(self, words: Words) -> cython.Py_ssize_t:
        top: cython.Py_ssize_t = 0
        i: cython.Py_ssize_t
        for i in range(7 * words.width):
            if words.word[i // 7] >> 8 * (i % 7) & 255:
                top = i + 1
        self.number(top << 2 | 1)
        for i in range(top):
            self.data[self.at] = words.word[i // 7] >> 8 * (i % 7) & 255
            self.at += 1
        return self.at

    @cython.cfunc
    def _ids(self, words: Words, size: cython.Py_ssize_t, rest: cython.bint) -> cython.Py_ssize_t:
        ones: cython.Py_ssize_t = 0
        last: cython.Py_ssize_t = -1
        j: cython.Py_ssize_t
        at: cython.Py_ssize_t
        word: cython.longlong
        for j in range(words.width):
            word = words.word[j] ^ word_below(size, j) if rest else words.word[j]
            while word:
                word &= word - 1
                ones += 1
        self.number(ones << 2 | (2 if rest else 0))
        for j in range(words.width):
            word = words.word[j] ^ word_below(size, j) if rest else words.word[j]
            at = 56 * j
            while word:
                if word & 1:
                    self.number(at - last - 1)
                    last = at
                word >>= 1
                at += 1
        return self.at


@cython.final
@cython.cclass
class Reader:
    """A cursor that goes over the bytes once; `size` is the number of positions in the roster."""

    def __init__(
        self, data: Any, size: cython.Py_ssize_t, at: cython.Py_ssize_t = 0, end: cython.Py_ssize_t = -1
    ) -> None:
        """Read `data` under a roster of `size` processes, from byte `at` up to `end`, or to the last one."""
        self.raw = data
        self.data = data
        self.size = size
        self.words = None
        self.counts = None
        self.span(at, len(data) if end < 0 else end)

    @cython.ccall
    def span(self, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> object:
        """Go on reading there: one reader serves all rows of a column."""
        if end - at > MAX_BYTES:
            raise PeerError(f"{end - at} bytes are more than the {MAX_BYTES} accepted")
        self.at = at
        self.end = end
        return None

    @cython.ccall
    def take(self, count: cython.Py_ssize_t) -> bytes:
        """Take that many bytes."""
        if count > self.end - self.at:
            raise PeerError(f"ends after {self.end} bytes, {count} more expected at {self.at}")
        self.at += count
        return bytes(self.raw[self.at - count : self.at])

    @cython.ccall
    def varint(self) -> cython.longlong:
        """Take an integer in its shortest form."""
        at: cython.Py_ssize_t = self.at
        shift: cython.int = 7
        byte: cython.longlong
        value: cython.longlong
        if at >= self.end:
            raise PeerError(f"ends within an integer at byte {at}")
        value = self.data[at]
        at += 1
        if value > 127:
            value &= 127
            while True:
                if at >= self.end:
                    raise PeerError(f"ends within an integer at byte {at}")
                byte = self.data[at]
                at += 1
                if shift > 56:
                    raise PeerError(f"integer before byte {at} is larger than 63 bits")
                value |= (byte & 127) << shift
                if byte < 128:
                    break
                shift += 7
            if byte == 0:
                raise PeerError(f"integer before byte {at} is not in its shortest form")
        self.at = at
        return value

    @cython.ccall
    def numbers(self, count: cython.longlong) -> list:
        """Take that many integers."""
        _i: cython.longlong
        if count > self.end - self.at:
            raise PeerError(f"{count} integers expected at byte {self.at}, {self.end - self.at} bytes are left")
        found: list = []
        for _i in range(count):
            found.append(self.varint())
        return found

    @cython.ccall
    def flag(self) -> cython.bint:
        """Take a byte that is 0 or 1."""
        value: cython.longlong = self.varint()
        if value > 1:
            raise PeerError(f"{value} before byte {self.at} is neither 0 nor 1")
        return value == 1

    @cython.ccall
    def length(self) -> cython.longlong:
        """Take a count of things of at least one byte each; it cannot exceed what is left."""
        count: cython.longlong = self.varint()
        if count > self.end - self.at:
            raise PeerError(f"{count} items announced at byte {self.at}, {self.end - self.at} bytes are left")
        return count

    @cython.cfunc
    def falling(self, length: cython.longlong) -> object:
        """Take that many counts, the newest first and then differences, into `counts` by ascending count."""
        i: cython.longlong
        gap: cython.longlong
        count: cython.longlong = self.varint()
        if self.counts is None or len(self.counts) < length:
            self.counts = ZERO * length
        for i in range(length - 1, -1, -1):
            if count < 1:
                raise PeerError(f"counts before byte {self.at} fall below one")
            self.counts[i] = count
            if i:
                gap = self.varint()
                count = count - gap - 1 if gap < count else 0
        return None

    @cython.ccall
    def pairs(self) -> dict:
        """Take numbers by position, which ascend."""
        found: dict = {}
        last: cython.longlong = -1
        position: cython.longlong
        _i: cython.longlong
        for _i in range(self.length()):
            position = self.varint()
            if position <= last or position >= self.size:
                raise PeerError(f"position {position} at byte {self.at} follows {last} of {self.size}; they ascend")
            last = position
            found[position] = self.varint()
        return found

    @cython.ccall
    def done(self) -> object:
        """Insist that nothing is left."""
        if self.at != self.end:
            raise PeerError(f"{self.end - self.at} bytes too many after byte {self.at}")
        return None

    @cython.ccall
    def mask(self) -> Any:
        """Take a set of positions in its shortest form."""
        return self.set().mask()

    @cython.ccall
    def masks(self, count: cython.Py_ssize_t) -> list:
        """Take that many sets."""
        _i: cython.Py_ssize_t
        found: list = []
        for _i in range(count):
            found.append(self.set().mask())
        return found

    @cython.ccall
    def message(self) -> tuple:
        """Take sender, count and destinations; messages count from 1 and have a destination."""
        sender: cython.longlong = self.varint()
        count: cython.longlong = self.varint()
        destinations: Any = self.set().mask()
        if sender >= self.size:
            raise PeerError(f"position {sender} before byte {self.at} is outside a roster of {self.size}")
        if count < 1:
            raise PeerError(f"the message before byte {self.at} has number 0; messages count from 1")
        if not destinations:
            raise PeerError(f"the message before byte {self.at} is addressed to nobody; at least one is expected")
        return sender, count, destinations

    @cython.cfunc
    def set(self) -> Words:
        """Take a set as words, which hold it until the next one is taken."""
        words: Words = self.words
        size: cython.Py_ssize_t = self.size
        start: cython.Py_ssize_t = self.at
        head: cython.longlong = self.varint()
        if words is None or words.width * 56 < size:
            words = self.words = Words(width_of(size))
        if size <= 14:
            if head >> size:
                raise PeerError(f"the set before byte {self.at} reaches outside a roster of {size}")
            words.word[0] = head
            return words
        if head & 3 == 3 or head >> 2 > size:
            raise PeerError(f"no set of positions starts with {head} at byte {start}")
        words.clear()
        if head & 3 == 1:
            self._read_bits(words, head >> 2)
        else:
            self._read_ids(words, head >> 2, head & 3 == 2)
        if words.form(size) != head & 3:
            raise PeerError(f"the set before byte {self.at} is not in its shortest form")
        return words

    @cython.cfunc
    def _read_bits(self, words: Words, length: cython.longlong) -> object:
        at: cython.Py_ssize_t = self.at
        i: cython.Py_ssize_t
        if length > self.end - at:
            raise PeerError(f"ends after {self.end} bytes, {length} more expected at {at}")
        self.at = at + length
        if length == 0 or self.data[self.at - 1] == 0:
            raise PeerError(f"the bit set before byte {self.at} ends in nothing")
        if length > (self.size + 7) // 8:
            raise PeerError(f"the set before byte {self.at} reaches outside a roster of {self.size}")
        for i in range(length):
            words.word[i // 7] |= cython.cast(cython.longlong, self.data[at + i]) << 8 * (i % 7)
        i = (length - 1) // 7
        if words.word[i] & ~word_below(self.size, i):
            raise PeerError(f"the set before byte {self.at} reaches outside a roster of {self.size}")
        return None

    @cython.cfunc
    def _read_ids(self, words: Words, length: cython.longlong, rest: cython.bint) -> object:
        last: cython.longlong = -1
        gap: cython.longlong
        i: cython.Py_ssize_t
        _n: cython.longlong
        for _n in range(length):
            gap = self.varint()
            if gap >= self.size - last - 1:
                raise PeerError(f"a position before byte {self.at} is outside a roster of {self.size}")
            last += gap + 1
            words.word[last // 56] |= cython.cast(cython.longlong, 1) << last % 56
        if rest:
            for i in range(words.width):
                words.word[i] ^= word_below(self.size, i)
        return None


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def head_bytes(count: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Count the bytes of a length and a form of two bits."""
    return 1 if count < 32 else 2 if count < 4096 else 3


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def word_below(size: cython.Py_ssize_t, j: cython.Py_ssize_t) -> cython.longlong:
    """Return word j of the set of all positions below a size."""
    left: cython.Py_ssize_t = size - 56 * j
    return 0xFFFFFFFFFFFFFF if left >= 56 else (cython.cast(cython.longlong, 1) << left) - 1 if left > 0 else 0


@cython.ccall
def width_of(size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return how many words a set over a roster takes."""
    return (size + 56 - 1) // 56 if size > 56 else 1


@cython.ccall
def words_of(mask: Any, width: cython.Py_ssize_t) -> Words:
    """Return the lowest words of a set."""
    j: cython.Py_ssize_t
    words: Words = Words(width)
    words.word[0] = mask & 0xFFFFFFFFFFFFFF
    for j in range(1, width):
        words.word[j] = mask >> 56 * j & 0xFFFFFFFFFFFFFF
    return words


@cython.ccall
def set_bytes(size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return how many bytes a set takes at most: no more than its bits."""
    return 10 + size // 8


def put_varint(out: bytearray, value: int) -> None:
    """Append a non-negative integer."""
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def put_varints(out: bytearray, values: Sequence[int]) -> None:
    """Append many integers; the common case, all below 128, in one step."""
    if values and max(values) < 128:
        out += bytes(values)
    else:
        for value in values:
            put_varint(out, value)


def put_mask(out: bytearray, mask: Any, size: cython.Py_ssize_t) -> None:
    """Append a set of positions in its shortest form."""
    writer: Writer = Writer(set_bytes(size))
    writer.set(words_of(mask, width_of(size)), size)
    out += writer.written()
