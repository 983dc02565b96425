# cython: wraparound=False, initializedcheck=False, cdivision=True
# wraparound: no index is negative. Bounds checks stay on: these are bytes of other processes. Words and positions are
# plain memory: every position lies between two that were compared with the roster's size before.
# boundscheck: off in `_length` and `zeros_below`, where what is looked up is a byte.
# initializedcheck: no view is used before it is set.
# cdivision: no dividend is negative, and divisors are constants.
# mypy: disable-error-code="attr-defined,name-defined,valid-type,misc,no-redef,type-arg,no-any-return,index,has-type"
"""Numbers and sets in bits, lowest bit of each byte first: exponential Golomb codes and binary interpolative coding.

Invariant. Every value has one code and no code is the beginning of another. A number of some width is its part above
the width in Elias's gamma code, then the rest. One of m values takes the floor or the ceiling of log2(m) bits. A set of
known size is its middle position, then both halves in the same way: a full range takes no bits at all.
"""

from __future__ import annotations

from thence.errors import PeerError

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

if cython.compiled:
    from cython.cimports.cpython.bytearray import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        PyByteArray_AsString,
        PyByteArray_Resize,
    )
    from cython.cimports.thence.core.wire.reader_cy import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        Reader,
    )
    from cython.cimports.thence.core.wire.words_cy import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        Words,
    )
else:
    from thence.core.wire.reader_cy import Reader
    from thence.core.wire.words_cy import Words

LARGEST = cython.declare(cython.ulonglong, (1 << 63) - 1)
SHORT = cython.declare(cython.int, 48)
"""bits that are written or read in one step"""
LENGTHS = cython.declare(bytes, bytes([value.bit_length() for value in range(256)]))
"""the number of bits of each byte"""
ZEROS = cython.declare(bytes, bytes([8, *((value & -value).bit_length() - 1 for value in range(1, 256))]))
"""the number of zeros at the lower end of each byte"""


@cython.cfunc
@cython.exceptval(check=False)
def length_of(value: cython.ulonglong) -> cython.int:
    """Return the number of bits of a value; 0 has none."""
    return _length(value)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.boundscheck(False)
def _length(value: cython.ulonglong) -> cython.int:
    """Return the same; a copy for this module, where the compiler can inline it."""
    found: cython.int = 0
    while value > 255:
        value >>= 8
        found += 8
    return found + LENGTHS[value]


@cython.cfunc
@cython.exceptval(check=False)
@cython.boundscheck(False)
def zeros_below(value: cython.ulonglong) -> cython.int:
    """Return the number of zeros below the lowest one of a value that has one."""
    found: cython.int = 0
    while not value & 255:
        value >>= 8
        found += 8
    return found + ZEROS[value & 255]


@cython.final
@cython.cclass
class BitWriter:
    """Bits at the end of bytes; until `close`, more bytes stand there than are written."""

    def __init__(self, out: bytearray, most: cython.Py_ssize_t) -> None:
        """Make room for some bytes; more is made when it is needed."""
        self.out = out
        self.at = self.end = len(out)
        self.kept = 0  # the last bits, which are not among the bytes yet
        self.fill = 0
        self.grow(most)

    @cython.cfunc
    def grow(self, more: cython.Py_ssize_t) -> object:
        """Make the output longer by this many bytes."""
        self.end += more
        if cython.compiled:
            PyByteArray_Resize(self.out, self.end)
            self.data = cython.cast(cython.p_uchar, PyByteArray_AsString(self.out))
        else:
            self.out.extend(bytes(more))
            self.data = self.out
        return None

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def put(self, value: cython.ulonglong, bits: cython.int) -> cython.int:
        """Write the lowest bits of a value, at most 56 of them."""
        if self.fill + bits > 63:
            _flush(self)
        self.kept |= value << self.fill
        self.fill += bits
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def number(self, value: cython.ulonglong, width: cython.int) -> cython.int:
        """Write a number of at most 63 bits as an exponential Golomb code."""
        high: cython.ulonglong = (value >> width) + 1
        length: cython.int = _length(high) - 1
        rest: cython.ulonglong = high - (cython.cast(cython.ulonglong, 1) << length)
        low: cython.ulonglong = value & ((cython.cast(cython.ulonglong, 1) << width) - 1)
        if 2 * length + 1 + width <= SHORT:
            return self.put(((low << length | rest) << 1 | 1) << length, 2 * length + 1 + width)
        self.put(0, length // 2)
        self.put(0, length - length // 2)
        self.put(1, 1)
        self.wide(rest, length)
        return self.wide(low, width)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def wide(self, value: cython.ulonglong, bits: cython.int) -> cython.int:
        """Write up to 63 bits, the low 32 first; `put` takes 56 at most."""
        if bits > 32:
            self.put(value & 0xFFFFFFFF, 32)
            value >>= 32
            bits -= 32
        return self.put(value, bits)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def one_of(self, value: cython.ulonglong, count: cython.ulonglong) -> cython.int:
        """Write one of `count` values in the floor or the ceiling of log2(count) bits."""
        low: cython.int = _length(count) - 1
        short: cython.ulonglong = (cython.cast(cython.ulonglong, 2) << low) - count
        longer: cython.int = value >= short  # arithmetic, not a branch: the machine cannot guess which it will be
        value += short * longer
        return self.put(value >> longer | (value & longer) << low, low + longer)  # upper bits first: a reader sees it

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def middle(
        self,
        positions: cython.p_longlong,
        first: cython.Py_ssize_t,
        count: cython.Py_ssize_t,
        low: cython.longlong,
        high: cython.longlong,
    ) -> cython.int:
        """Write that many positions, which lie from `low` to `high`: the middle one, and what is on either side."""
        half: cython.Py_ssize_t
        at: cython.longlong
        while count > 1:
            if high - low + 1 == count:
                return 0
            half = count // 2
            at = positions[first + half]
            self.one_of(at - low - half, high - low - count + 2)
            self.middle(positions, first, half, low, at - 1)
            first += half + 1
            count -= half + 1
            low = at + 1
        if count:  # a last position takes no turn of the loop
            self.one_of(positions[first] - low, high - low + 1)
        return 0

    @cython.cfunc
    def close(self) -> object:
        """Fill the last byte with zeros and cut the output to its length."""
        self.put(0, -self.fill & 7)
        self.put(0, 56)  # makes the whole bytes before it leave
        if cython.compiled:
            PyByteArray_Resize(self.out, self.at)
        else:
            del self.out[self.at :]
        return None


@cython.cfunc
@cython.exceptval(-1, check=False)
def _flush(to: BitWriter) -> cython.int:
    """Write the whole bytes among the last bits."""
    if to.at + 8 > to.end:
        to.grow(64 + to.end // 2)
    while to.fill >= 8:
        to.data[to.at] = to.kept & 255
        to.at += 1
        to.kept >>= 8
        to.fill -= 8
    return 0


@cython.final
@cython.cclass
class BitReader:
    """The bits of a reader's bytes, from where it stands."""

    def __init__(self, reader: Reader) -> None:
        """Start at the next byte."""
        self.reader = reader
        self.kept = 0
        self.fill = 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def need(self, bits: cython.int) -> cython.int:
        """Take bytes, so that at least that many bits are there, at most 49."""
        reader: Reader = self.reader
        at: cython.Py_ssize_t = reader.at
        kept: cython.ulonglong = self.kept
        fill: cython.int = self.fill
        while fill <= SHORT and at < reader.end:
            kept |= cython.cast(cython.ulonglong, reader.data[at]) << fill
            at += 1
            fill += 8
        reader.at = at
        self.kept = kept
        self.fill = fill
        if fill < bits:
            raise PeerError(f"a dependency log ends within its bits, at byte {at}")
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def get(self, bits: cython.int) -> cython.ulonglong:
        """Read that many bits, at most 49."""
        if self.fill < bits:
            self.need(bits)
        found: cython.ulonglong = self.kept & ((cython.cast(cython.ulonglong, 1) << bits) - 1)
        self.kept >>= bits
        self.fill -= bits
        return found

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def wide(self, bits: cython.int) -> cython.ulonglong:
        """Read up to 63 bits, as `BitWriter.wide` wrote them."""
        if bits <= 32:
            return self.get(bits)
        low: cython.ulonglong = self.get(32)
        return low | self.get(bits - 32) << 32

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def number(self, width: cython.int) -> cython.longlong:
        """Read an exponential Golomb code of at most 63 bits."""
        zeros: cython.int = 0
        if self.fill < SHORT:
            self.need(1)
        while not self.kept:  # bits that are not there are zeros
            zeros += self.fill
            self.fill = 0
            self.need(1)
        length: cython.int = zeros_below(self.kept)
        zeros += length
        self.kept >>= length
        self.kept >>= 1
        self.fill -= length + 1
        if zeros > 63:
            raise PeerError(f"a number before byte {self.reader.at} has more than 63 bits")
        high: cython.ulonglong = (cython.cast(cython.ulonglong, 1) << zeros | self.wide(zeros)) - 1
        if high > LARGEST >> width:
            raise PeerError(f"a number before byte {self.reader.at} has more than 63 bits")
        return high << width | self.wide(width)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def one_of(self, count: cython.ulonglong) -> cython.longlong:
        """Read one of `count` values; every code of that length is one of them."""
        low: cython.int = _length(count) - 1
        short: cython.ulonglong = (cython.cast(cython.ulonglong, 2) << low) - count
        if self.fill <= low:
            self.need(low)
        value: cython.ulonglong = self.kept & ((cython.cast(cython.ulonglong, 1) << low) - 1)
        longer: cython.int = value >= short  # arithmetic, not a branch: the machine cannot guess which it will be
        if self.fill < low + longer:
            self.need(low + longer)
        value = (value << longer | (self.kept >> low & longer)) - short * longer
        self.kept >>= low + longer
        self.fill -= low + longer
        return value

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def middle(self, words: Words, count: cython.longlong, low: cython.longlong, high: cython.longlong) -> cython.int:
        """Read that many positions from `low` to `high` into a set."""
        half: cython.longlong
        i: cython.longlong
        at: cython.ulonglong  # without a sign, it is divided in fewer steps
        while count > 1:
            if high - low + 1 == count:
                for i in range(low, high + 1):
                    words.word[i // 56] |= cython.cast(cython.longlong, 1) << i % 56
                return 0
            half = count // 2
            at = low + half + self.one_of(high - low - count + 2)
            words.word[at // 56] |= cython.cast(cython.longlong, 1) << at % 56
            self.middle(words, half, low, at - 1)
            count -= half + 1
            low = at + 1
        if count:
            at = low + self.one_of(high - low + 1)
            words.word[at // 56] |= cython.cast(cython.longlong, 1) << at % 56
        return 0

    @cython.cfunc
    def close(self) -> object:
        """Return to the first unused byte; the unused bits of the last byte must be zeros."""
        self.reader.at -= self.fill // 8
        if self.kept & ((cython.cast(cython.ulonglong, 1) << self.fill % 8) - 1):
            raise PeerError(f"bits follow the dependency log before byte {self.reader.at}")
        return None
