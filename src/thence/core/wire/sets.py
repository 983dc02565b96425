"""Sets of processes as masks: their bytes, and their form after positions are renamed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from thence.core.model.roster import positions
from thence.core.wire.words_cy import put_mask

Rename = Sequence[int] | None
"""New position of each old one, or None for no renaming."""


@lru_cache(maxsize=1 << 12)
def mask_bytes(mask: int, size: int) -> bytes:
    """Return a set of positions in its shortest form."""
    out = bytearray()
    put_mask(out, mask, size)
    return bytes(out)


def rename_mask(mask: int, rename: Rename) -> int:
    """Move the bits of a mask."""
    if rename is None:
        return mask
    moved = 0
    for position in positions(mask):
        moved |= 1 << rename[position]
    return moved
