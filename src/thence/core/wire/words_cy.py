# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
# boundscheck: words are plain memory, and an index is below the width that they were made with. `Writer`
# compares its place with its end itself, because what it is asked to write may be longer than announced.
# wraparound: no index is negative.
# initializedcheck: no view is used before it is set.
# cdivision: no dividend is negative, and divisors are constants.
# mypy: disable-error-code="attr-defined,name-defined,valid-type,misc,no-redef,type-arg,no-any-return"
"""Integers and sets of processes, and how they are written.

A function that cannot return -1 declares it as the sign of an exception: without that, each call asks Python.

Invariant. An integer is little-endian base 128 in its shortest form. A set over a small roster is its mask; over a
larger one the shortest of sorted ids, bit set and sorted ids of the complement, and of equals the first. So a value
has one form only, and `Reader` accepts no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

if cython.compiled:
    from cython.cimports.cpython.bytearray import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        PyByteArray_AsString,
        PyByteArray_FromStringAndSize,
        PyByteArray_Resize,
    )

# Below, 14 (up to this size a set is its mask), 128 (up to this size a difference of ids takes one byte) and 56
# (positions in a word of a set) stand as numbers, for a C compiler to divide by them.
# As literals in the code these would be Python integers.
FULL = cython.declare(cython.longlong, 0xFFFFFFFFFFFFFF)
PAIRS = cython.declare(cython.longlong, 0x55555555555555)
FOURS = cython.declare(cython.longlong, 0x33333333333333)
BYTES = cython.declare(cython.longlong, 0x0F0F0F0F0F0F0F)


@cython.cfunc
def room(count: cython.Py_ssize_t) -> bytearray:
    """Return memory for that many C integers; what stands in it is not known."""
    return PyByteArray_FromStringAndSize(cython.NULL, 8 * count) if cython.compiled else bytearray(8 * count)


@cython.cfunc
def numbers_in(raw: bytearray) -> cython.p_longlong:
    """Return memory as C integers: a pointer, which is made in a tenth of the time of a view, or a view uncompiled."""
    return cython.cast(cython.p_longlong, PyByteArray_AsString(raw)) if cython.compiled else memoryview(raw).cast("q")


@cython.final
@cython.cclass
class Words:
    """A set of positions as words of 56 bits, lowest first: seven bytes, and a C integer holds them without a sign."""

    def __init__(self, width: cython.Py_ssize_t) -> None:
        """Start empty, with that many words."""
        self.width, self.ones = width, 0
        self.raw = room(width)
        self.word = numbers_in(self.raw)
        self.clear()

    @cython.ccall
    def mask(self) -> Any:
        """Return the set as one integer."""
        j: cython.Py_ssize_t
        found: Any = self.word[self.width - 1]
        for j in range(self.width - 2, -1, -1):
            found = found << 56 | self.word[j]
        return found

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def has(self, position: cython.Py_ssize_t) -> cython.bint:
        """Return whether a position is in the set."""
        j: cython.Py_ssize_t = position // 56
        return j < self.width and (self.word[j] >> position % 56 & 1) != 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def empty(self) -> cython.bint:
        """Return whether the set has no positions."""
        j: cython.Py_ssize_t
        found: cython.longlong = 0
        for j in range(self.width):
            found |= self.word[j]
        return found == 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def clear(self) -> cython.void:
        """Remove every position from the set."""
        j: cython.Py_ssize_t
        for j in range(self.width):
            self.word[j] = 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def form(self, size: cython.Py_ssize_t) -> cython.int:
        """Choose among 0 ids, 1 bit set, 2 ids of the complement: the shortest, and of equals the first.

        Sets `ones`, the size of the set.
        """
        ones: cython.Py_ssize_t = 0
        top: cython.Py_ssize_t = 0
        j: cython.Py_ssize_t
        word: cython.longlong
        for j in range(self.width):
            word = self.word[j]
            if word:
                ones += ones_in(word)
                top = 7 * j + 1  # its bytes are counted without branches, which would be guessed wrong
                top += (word >> 8 != 0) + (word >> 16 != 0) + (word >> 24 != 0)
                top += (word >> 32 != 0) + (word >> 40 != 0) + (word >> 48 != 0)
        self.ones = ones
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
    @cython.exceptval(-1, check=False)
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
    """Bytes that are written one behind the other, at the end of others, into as many as can come at most."""

    def __init__(self, out: bytearray, most: cython.Py_ssize_t) -> None:
        """Make room; until `close`, more stands there than is written."""
        self.out = out
        self.at = len(out)
        self.end = self.at + most
        if cython.compiled:
            PyByteArray_Resize(out, self.end)
            self.data = cython.cast(cython.p_uchar, PyByteArray_AsString(out))
        else:
            out.extend(bytes(most))
            self.data = out

    @cython.cfunc
    def close(self) -> object:
        """Give back the room that was not needed."""
        if cython.compiled:
            PyByteArray_Resize(self.out, self.at)
        else:
            del self.out[self.at :]
        return None

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def fits(self, count: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Refuse to write that many bytes beyond the end; return where writing goes on."""
        if self.at + count > self.end:
            raise IndexError(f"{count} bytes more do not fit")
        return self.at

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def number(self, value: cython.longlong) -> cython.Py_ssize_t:
        """Write a non-negative integer in its shortest form; return where it ends."""
        if value < 0:
            raise ValueError(f"{value} is negative")
        self.fits(9)
        while value > 127:
            self.data[self.at] = value & 127 | 128
            self.at += 1
            value >>= 7
        self.data[self.at] = value
        self.at += 1
        return self.at

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def set(self, words: Words, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Write a set in its shortest form."""
        if size <= 14:
            return self.number(words.word[0])
        form: cython.int = words.form(size)
        return self._bits(words) if form == 1 else self._ids(words, size, form == 2)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _bits(self, words: Words) -> cython.Py_ssize_t:
        top: cython.Py_ssize_t = 0
        i: cython.Py_ssize_t
        for i in range(7 * words.width):
            if words.word[i // 7] >> 8 * (i % 7) & 255:
                top = i + 1
        self.number(top << 2 | 1)
        self.fits(top)
        for i in range(top):
            self.data[self.at] = words.word[i // 7] >> 8 * (i % 7) & 255
            self.at += 1
        return self.at

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _ids(self, words: Words, size: cython.Py_ssize_t, rest: cython.bint) -> cython.Py_ssize_t:
        last: cython.Py_ssize_t = -1
        j: cython.Py_ssize_t
        at: cython.Py_ssize_t
        word: cython.longlong
        self.number(size - words.ones << 2 | 2 if rest else words.ones << 2)
        for j in range(words.width):
            word = words.word[j] ^ word_below(size, j) if rest else words.word[j]
            while word:
                at = 56 * j + lowest(word)
                self.number(at - last - 1)
                last = at
                word &= word - 1
        return self.at


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def head_bytes(count: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Count the bytes of a length and a form of two bits."""
    return 1 if count < 32 else 2 if count < 4096 else 3


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def ones_in(word: cython.longlong) -> cython.Py_ssize_t:
    """Count the bits of a word: by pairs, by fours, by bytes, and then the bytes together."""
    word -= word >> 1 & PAIRS
    word = (word & FOURS) + (word >> 2 & FOURS)
    word = word + (word >> 4) & BYTES
    word += word >> 8
    word += word >> 16
    word += word >> 32
    return word & 127


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def lowest(word: cython.longlong) -> cython.Py_ssize_t:
    """Return the position of the lowest bit of a word that has one."""
    return ones_in((word & -word) - 1)


@cython.ccall
@cython.exceptval(-1, check=False)
def word_below(size: cython.Py_ssize_t, j: cython.Py_ssize_t) -> cython.longlong:
    """Return word j of the set of all positions below a size."""
    left: cython.Py_ssize_t = size - 56 * j
    return FULL if left >= 56 else (cython.cast(cython.longlong, 1) << left) - 1 if left > 0 else 0


@cython.ccall
@cython.exceptval(-1, check=False)
def width_of(size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return how many words a set over a roster takes."""
    return (size + 56 - 1) // 56 if size > 56 else 1


@cython.ccall
def words_of(mask: Any, width: cython.Py_ssize_t) -> Words:
    """Return the lowest words of a set."""
    j: cython.Py_ssize_t
    words: Words = Words(width)
    words.word[0] = mask if 0 <= mask <= FULL else mask & FULL
    for j in range(1, width):
        words.word[j] = mask >> 56 * j & FULL
    return words


@cython.ccall
@cython.exceptval(-1, check=False)
def set_bytes(size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return how many bytes a set takes at most: no more than its bits, and room to begin a last number."""
    return 20 + size // 8


def put_varint(out: bytearray, value: int) -> None:
    """Append a non-negative integer, 7 bits a byte, low bits first."""
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def put_varints(out: bytearray, values: Sequence[int]) -> None:
    """Append many non-negative integers of up to 63 bits."""
    writer: Writer = Writer(out, 9 * len(values))
    value: cython.longlong
    for value in values:
        writer.number(value)
    writer.close()


def put_pairs(out: bytearray, pairs: dict, size: cython.Py_ssize_t) -> None:
    """Append how many pairs of position and number there are, and the pairs by ascending position."""
    writer: Writer = Writer(out, 9 + 18 * len(pairs))
    raw: bytearray = room(size)
    by_position: cython.p_longlong = numbers_in(raw)
    position: cython.Py_ssize_t
    for position in range(size):  # cheaper than to sort the positions
        by_position[position] = -1
    for key, value in pairs.items():
        position = key
        if position < 0 or position >= size:
            raise IndexError(f"position {position} is outside {size} processes")
        by_position[position] = value
    writer.number(len(pairs))
    for position in range(size):
        if by_position[position] >= 0:
            writer.number(position)
            writer.number(by_position[position])
    writer.close()


def put_mask(out: bytearray, mask: Any, size: cython.Py_ssize_t) -> None:
    """Append a set of positions in its shortest form."""
    writer: Writer = Writer(out, set_bytes(size))
    writer.set(words_of(mask, width_of(size)), size)
    writer.close()


def put_message(
    out: bytearray, sender: cython.longlong, count: cython.longlong, mask: Any, size: cython.Py_ssize_t
) -> None:
    """Append which message a stamp belongs to: sender, count, destinations."""
    writer: Writer = Writer(out, 18 + set_bytes(size))
    writer.number(sender)
    writer.number(count)
    writer.set(words_of(mask, width_of(size)), size)
    writer.close()
