"""Numbers by position as bytes: the pairs of a stamp that says how far each process is known.

Law. What the two quick readers return is what the strict one returns; they leave every other form, and every wrong
one, to it.
"""

from __future__ import annotations

from functools import lru_cache

from thence.errors import PeerError
from thence.model.sets import ONE_BYTE_ROSTER
from thence.model.varint import Reader

MANY = 5
"""more pairs than these are sooner read at once, if each takes two bytes, than one by one"""


@lru_cache(maxsize=1 << 12)
def _ascend(places: bytes) -> bool:
    """Tell whether positions of one byte each ascend; the same few sets of them come again and again."""
    return list(places) == sorted(set(places))


def numbers_by_process(reader: Reader, length: int) -> dict[int, int]:
    """Read that many numbers by position, whatever their form, or say what is wrong with them."""
    run = reader.data[reader.at : reader.at + 2 * length]
    places = run[::2]
    if length < ONE_BYTE_ROSTER and len(run) == 2 * length and run.isascii() and _ascend(places):
        reader.at += 2 * length
        found = dict(zip(places, run[1::2], strict=True))
    else:
        pairs = reader.numbers(2 * length)
        found = dict(zip(pairs[::2], pairs[1::2], strict=True))
    positions = [*found]
    if len(positions) < length or positions != sorted(positions) or (positions and positions[-1] >= reader.size):
        raise PeerError(f"positions before byte {reader.at} do not ascend within a roster of {reader.size}")
    return found


def numbers_by_one(data: bytes, at: int, size: int, pairs: int) -> tuple[dict[int, int], int] | None:
    """Read that many numbers by position; None if their form is not the common one, or wrong."""
    found: dict[int, int] = {}
    last, end = -1, at + 2 * pairs
    run = data[at:end]
    if pairs > MANY and run.isascii() and len(run) == end - at:
        places = run[::2]
        return (dict(zip(places, run[1::2], strict=True)), end) if _ascend(places) and places[-1] < size else None
    try:
        for _ in range(pairs):
            place = data[at]
            number = data[at + 1]
            at += 2
            if number > 127:
                more = data[at]
                at += 1
                number = number & 127 | more << 7 if 0 < more < 128 else -1
            if not last < place < size or number < 0:
                return None
            found[place] = number
            last = place
    except IndexError:
        return None
    return found, at


def numbers_by_two(data: bytes, at: int, size: int, rows: int) -> tuple[dict[int, dict[int, int]], int] | None:
    """Read numbers by two positions; None if their form is not the common one, or wrong."""
    found: dict[int, dict[int, int]] = {}
    last = -1
    try:
        for _ in range(rows):
            position = data[at]
            pairs = data[at + 1]
            at += 2
            if not last < position < size or pairs > size:
                return None
            last = position
            if pairs > MANY:
                row = numbers_by_one(data, at, size, pairs)
                if row is None:
                    return None
                found[position], at = row
                continue
            found[position] = inner = {}
            before = -1
            for _ in range(pairs):
                place = data[at]
                number = data[at + 1]
                at += 2
                if number > 127:
                    more = data[at]
                    at += 1
                    number = number & 127 | more << 7 if 0 < more < 128 else -1
                if not before < place < size or number < 0:
                    return None
                inner[place] = number
                before = place
    except IndexError:
        return None
    return found, at
