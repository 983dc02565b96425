# cython: wraparound=False, initializedcheck=False, cdivision=True
# No index and no dividend is negative, and no view is used before it is set.
# mypy: disable-error-code="valid-type,misc,no-redef,type-arg,no-any-return"
"""Integers and sets of processes, and how they are written.

Law. An integer is little-endian base 128 in its shortest form. A set over a small roster is its mask; over a larger one
the shortest of sorted ids, bit set and sorted ids of the complement, and of equals the first. So a value has one form
only, and `Reader` accepts no other.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

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
    def written(self) -> Any:
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


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def head_bytes(count: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Count the bytes of a length and a form of two bits."""
    return 1 if count < 32 else 2 if count < 4096 else 3


@cython.ccall
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
