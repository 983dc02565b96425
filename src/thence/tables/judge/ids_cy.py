"""The loop that hashes names; see `ids`."""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython


def hash_names(
    offsets: cython.const[cython.int][::1], data: cython.const[cython.uchar][::1], hashes: cython.ulonglong[::1]
) -> None:
    """Hash each span of bytes: FNV-1a, then the finaliser of splitmix64."""
    row: cython.Py_ssize_t
    i: cython.int
    h: cython.ulonglong
    seed: cython.ulonglong = 0xCBF29CE484222325
    prime: cython.ulonglong = 0x100000001B3
    one: cython.ulonglong = 0xBF58476D1CE4E5B9
    two: cython.ulonglong = 0x94D049BB133111EB
    word: cython.ulonglong = 0xFFFFFFFFFFFFFFFF  # C wraps by itself; Python's numbers are cut to 64 bits
    with cython.nogil:
        for row in range(offsets.shape[0] - 1):
            h = seed
            for i in range(offsets[row], offsets[row + 1]):
                h = (h ^ data[i]) * prime & word
            h = (h ^ (h >> 30)) * one & word
            h = (h ^ (h >> 27)) * two & word
            hashes[row] = h ^ (h >> 31)
