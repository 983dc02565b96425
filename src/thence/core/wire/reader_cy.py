# cython: wraparound=False, initializedcheck=False, cdivision=True
# wraparound: no index is negative. Bounds checks stay on: these are bytes of other processes. Words and counts are
# plain memory: a position is compared with the roster's size before it is an index, and `falling` makes room for them.
# initializedcheck: no view is used before it is set.
# cdivision: no dividend is negative, and divisors are constants.
# mypy: disable-error-code="valid-type,misc,no-redef,type-arg,no-any-return,assignment,index,unreachable"
"""The strict reader of bytes from outside.

Invariant. Integers and sets have the one form that `words_cy.py` states, and integers at most 63 bits. Whatever else
stands where one is expected raises `PeerError` with the place, and no announced length goes beyond the bytes that are
left.
"""

from __future__ import annotations

from typing import Any

from thence.errors import PeerError

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

if cython.compiled:
    from cython.cimports.thence.core.wire.words_cy import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        Words,
        numbers_in,
        room,
        width_of,
        word_below,
    )
else:
    from thence.core.wire.words_cy import Words, numbers_in, room, width_of, word_below

MAX_BYTES = 1 << 24


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
        self.place = 0
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
        """Return the next `count` bytes."""
        if count > self.end - self.at:
            raise PeerError(f"ends after {self.end} bytes, {count} more expected at {self.at}")
        self.at += count
        return bytes(self.raw[self.at - count : self.at])

    @cython.ccall
    @cython.exceptval(-1, check=False)
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
        """Return the next `count` integers."""
        i: cython.Py_ssize_t
        at: cython.Py_ssize_t
        if count > self.end - self.at:
            raise PeerError(f"{count} integers expected at byte {self.at}, {self.end - self.at} bytes are left")
        found: list = [0] * count
        for i in range(count):
            at = self.at
            if at < self.end and self.data[at] < 128:  # of one byte, as most of matrices and vectors
                found[i] = self.data[at]
                self.at = at + 1
            else:
                found[i] = self.varint()
        return found

    @cython.ccall
    def packed(self) -> tuple:
        """Take a number for each position, all in as many bits as the largest needs; that width stands in front.

        They stand one behind the other as one integer, its first byte first, so the bits that are over come first.
        """
        _i: cython.Py_ssize_t
        left: cython.int
        need: cython.int
        taken: cython.int
        value: cython.longlong
        largest: cython.longlong = 0
        width: cython.int = self.data[self.at] if self.at < self.end else 0
        total: cython.Py_ssize_t = (self.size * width + 7) // 8
        at: cython.Py_ssize_t = self.at + 1
        found: list = []
        if 1 + total > self.end - self.at:
            raise PeerError(f"ends after {self.end} bytes, {1 + total} more expected at {self.at}")
        if width > 63:
            raise PeerError(f"a row of {width}-bit numbers; at most 63 bits are accepted")
        self.at = at + total
        left = 8 - (8 * total - self.size * width)
        if left < 8 and self.data[at] >> left:
            raise PeerError(f"a row of {width}-bit numbers before byte {self.at} is not in its shortest form")
        for _i in range(self.size):
            value = 0
            need = width
            while need:
                if left == 0:
                    at += 1
                    left = 8
                taken = need if need < left else left
                left -= taken
                need -= taken
                value = value << taken | (self.data[at] >> left & (1 << taken) - 1)
            largest |= value
            found.append(value)
        if width and not largest >> (width - 1):
            raise PeerError(f"a row of {width}-bit numbers before byte {self.at} is not in its shortest form")
        return tuple(found)

    @cython.ccall
    @cython.exceptval(-1, check=False)
    def flag(self) -> cython.bint:
        """Take a byte that is 0 or 1."""
        value: cython.longlong = self.varint()
        if value > 1:
            raise PeerError(f"{value} before byte {self.at} is neither 0 nor 1")
        return value == 1

    @cython.ccall
    @cython.exceptval(-1, check=False)
    def length(self) -> cython.longlong:
        """Read a count of items of at least one byte each; it cannot exceed the bytes left."""
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
        if self.place < length:
            self.place = length
            self.raw_counts = room(length)
            self.counts = numbers_in(self.raw_counts)
        for i in range(length - 1, -1, -1):
            if count < 1:
                raise PeerError(f"counts before byte {self.at} fall below one")
            self.counts[i] = count
            if i:
                gap = self.varint()
                count = count - gap - 1 if gap < count else 0
        return None

    def position(self, last: cython.longlong) -> cython.longlong:
        """Take a position of the roster that comes after `last`."""
        return _position(self, last)

    @cython.ccall
    def pairs(self) -> dict:
        """Take numbers by position, which ascend."""
        found: dict = {}
        last: cython.longlong = -1
        _i: cython.longlong
        for _i in range(self.length()):
            last = _position(self, last)
            found[last] = self.varint()
        return found

    def vectors(self) -> dict:
        """Take a number for each position, as a tuple, for each of some positions, which ascend."""
        found: dict = {}
        last: cython.longlong = -1
        _i: cython.longlong
        for _i in range(self.length()):
            last = _position(self, last)
            found[last] = tuple(self.numbers(self.size))
        return found

    @cython.ccall
    def done(self) -> object:
        """Raise an error if bytes are left."""
        if self.at != self.end:
            raise PeerError(f"{self.end - self.at} bytes too many after byte {self.at}")
        return None

    @cython.ccall
    def mask(self) -> Any:
        """Take a set of positions in its shortest form."""
        return self.set().mask()

    @cython.ccall
    def masks(self, count: cython.Py_ssize_t) -> list:
        """Return the next `count` sets as integers."""
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
            raise PeerError(f"the message before byte {self.at} is addressed to no process; at least one is expected")
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
@cython.exceptval(-1, check=False)
def _position(reader: Reader, last: cython.longlong) -> cython.longlong:
    """Take a position after `last`: keys ascend, so that a set of them has one form."""
    position: cython.longlong = reader.varint()
    if position <= last or position >= reader.size:
        raise PeerError(f"position {position} at byte {reader.at} follows {last} of {reader.size}; they ascend")
    return position
