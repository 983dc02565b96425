"""Sets of positions read by arrays are those that the codec reads, and what it refuses is refused."""

from __future__ import annotations

from random import Random

import numpy as np
from numba import njit

from thence.errors import PeerError
from thence.kernels.arrays import Hashes, Letters, fixed
from thence.kernels.stamp_bytes import read_set
from thence.model.sets import mask_bytes, read_mask
from thence.model.varint import Reader


def by_codec(data: bytes, size: int) -> tuple[int, int]:
    """Return the mask and where it ends; -1 where the codec refuses it."""
    reader = Reader(data, size)
    try:
        return read_mask(reader), reader.at
    except PeerError:
        return 0, -1


@njit
def read(data: Letters, size: int, words: Hashes) -> int:
    """Python cannot call a part of a loop by itself."""
    return read_set(data, 0, len(data), size, words)


def by_arrays(data: bytes, size: int) -> tuple[int, int]:
    words = np.zeros(2, np.uint64)
    end = int(read(fixed(np.frombuffer(data, np.uint8)), size, words))
    return (int(words[0]) | int(words[1]) << 64, end) if end >= 0 else (0, -1)


def some_set(random: Random, size: int) -> int:
    """Few members, or many, or all but a few."""
    few = sum({1 << random.randrange(size) for _ in range(random.randint(0, 6))})
    return random.choice([few, ((1 << size) - 1) ^ few, random.getrandbits(size)])


def test_sets_and_what_is_none() -> None:
    seed = 5
    print(f"seed {seed}")
    random, refused = Random(seed), 0
    for _ in range(20_000):
        size = random.choice([3, 14, 15, 40, 63, 64, 65, 127, 128])
        data = bytearray(mask_bytes(some_set(random, size), size))
        for _ in range(random.choice([0, 1, 2])):
            data[random.randrange(len(data))] = random.choice([random.randrange(256), random.randrange(12)])
        wanted = by_codec(bytes(data), size)
        assert by_arrays(bytes(data), size) == wanted, f"{bytes(data).hex()} under {size}"
        refused += wanted[1] < 0
    assert 2_000 < refused < 18_000
