# cython: boundscheck=False, wraparound=False, initializedcheck=False
# boundscheck: places are below the lengths that are asked for.
# wraparound: no index is negative.
# initializedcheck: every array is set when its object is made.
# mypy: ignore-errors
# C types are in room_cy.pxd, where mypy does not see them.
"""Room for the small arrays of many keys, as parts of shared blocks.

An array of its own costs a microsecond, and a key that holds one row needs twenty of them: with few rows to a key that
was most of what a key cost. A block lives as long as an array that is part of it, so blocks are small.

*Invariant.* No two arrays share an entry. The arrays of a room grow in one thread at a time.
"""

from __future__ import annotations

from array import array

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

LEAST = cython.declare(cython.Py_ssize_t, 512)
"""Entries of a block; a longer array is a block by itself."""


def zeros(code: str, count: int) -> array:
    """Return numbers of one type that are all 0, without a copy: new pages of memory cost more than what is in them."""
    return array(code, (0,)) * count


@cython.auto_pickle(False)
@cython.final
@cython.cclass
class Room:
    """Blocks of whole numbers, numbers and characters, and how much of the last one of each is taken."""

    def __init__(self) -> None:
        """Begin without a block."""
        self.longs, self.ints, self.doubles, self.chars = array("q"), array("i"), array("d"), array("b")
        self.cycles = None  # the search for cycles, which the keys take turns in
        self.longs_taken = self.ints_taken = self.doubles_taken = self.chars_taken = 0

    @cython.cfunc
    def more_longs(self, old: cython.longlong[::1], length: cython.Py_ssize_t) -> cython.longlong[::1]:
        """Return numbers with room for more after them, which are 0."""
        at: cython.Py_ssize_t = self.longs_taken
        if at + length > len(self.longs):
            at, self.longs = 0, zeros("q", max(length, LEAST))
        self.longs_taken = at + length
        found: cython.longlong[::1] = self.longs[at : at + length]
        for at in range(len(old)):
            found[at] = old[at]
        return found

    @cython.cfunc
    def more_ints(self, old: cython.int[::1], length: cython.Py_ssize_t) -> cython.int[::1]:
        """Return numbers with room for more after them, which are 0."""
        at: cython.Py_ssize_t = self.ints_taken
        if at + length > len(self.ints):
            at, self.ints = 0, zeros("i", max(length, LEAST))
        self.ints_taken = at + length
        found: cython.int[::1] = self.ints[at : at + length]
        for at in range(len(old)):
            found[at] = old[at]
        return found

    @cython.cfunc
    def more_doubles(self, old: cython.double[::1], length: cython.Py_ssize_t) -> cython.double[::1]:
        """Return numbers with room for more after them, which are 0."""
        at: cython.Py_ssize_t = self.doubles_taken
        if at + length > len(self.doubles):
            at, self.doubles = 0, zeros("d", max(length, LEAST))
        self.doubles_taken = at + length
        found: cython.double[::1] = self.doubles[at : at + length]
        for at in range(len(old)):
            found[at] = old[at]
        return found

    @cython.cfunc
    def more_chars(self, old: cython.schar[::1], length: cython.Py_ssize_t) -> cython.schar[::1]:
        """Return numbers with room for more after them, which are 0."""
        at: cython.Py_ssize_t = self.chars_taken
        if at + length > len(self.chars):
            at, self.chars = 0, zeros("b", max(length, LEAST))
        self.chars_taken = at + length
        found: cython.schar[::1] = self.chars[at : at + length]
        for at in range(len(old)):
            found[at] = old[at]
        return found
