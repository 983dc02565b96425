"""Integers and sets of positions out of the bytes of a stamp, by arrays.

Law. What is read equals what `thence.model.codec` reads of the same bytes, in its strictness (integers and sets in
their shortest form); whatever it refuses, and numbers of 2**48 and more, end at -1.
"""

from __future__ import annotations

import numpy as np

from thence.kernels.arrays import Hashes, Letters, Number
from thence.kernels.compiling import part

SMALL = 14
"""Up to this size a set is its mask; as in `thence.model.codec`."""
LARGE = 1 << 48


@part
def varint(data: Letters, at: int, end: int) -> tuple[int, int]:
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


@part
def _ones(word: np.uint64) -> np.int64:
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@part
def _length(word: np.uint64) -> int:
    length, step = 0, 32
    while step:
        if word >> np.uint64(step):
            word >>= np.uint64(step)
            length += step
        step >>= 1
    return length + (1 if word else 0)


@part
def _cost(count: Number) -> Number:
    return count + (1 if count < 32 else 2)


@part
def _form(ones: Number, bits: Number, size: int) -> int:
    """Return the form in which a set is shortest: its members, its mask, or the members it lacks."""
    ids, dense, rest = _cost(ones), _cost((bits + 7) // 8), _cost(size - ones)
    return 0 if ids <= dense and ids <= rest else 1 if dense <= rest else 2


@part
def read_set(data: Letters, at: int, end: int, size: int, words: Hashes) -> int:
    """Read a set of positions into two words; return where it ends, or -1."""
    words[0] = 0
    words[1] = 0
    head, at = varint(data, at, end)
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
            step, at = varint(data, at, end)
            if at < 0:
                return -1
            last += step + 1
            if last >= size:
                return -1
            words[last >> 6] |= np.uint64(1) << np.uint64(last & 63)
        if form == 0:
            return at if _form(length, last + 1, size) == 0 else -1
    full = ~np.uint64(0)
    low = full if size >= 64 else (np.uint64(1) << np.uint64(size)) - np.uint64(1)
    high = full if size >= 128 else (np.uint64(1) << np.uint64(max(size - 64, 0))) - np.uint64(1)
    if form == 2:
        words[0] ^= low
        words[1] ^= high
    if words[0] & ~low or words[1] & ~high:
        return -1
    bits = 64 + _length(words[1]) if words[1] else _length(words[0])
    return at if _form(_ones(words[0]) + _ones(words[1]), bits, size) == form else -1


@part
def has(words: Hashes, position: int) -> bool:
    """Tell whether a position is in a set."""
    return bool((words[position >> 6] >> np.uint64(position & 63)) & np.uint64(1))
