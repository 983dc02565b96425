"""Dependency logs as bytes."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache

from thence.errors import PeerError
from thence.model.codec import Shape
from thence.model.sets import (
    ONE_BYTE_ROSTER,
    SMALL_ROSTER,
    Rename,
    known_masks,
    mask_bytes,
    read_mask,
    rename_mask,
)
from thence.model.varint import Reader, put_varint

Group = tuple[tuple[int, int], ...]
"""entries (count, destinations) of one sender by ascending count"""
Log = dict[int, Group]
_ONE_ID = b"\4" * 64
"""how so many sets of one process each begin, over 15 to 128 processes: one id is their shortest form"""


class Entries(Shape):
    """A dependency log by sender: {sender: ((count, destinations), ...)} with counts ascending.

    A group is written as the sender, the number of its entries with destinations and whether one without follows last
    (KS98 keeps the newest entry of each sender even when it is empty, and nothing else that is), the newest count, the
    differences down from it, and the sets. Groups are immutable, so equal groups are encoded once and remembered.
    """

    def write(self, value: Log, out: bytearray, size: int) -> None:
        """Write the groups by ascending sender."""
        put_varint(out, len(value))
        for sender in sorted(value):
            out += _group_bytes(sender, value[sender], size)

    def read(self, reader: Reader) -> Log:
        """Read groups whose senders ascend, in one loop: a call for each field, or group, would be most of the time.

        Whatever is not of the common form (numbers of one or two bytes, sets read before) goes to the strict reader.
        """
        data, end, size = reader.data, reader.end, reader.size
        log: Log = {}
        last = -1
        gaps: bytes | list[int]
        groups = reader.length()
        small, one_byte, most = size <= SMALL_ROSTER, min(1 << size, 128), min(size, ONE_BYTE_ROSTER)
        known = known_masks(size) if not small and size <= ONE_BYTE_ROSTER else {}
        at = reader.at
        try:
            for _ in range(groups):
                sender, head, count = data[at], data[at + 1], data[at + 2]
                at += 3
                if sender > 127 or head > 127:
                    reader.at = at - 3
                    sender, head, count = reader.numbers(3)
                    at = reader.at
                elif count > 127:
                    more = data[at]
                    if 0 < more < 128:
                        at += 1
                        count = count & 127 | more << 7
                    else:
                        reader.at = at - 1
                        count = reader.varint()
                        at = reader.at
                if not last < sender < size or head == 0 or head >> 1 > end - at:
                    raise PeerError(f"{head >> 1} entries of sender {sender} after {last} at byte {at} cannot be")
                last = sender
                if head == 1:
                    if count < 1:
                        raise PeerError(f"counts before byte {at} fall below one")
                    log[sender] = ((count, 0),)
                    continue
                if head < 4 and small and data[at] < 128 and data[at + head - 2] < one_byte:  # one set of one byte
                    mask = data[at + head - 2]
                    if head == 2 and mask and count:
                        log[sender] = ((count, mask),)
                        at += 1
                        continue
                    if head == 3 and count > data[at] + 1:
                        log[sender] = ((count - data[at] - 1, mask), (count, 0))
                        at += 2
                        continue
                counts, older = [count], (head - 1) >> 1
                gaps = data[at : at + older]
                at += older
                if at > end or not data[at - older : at].isascii():
                    reader.at = at - older
                    gaps = reader.numbers(older)
                    at = reader.at
                for gap in gaps:
                    count -= gap + 1
                    counts.append(count)
                if count < 1:
                    raise PeerError(f"counts before byte {at} fall below one")
                later = head >> 1
                group = []
                if not small and data[at : at + 2 * later : 2] == _ONE_ID[:later]:  # sets of one process each
                    alone = data[at + 1 : at + 2 * later : 2]
                    if len(alone) == later and max(alone) < most:
                        group = [(counts.pop(), 1 << position) for position in alone]
                        at += 2 * later
                        later = 0
                for _ in range(later):
                    mask = data[at]
                    if small:
                        at += 1
                        if mask > 127:
                            more = data[at]
                            if not 0 < more < 128:
                                raise PeerError(f"the set before byte {at} is no set of a roster of {size}")
                            at += 1
                            mask = mask & 127 | more << 7
                        if mask >> size:
                            raise PeerError(f"the set before byte {at} reaches outside a roster of {size}")
                    else:
                        stop = at + 1 + (mask >> 2)
                        found = known.get(data[at:stop])
                        if found is None:
                            reader.at = at
                            mask = read_mask(reader)
                            at = reader.at
                        else:
                            mask, at = found, stop
                    group.append((counts.pop(), mask))
                if head & 1:
                    group.append((counts.pop(), 0))
                elif group[-1][1] == 0:
                    raise PeerError(f"the last entry before byte {at} is empty but not marked so")
                log[sender] = tuple(group)
        except IndexError:
            raise PeerError(f"ends within a log after {end} bytes") from None
        reader.at = at
        return log

    def freeze(self, value: Log, rename: Rename) -> Hashable:
        """Freeze as a set of groups with their masks renamed."""
        if rename is None:
            return frozenset(value.items())
        return frozenset(
            (rename[sender], tuple((count, rename_mask(mask, rename)) for count, mask in group))
            for sender, group in value.items()
        )

    def fork(self, value: Log) -> Log:
        """Copy the dict; the groups are immutable."""
        return value.copy()


@lru_cache(maxsize=1 << 16)
def _group_bytes(sender: int, group: Group, size: int) -> bytes:
    out = bytearray()
    put_varint(out, sender)
    newest, mask = group[-1]
    empty = mask == 0
    put_varint(out, (len(group) - empty) << 1 | empty)
    put_varint(out, newest)
    later = newest
    for count, _ in reversed(group[:-1]):
        put_varint(out, later - count - 1)
        later = count
    for _, mask in group[:-1] if empty else group:
        out += mask_bytes(mask, size)
    return bytes(out)
