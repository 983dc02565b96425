"""The slow reader of dependency logs in bits: a string of 0 and 1, read by the definition in docs/reference/wire.md."""

from __future__ import annotations

from thence.errors import PeerError

LARGEST = (1 << 63) - 1
Group = tuple[tuple[int, int], ...]


class SlowBits:
    """Reads the bits of some bytes, lowest of each byte first."""

    def __init__(self, data: bytes, size: int) -> None:
        self.bits, self.at, self.size = "".join(format(byte, "08b")[::-1] for byte in data), 0, size

    def get(self, count: int) -> int:
        self.at += count
        if self.at > len(self.bits):
            raise PeerError("too short")
        return int(self.bits[self.at - count : self.at][::-1] or "0", 2)

    def number(self, width: int) -> int:
        zeros = 0
        while self.get(1) == 0:
            zeros += 1
        if zeros > 63:
            raise PeerError("too large")
        high = (1 << zeros) + self.get(zeros) - 1
        value = (high << width) + self.get(width)
        if value > LARGEST:
            raise PeerError("too large")
        return value

    def one_of(self, count: int) -> int:
        """Every value has a code of `low` bits, or, from `short` on, of one more."""
        low = count.bit_length() - 1
        short = 2 ** (low + 1) - count
        value = self.get(low)
        return value if value < short else 2 * value + self.get(1) - short

    def places(self, count: int, low: int, high: int) -> list[int]:
        if count == 0:
            return []
        half = count // 2
        at = low + half + self.one_of(high - low - count + 2)
        before = self.places(half, low, at - 1)
        return [*before, at, *self.places(count - half - 1, at + 1, high)]

    def log(self) -> dict[int, Group]:
        senders = self.places(self.one_of(self.size + 1), 0, self.size - 1)
        if not senders:
            self.done()
            return {}
        wide, narrow = self.get(6), self.get(6)
        found: dict[int, Group] = {}
        changes: list[int] = []
        gaps: list[int] = []
        before = 0
        for sender in senders:
            head = self.number(0) + 1
            length = head // 2 + head % 2
            change = self.number(wide)
            if length > len(self.bits):
                raise PeerError("too many entries")
            if before:
                changes.append(change)
                change = -change if change and self.get(1) else change
            counts = [before + change]
            for _ in range(length - 1):
                gaps.append(self.number(narrow))
                counts.append(counts[-1] - gaps[-1] - 1)
            if counts[-1] < 1 or counts[0] > LARGEST:
                raise PeerError("counts that cannot be")
            masks = [self.mask() for _ in range(head // 2)] + [0] * (head % 2)
            found[sender] = tuple(zip(reversed(counts), masks, strict=True))
            before = counts[0]
        if (wide, narrow) != (width(changes), width(gaps)):
            raise PeerError("other widths")
        self.done()
        return found

    def mask(self) -> int:
        count = self.number(0) + 1
        if count > self.size:
            raise PeerError("too many destinations")
        return sum(1 << place for place in self.places(count, 0, self.size - 1))

    def done(self) -> None:
        if self.get(-self.at % 8):
            raise PeerError("bits that say nothing")


def width(numbers: list[int]) -> int:
    """One less than the mean number of bits, rounded half up."""
    total = sum(number.bit_length() for number in numbers)
    mean = int(total / len(numbers) + 0.5) if numbers else 0
    return max(0, mean - 1)
