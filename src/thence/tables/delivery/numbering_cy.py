# cython: boundscheck=False, wraparound=False, initializedcheck=False
# boundscheck: offsets are Arrow's and lie within its data; places in the table are cut to its length, a power of two.
# wraparound: no index is negative.
# initializedcheck: every array is set before it is read.
# mypy: ignore-errors
# C types are annotations that mypy does not know.
"""The distinct values of an Arrow column of texts or whole numbers, numbered in the order in which they come first.

A hash table with open addressing over Arrow's own buffers: no value becomes an object. Values are hashed a block at a
time and their places in the table read ahead, since most of the time goes into waiting for memory.

The hash depends on two secret numbers of the process, since chosen ids that all have one hash would make every one of
them walk past all before it. The numbers that values get do not depend on the hash.
"""

from __future__ import annotations

import os
from array import array

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

from thence.tables.delivery.reading_cy import nested

HASHED_AHEAD = cython.declare(cython.int, 64)
"""Values whose places in the table are read ahead."""
HALF_BITS = cython.declare(cython.ulonglong, (1 << 32) - 1)
ALL_BITS = cython.declare(cython.ulonglong, (1 << 64) - 1)
LAST_FACTOR = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio."""
SECRETS = (int.from_bytes(os.urandom(8)), int.from_bytes(os.urandom(8)) | 1)
"""Where a hash begins, and its factor."""


@cython.final
@cython.cclass
class Numbering:
    """The bytes of value v are `byte[offset[v]:offset[v + 1]]`; `first[n]` is the place of the first value numbered n.

    `slots` is the table: 0, or one more than a number.
    """

    offset: cython.const[cython.longlong][::1]
    byte: cython.const[cython.uchar][::1]
    there: cython.const[cython.uchar][::1]
    slots: cython.int[::1]
    first: cython.int[::1]
    hashes: cython.ulonglong[::1]
    count: cython.int
    mask: cython.ulonglong
    secret: cython.ulonglong
    factor: cython.ulonglong

    def __init__(self, offsets: object, data: object, valid: object, slots: object, first: object) -> None:
        """Take buffers. `valid`: whether each value is there, empty if all are.

        `slots`: zeros, a power of two and more than there are values; `first` has room for all values.
        """
        self.offset, self.byte, self.there = memoryview(offsets), memoryview(data), memoryview(valid)
        self.slots, self.first = memoryview(slots), memoryview(first)
        self.hashes = memoryview(array("Q", bytes(8 * HASHED_AHEAD)))
        self.mask, self.count = len(self.slots) - 1, 0
        self.secret, self.factor = SECRETS

    def codes(self, into: object) -> int:
        """Write the number of each value, -1 where there is none; return how many numbers there are."""
        code: cython.int[::1] = memoryview(into)
        value: cython.Py_ssize_t
        begin: cython.Py_ssize_t
        end: cython.Py_ssize_t
        ahead: cython.int = 0
        for begin in range(0, len(code), HASHED_AHEAD):
            end = min(begin + HASHED_AHEAD, len(code))
            for value in range(begin, end):
                self.hashes[value - begin] = self._hash(self.offset[value], self.offset[value + 1]) & self.mask
            for value in range(begin, end):
                ahead |= self.slots[self.hashes[value - begin]]
            for value in range(begin, end):
                there: cython.bint = len(self.there) == 0 or self.there[value]
                code[value] = self._number(value, self.hashes[value - begin]) if there else -1
        return self.count if ahead >= 0 else 0  # `ahead` has a use, so that the compiler leaves its loop in

    @cython.cfunc
    @cython.exceptval(check=False)
    def _number(self, value: cython.Py_ssize_t, slot: cython.ulonglong) -> cython.int:
        """Return the number of a value, a new one if it is the first of its kind."""
        while self.slots[slot]:
            if self._same(self.first[self.slots[slot] - 1], value):
                return self.slots[slot] - 1
            slot = (slot + 1) & self.mask
        self.first[self.count] = value
        self.count += 1
        self.slots[slot] = self.count
        return self.count - 1

    @cython.cfunc
    @cython.exceptval(check=False)
    def _same(self, one: cython.Py_ssize_t, other: cython.Py_ssize_t) -> cython.bint:
        at: cython.longlong = self.offset[one]
        end: cython.longlong = self.offset[one + 1]
        apart: cython.longlong = self.offset[other] - at
        if end + apart != self.offset[other + 1]:
            return False
        while at < end:
            if self.byte[at] != self.byte[at + apart]:
                return False
            at += 1
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    def _hash(self, at: cython.longlong, end: cython.longlong) -> cython.ulonglong:
        """Return 64 bits of a value, eight of its bytes at a time."""
        found: cython.ulonglong = self.secret ^ (end - at)
        word: cython.ulonglong
        last: cython.longlong
        while at < end:
            word, last = 0, min(at + 8, end)
            while at < last:
                word = (word << 8) | self.byte[at]
                at += 1
            found = _folded(found ^ word, self.factor)
        # After one product, ids that differ in one place are a fixed distance apart: with some factors, in few slots.
        return _folded(found, LAST_FACTOR)

    def hashed(self, value: cython.Py_ssize_t) -> int:
        """Return the hash of a value: for tests."""
        return self._hash(self.offset[value], self.offset[value + 1])


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _folded(one: cython.ulonglong, other: cython.ulonglong) -> cython.ulonglong:
    """Return the upper half of a product xor its lower half: every bit of a word counts in every bit of the hash.

    With the lower half alone, ids that differ in their first bytes only would have hashes that end alike.
    """
    low: cython.ulonglong = (one & HALF_BITS) * (other & HALF_BITS)
    left: cython.ulonglong = (one >> 32) * (other & HALF_BITS) + (low >> 32)
    right: cython.ulonglong = (one & HALF_BITS) * (other >> 32) + (left & HALF_BITS)
    high: cython.ulonglong = (one >> 32) * (other >> 32) + (left >> 32) + (right >> 32)
    return high ^ (((right << 32) | (low & HALF_BITS)) & ALL_BITS)


def id_flags(offsets: object, data: object, first: object) -> array | None:
    """Return of each number whether its text is an id (0), empty (1), or an array or object of JSON (2).

    The text of number n is the value at place `first[n]`. None if all are ids.
    """
    number: cython.Py_ssize_t
    begin: cython.longlong
    end: cython.longlong
    offset: cython.const[cython.longlong][::1] = memoryview(offsets)
    byte: cython.const[cython.uchar][::1] = memoryview(data)
    place: cython.const[cython.int][::1] = memoryview(first)
    found: array = None
    for number in range(len(place)):
        begin, end = offset[place[number]], offset[place[number] + 1]
        if begin < end and byte[begin] != 91 and byte[begin] != 123:  # neither [ nor {
            continue
        text = bytes(byte[begin:end]).decode()
        flag = (2 if nested(text) is not None else 0) if text else 1
        if flag and found is None:
            found = array("b", bytes(len(place)))
        if flag:
            found[number] = flag
    return found
