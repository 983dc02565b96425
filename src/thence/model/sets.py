"""Sets of processes as bytes.

Law. A set over a small roster is its mask; over a larger one the shortest of sorted ids, bit set and sorted ids of the
complement, and of equals the first. A set that is read must have that form, so it has one only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from thence.errors import PeerError
from thence.model.roster import positions
from thence.model.varint import Reader, put_varint

Rename = Sequence[int] | None
"""New position of each old one, or None for no renaming."""
SMALL_ROSTER = 14
"""up to this size a set is its mask"""
ONE_BYTE_ROSTER = 128
"""up to this size a difference of ids takes one byte, so the first byte of a set says how long it is"""
_KEPT = 1 << 14
_known: dict[int, dict[bytes, int]] = {}
"""sets that were read and found to be in their shortest form, by size of the roster: results, no state"""


@lru_cache(maxsize=1 << 16)
def mask_bytes(mask: int, size: int) -> bytes:
    """Return a set of positions in its shortest form."""
    out = bytearray()
    if size <= SMALL_ROSTER:
        put_varint(out, mask)
        return bytes(out)
    form = _shortest(mask, size)
    if form == 1:
        length = (mask.bit_length() + 7) // 8
        put_varint(out, length << 2 | 1)
        return bytes(out) + mask.to_bytes(length, "little")
    ids = mask if form == 0 else mask ^ (1 << size) - 1
    put_varint(out, ids.bit_count() << 2 | form)
    last = -1
    for position in positions(ids):
        put_varint(out, position - last - 1)
        last = position
    return bytes(out)


def _shortest(mask: int, size: int) -> int:
    """Choose among 0 ids, 1 bit set, 2 ids of the complement: the shortest, and of equals the first."""
    counts = mask.bit_count(), (mask.bit_length() + 7) // 8, size - mask.bit_count()
    lengths = [count + (1 if count < 32 else 2 if count < 4096 else 3) for count in counts]
    if size > ONE_BYTE_ROSTER:  # what is longer than the bit set already need not be known exactly
        if lengths[0] <= lengths[1]:
            lengths[0] += _wide(mask)
        if lengths[2] <= lengths[1]:
            lengths[2] += _wide(mask ^ (1 << size) - 1)
    return lengths.index(min(lengths))


def _wide(mask: int) -> int:
    """Count the bytes that differences of 128 and more take beyond one each."""
    more, last = 0, -1
    for position in positions(mask):
        gap = position - last - 1
        while gap > 127:
            gap >>= 7
            more += 1
        last = position
    return more


def known_masks(size: int) -> dict[bytes, int]:
    """Return the sets over a roster of 15 to 128 processes that were read before, by their bytes."""
    known = _known.get(size)
    if known is None:
        known = _known[size] = {}
    return known


def read_set(data: bytes, at: int, size: int) -> int:
    """Return the set that starts at a byte, over 15 to 128 processes; -1 if there is none.

    Its first byte says how long it is and its form. Of ids, bits and ids of the complement the form must be the
    shortest, and none of the others of equal length may stand before it. Bits are sooner read than looked up; ids are
    remembered.
    """
    head = data[at]
    length = head >> 2
    if head & 3 != 1:
        run = data[at : at + 1 + length]
        mask = known_masks(size).get(run, -1)
        return mask if mask >= 0 else _read_ids(run, size)
    mask = int.from_bytes(data[at + 1 : at + 1 + length], "little")
    count = mask.bit_count()
    if length < count and length <= size - count and mask >> 8 * length - 8 and not mask >> size:
        return mask
    return -1


def _read_ids(run: bytes, size: int) -> int:
    """Return the set of the ids in a run, or the complement of that set, and remember it; -1 if there is none."""
    form, length = run[0] & 3, len(run) - 1
    if length != run[0] >> 2 or form == 3:
        return -1
    mask, last = _ids(run[1:], size)
    mask ^= (1 << size) - 1 if form else 0
    wide = (mask.bit_length() + 7) // 8
    shortest = length <= wide and 2 * length <= size if form == 0 else length < wide and 2 * length < size
    if last >= size or not shortest:
        return -1
    return _kept(known_masks(size), run, mask)


def _kept(known: dict[bytes, int], run: bytes, mask: int) -> int:
    if len(known) >= _KEPT:
        known.clear()
    known[run] = mask
    return mask


def read_mask(reader: Reader) -> int:
    """Read a set of positions and insist on its shortest form."""
    if reader.size <= SMALL_ROSTER:
        mask = reader.varint()
        if mask >> reader.size:
            raise PeerError(f"the set before byte {reader.at} reaches outside a roster of {reader.size}")
        return mask
    return read_masks(reader, 1)[0]


def read_masks(reader: Reader, count: int) -> list[int]:
    """Read that many sets.

    Over 15 to 128 processes a set is as long as its first byte says, so what was read before takes one look-up.
    """
    size = reader.size
    if size <= SMALL_ROSTER:
        masks = reader.numbers(count)
        if masks and max(masks) >> size:
            raise PeerError(f"a set before byte {reader.at} reaches outside a roster of {size}")
        return masks
    if size > ONE_BYTE_ROSTER:
        return [_read(reader) for _ in range(count)]
    data, known, masks = reader.data, known_masks(size), []
    at, end = reader.at, reader.end
    for _ in range(count):
        stop = at + 1 + (data[at] >> 2) if at < end else at
        mask = known.get(data[at:stop])
        if mask is None:
            reader.at = at
            mask = _read(reader)
            stop = reader.at
            _kept(known, data[at:stop], mask)
        at = stop
        masks.append(mask)
    reader.at = at
    return masks


def _read(reader: Reader) -> int:
    size, start = reader.size, reader.at
    head = reader.varint()
    form, length = head & 3, head >> 2
    if form == 3 or length > size:
        raise PeerError(f"no set of positions starts with {head} at byte {start}")
    if form == 1:
        data = reader.take(length)
        if not data or data[-1] == 0:
            raise PeerError(f"the bit set before byte {reader.at} ends in nothing")
        mask = int.from_bytes(data, "little")
    else:
        mask, last = _ids(reader.numbers(length), size)
        if last >= size:
            raise PeerError(f"position {last} before byte {reader.at} is outside a roster of {size}")
        if form == 2:
            mask ^= (1 << size) - 1
    if mask >> size:
        raise PeerError(f"the set before byte {reader.at} reaches outside a roster of {size}")
    if form != _shortest(mask, size):
        raise PeerError(f"the set before byte {reader.at} is not in its shortest form")
    return mask


def _ids(gaps: Iterable[int], size: int) -> tuple[int, int]:
    """Return the set of the ids with these gaps, and the last id."""
    mask, last = 0, -1
    for gap in gaps:
        last += gap + 1
        if last >= size:
            break
        mask |= 1 << last
    return mask, last


def rename_mask(mask: int, rename: Rename) -> int:
    """Move the bits of a mask."""
    if rename is None:
        return mask
    moved = 0
    for position in positions(mask):
        moved |= 1 << rename[position]
    return moved
