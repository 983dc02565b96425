"""Dependency logs as bytes.

Reading takes one of two loops over the bytes, by how sets are written: up to 14 processes a set is a number, up to 128
its first byte says how long it is. A loop reads groups of the common form (a count of up to three bytes, differences of
one) and makes no call for a field; every other group, and every wrong one, goes to `_read_group`, which is strict and
says what is wrong.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache

from thence.errors import PeerError
from thence.model.codec import Shape
from thence.model.sets import (
    ONE_BYTE_ROSTER,
    SMALL_ROSTER,
    Rename,
    mask_bytes,
    read_masks,
    read_set,
    rename_mask,
)
from thence.model.varint import Reader, put_varint

Group = tuple[tuple[int, int], ...]
"""entries (count, destinations) of one sender by ascending count"""
Log = dict[int, Group]
_ONE_ID = [b"\4" * length for length in range(64)]
"""how so many sets of one process each begin, over 15 to 128 processes: one id is their shortest form"""
_ALONE = [1 << position for position in range(ONE_BYTE_ROSTER)]
"""the set of one process"""
_EMPTY: list[Group] = [((count, 0),) for count in range(128)]
"""groups of one entry without destinations, the most of multicasts, by counts of one byte"""


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
        """Read groups whose senders ascend."""
        log, reader.at = self.read_at(reader.data, reader.at, reader.size)
        return log

    def read_at(self, data: bytes, at: int, size: int) -> tuple[Log, int]:
        """Read by the loop for that size of a roster; what is larger or cut off is read strictly."""
        if at < len(data) and data[at] < 128:
            if size <= SMALL_ROSTER:
                return _read_by_numbers(data, at + 1, size, data[at])
            if size <= ONE_BYTE_ROSTER:
                return _read_by_lengths(data, at + 1, size, data[at])
        reader = Reader(data, size, at)
        log: Log = {}
        for _ in range(reader.length()):
            _read_group(reader, log)
        return log, reader.at

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


def _read_group(reader: Reader, log: Log) -> None:
    """Read the next group into the log, whatever its form, or say what is wrong with it."""
    last = next(reversed(log), -1)
    sender, head = reader.numbers(2)
    empty, length = head & 1, (head >> 1) + (head & 1)
    if not last < sender < reader.size or not 0 < length <= reader.end - reader.at:
        raise PeerError(f"{length} entries of sender {sender} after {last} before byte {reader.at} cannot be")
    count, *gaps = reader.numbers(length)
    counts = [count]
    for gap in gaps:
        count -= gap + 1
        counts.append(count)
    if count < 1:
        raise PeerError(f"counts before byte {reader.at} fall below one")
    masks = read_masks(reader, length - empty)
    if empty:
        masks.append(0)
    elif not masks[-1]:
        raise PeerError(f"the last entry before byte {reader.at} is empty but not marked so")
    log[sender] = tuple(zip(reversed(counts), masks, strict=True))


def _read_by_numbers(data: bytes, at: int, size: int, groups: int) -> tuple[Log, int]:
    """Read groups over at most 14 processes, where a set is a number of one or two bytes.

    Counts come newest first and sets oldest first. Groups of one set, or of up to two and an empty newest entry, most
    of all, are read at one go; for others the differences are taken off forwards and put back one by one.
    """
    log: Log = {}
    last, full, start = -1, 1 << size, at
    one_byte, end = 128 if size > 7 else full, len(data)
    try:
        for _ in range(groups):
            start = at
            sender = data[at]
            head = data[at + 1]
            count = data[at + 2]
            at += 3
            if count > 127:
                more = data[at]
                at += 1
                if 0 < more < 128:
                    count += (more << 7) - 128
                else:
                    count, at = _large(data, at - 2)
            if sender > last:
                last = sender
                if head == 1:
                    if count:
                        log[sender] = _EMPTY[count] if count < 128 else ((count, 0),)
                        continue
                elif head == 3:
                    gap = data[at]
                    mask = data[at + 1]
                    stop = at + 2
                    if mask > 127:
                        mask = mask + (data[stop] << 7) - 128 if data[stop] else full
                        stop += 1
                    older = count - gap - 1
                    if mask < full and gap < 128 and older > 0:
                        at = stop
                        log[sender] = ((older, mask), (count, 0))
                        continue
                elif head == 5:
                    gap = data[at]
                    more = data[at + 1]
                    mask = data[at + 2]
                    stop = at + 3
                    if mask > 127:
                        mask = mask + (data[stop] << 7) - 128 if data[stop] else full
                        stop += 1
                    newer = data[stop]
                    stop += 1
                    if newer > 127:
                        newer = newer + (data[stop] << 7) - 128 if data[stop] else full
                        stop += 1
                    older = count - gap - 1
                    oldest = older - more - 1
                    if mask < full > newer and gap < 128 > more and oldest > 0:
                        at = stop
                        log[sender] = ((oldest, mask), (older, newer), (count, 0))
                        continue
                elif head == 2:
                    mask = data[at]
                    stop = at + 1
                    if mask > 127:
                        mask = mask + (data[stop] << 7) - 128 if data[stop] else full
                        stop += 1
                    if 0 < mask < full and count:
                        at = stop
                        log[sender] = ((count, mask),)
                        continue
                if 0 < head < 128:
                    sets_at = at + (head - 1 >> 1)
                    gaps = data[at:sets_at]
                    for gap in gaps:
                        count -= gap + 1
                    at = sets_at
                    if count > 0 and gaps.isascii():
                        entries = []
                        for gap in gaps[::-1]:
                            mask = data[at]
                            at += 1
                            if mask >= one_byte:
                                mask += (data[at] << 7) - 128
                                at += 1
                                if not 127 < mask < full:
                                    break
                            entries.append((count, mask))
                            count += gap + 1
                        else:
                            mask = full
                            if not head & 1:
                                mask = data[at]
                                at += 1
                                if mask >= one_byte:
                                    mask += (data[at] << 7) - 128
                                    at += 1
                                    mask = mask if 127 < mask < full else 0
                            if mask and at <= end:
                                entries.append((count, mask & full - 1))
                                log[sender] = tuple(entries)
                                continue
            at, last = _read_strictly(data, start, size, log)
    except IndexError:
        raise _ended(data, start, size, log) from None
    if last >= size:
        raise PeerError(f"sender {last} before byte {at} is outside a roster of {size}")
    return log, at


def _read_by_lengths(data: bytes, at: int, size: int, groups: int) -> tuple[Log, int]:
    """Read groups over 15 to 128 processes, where the first byte of a set says how many follow."""
    log: Log = {}
    last, start, alone = -1, at, _ALONE[:size]
    try:
        for _ in range(groups):
            start = at
            sender = data[at]
            head = data[at + 1]
            count = data[at + 2]
            at += 3
            if count > 127:
                more = data[at]
                at += 1
                if 0 < more < 128:
                    count += (more << 7) - 128
                else:
                    count, at = _large(data, at - 2)
            if sender > last and count:
                last = sender
                if head == 1:
                    log[sender] = _EMPTY[count] if count < 128 else ((count, 0),)
                    continue
                if head == 2:
                    if data[at] == 4:
                        log[sender] = ((count, alone[data[at + 1]]),)
                        at += 2
                        continue
                    mask = read_set(data, at, size)
                    if mask > 0:
                        at += 1 + (data[at] >> 2)
                        log[sender] = ((count, mask),)
                        continue
                elif 2 < head < 128:
                    group, at = _read_sets(data, at, size, head, count, alone)
                    if group:
                        log[sender] = group
                        continue
            at, last = _read_strictly(data, start, size, log)
    except IndexError:
        raise _ended(data, start, size, log) from None
    if last >= size:
        raise PeerError(f"sender {last} before byte {at} is outside a roster of {size}")
    return log, at


def _read_sets(data: bytes, at: int, size: int, head: int, count: int, alone: list[int]) -> tuple[Group, int]:
    """Return a group of several entries and where it ends; an empty one if its form is not the common one.

    Sets of one process each, the most of unicasts, are taken together. Entries are made from the newest to the oldest,
    as counts are written.
    """
    sets_at = at + (head - 1 >> 1)
    stop = sets_at + (head & -2)
    gaps = data[at:sets_at]
    if not gaps.isascii():  # the sets stand elsewhere, and what stands here may look like sets that go beyond the end
        return (), at
    if stop <= len(data) and data[sets_at] == data[stop - 2] == 4 and data[sets_at:stop:2] == _ONE_ID[head >> 1]:
        masks = [alone[place] for place in data[sets_at + 1 : stop : 2]]
    else:
        masks, stop = [], sets_at
        for _ in range(head >> 1):
            first = data[stop]
            mask = alone[data[stop + 1]] if first == 4 else read_set(data, stop, size)
            if mask < 0:
                return (), at
            masks.append(mask)
            stop += 1 + (first >> 2)
    entries = [(count, 0 if head & 1 else masks.pop())]
    for gap in gaps:
        count -= gap + 1
        entries.append((count, masks.pop()))
    if count < 1 or not (entries[0][1] or head & 1):
        return (), at
    entries.reverse()
    return tuple(entries), stop


def _large(data: bytes, at: int) -> tuple[int, int]:
    """Return a count of three bytes, from 16,384 to two million, and where it ends; 0 for every other."""
    low, middle, high = data[at : at + 3] if at + 3 <= len(data) else b"\0\0\0"
    return low & 127 | (middle & 127) << 7 | high << 14 if middle > 127 and 0 < high < 128 else 0, at + 3


def _read_strictly(data: bytes, start: int, size: int, log: Log) -> tuple[int, int]:
    """Read a group that is not of the common form into the log; return where it ends, and its sender."""
    reader = Reader(data, size, start)
    _read_group(reader, log)
    return reader.at, next(reversed(log))


def _ended(data: bytes, start: int, size: int, log: Log) -> PeerError:
    """Return the error for a log that ends too early; the strict reader may have a better one."""
    _read_strictly(data, start, size, log)
    return PeerError(f"ends within a log after {len(data)} bytes")
