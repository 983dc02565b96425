"""Integers as bytes, little-endian base 128, and a strict cursor over bytes from outside.

Law. An integer has one form, its shortest, and at most 63 bits. Whatever else stands where one is expected raises
`PeerError` with the place. No announced length goes beyond the bytes that are left.
"""

from __future__ import annotations

from collections.abc import Sequence

from thence.errors import PeerError

MAX_BYTES = 1 << 24
_MAX_VARINT = (1 << 63) - 1


def put_varint(out: bytearray, value: int) -> None:
    """Append a non-negative integer."""
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def put_varints(out: bytearray, values: Sequence[int]) -> None:
    """Append many integers; the common case, all below 128, in one step."""
    if not values:
        return
    if max(values) < 128:
        out += bytes(values)
    else:
        for value in values:
            put_varint(out, value)


class Reader:
    """A cursor that goes over the bytes once; `size` is the number of positions in the roster."""

    __slots__ = ("at", "data", "end", "size")

    def __init__(self, data: bytes, size: int, at: int = 0) -> None:
        """Read `data` under a roster of `size` processes, from byte `at`."""
        if len(data) > MAX_BYTES:
            raise PeerError(f"{len(data)} bytes are more than the {MAX_BYTES} accepted")
        self.data, self.at, self.end, self.size = data, at, len(data), size

    def take(self, count: int) -> bytes:
        """Take that many bytes."""
        if count > self.end - self.at:
            raise PeerError(f"ends after {self.end} bytes, {count} more expected at {self.at}")
        self.at += count
        return self.data[self.at - count : self.at]

    def varint(self) -> int:
        """Take an integer in its shortest form."""
        data, at = self.data, self.at
        if at < self.end and data[at] < 128:
            self.at = at + 1
            return data[at]
        value = shift = 0
        while True:
            if at >= self.end:
                raise PeerError(f"ends within an integer at byte {at}")
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
            if shift > 63:
                raise PeerError(f"integer before byte {at} is larger than 63 bits")
        if value > _MAX_VARINT:
            raise PeerError(f"integer before byte {at} is larger than 63 bits")
        if byte == 0 and shift:
            raise PeerError(f"integer before byte {at} is not in its shortest form")
        self.at = at
        return value

    def numbers(self, count: int) -> list[int]:
        """Take that many integers: one of one or two bytes costs no call, all of one byte cost one step."""
        data, at = self.data, self.at
        if count > self.end - at:
            raise PeerError(f"{count} integers expected at byte {at}, {self.end - at} bytes are left")
        run = data[at : at + count]
        if run.isascii():
            self.at = at + count
            return list(run)
        values = []
        try:
            for _ in range(count):
                value = data[at]
                at += 1
                if value > 127:
                    more = data[at]
                    if 0 < more < 128:
                        at += 1
                        value = value & 127 | more << 7
                    else:
                        self.at = at - 1
                        value = self.varint()
                        at = self.at
                values.append(value)
        except IndexError:
            raise PeerError(f"ends within an integer at byte {self.end}") from None
        self.at = at
        return values

    def flag(self) -> bool:
        """Take a byte that is 0 or 1."""
        at = self.at
        if at < self.end and self.data[at] < 2:
            self.at = at + 1
            return self.data[at] == 1
        raise PeerError(f"{self.varint()} before byte {self.at} is neither 0 nor 1")

    def length(self) -> int:
        """Take a count of things of at least one byte each; it cannot exceed what is left."""
        at = self.at
        if at < self.end and self.data[at] < 128:
            count = self.data[at]
            self.at = at + 1
        else:
            count = self.varint()
        if count > self.end - self.at:
            raise PeerError(f"{count} items announced at byte {self.at}, {self.end - self.at} bytes are left")
        return count

    def done(self) -> None:
        """Insist that nothing is left."""
        if self.at != self.end:
            raise PeerError(f"{self.end - self.at} bytes too many after byte {self.at}")
