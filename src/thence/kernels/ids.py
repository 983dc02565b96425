"""Is any message sent twice in a run? A chunk cannot know, and its summary does not name every message it sends.

Law. Equal ids have equal hashes, so a message sent in two chunks is always noticed. Two ids with one hash are noticed
too, wrongly; the run is then judged whole, by the ids themselves. So hashes decide nothing but who has to look twice.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numba import njit

from thence.kernels.arrays import Hashes, Ints, Letters
from thence.kernels.interning import PRIME, SEED, buffers


@njit(cache=True, nogil=True)
def _hash(offsets: Ints, data: Letters) -> Hashes:
    hashes = np.empty(len(offsets) - 1, np.uint64)
    for row in range(len(offsets) - 1):
        h = SEED  # FNV-1a, then the finaliser of splitmix64
        for i in range(offsets[row], offsets[row + 1]):
            h = (h ^ np.uint64(data[i])) * PRIME
        h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashes[row] = h ^ (h >> np.uint64(31))
    return hashes


def hashes_of(names: pa.StringArray) -> Hashes:
    """Return a 64-bit hash of each name; none is null."""
    found: Hashes = _hash(*buffers(names)) if len(names) else np.zeros(0, np.uint64)
    return found


def buckets(hashes: Hashes, count: int) -> list[bytes]:
    """Part hashes into `count` buckets by their leading bits."""
    ordered = np.sort(hashes)
    ends = np.searchsorted(ordered, [np.uint64((b << 64) // count) for b in range(1, count)])
    return [chunk.tobytes() for chunk in np.split(ordered, ends)]


def repeated(parts: Iterable[bytes]) -> bool:
    """Tell whether a hash stands twice in the parts of one bucket."""
    whole = np.sort(np.concatenate([np.zeros(0, np.uint64), *(np.frombuffer(p, np.uint64) for p in parts)]))
    return bool(np.any(whole[1:] == whole[:-1]))
