"""Items in flight to one peer: numbered, the oldest in memory, the rest in the journal.

Invariant: numbers count from 1 without a gap and are given when the item is made, so they follow from the inputs alone.
An item leaves the outbox when the peer has said that it wrote it down, and for no other reason. No more than
`LIMIT_ITEMS` items and `LIMIT_BYTES` bytes are kept in memory; what comes after them waits in the journal and is
fetched in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice

LIMIT_ITEMS = 4096
LIMIT_BYTES = 1 << 22


class OutboxItem:
    """One item: its number, its bytes up to the payload, and the input that holds the payload (0: none)."""

    __slots__ = ("body", "head", "number", "ref")

    def __init__(self, number: int, head: bytes, ref: int, body: bytes | None) -> None:
        """Take the payload itself as well, if it is at hand."""
        self.number, self.head, self.ref, self.body = number, head, ref, body


class Outbox:
    """The items for one peer."""

    def __init__(self) -> None:
        self.sent = 0
        """number of the last item made"""
        self.acked = 0
        """number of the last item that the peer has written down"""
        self.front: deque[OutboxItem] = deque()
        self.bytes = 0
        self.closed = False
        """whether the peer was given up: nothing more is kept for it"""

    @property
    def spilled_from(self) -> int:
        """Number of the first item that is in the journal only; `sent + 1` if there is none."""
        return (self.front[-1].number if self.front else self.acked) + 1

    def add(self, head: bytes, ref: int, body: bytes | None) -> tuple[OutboxItem, bool]:
        """Number a new item; the flag says whether it belongs into the journal instead of memory."""
        full = len(self.front) >= LIMIT_ITEMS or self.bytes >= LIMIT_BYTES
        spill = full or self.spilled_from <= self.sent
        self.sent += 1
        entry = OutboxItem(self.sent, head, ref, body)
        if not spill:
            self._keep(entry)
        return entry, spill

    def _keep(self, entry: OutboxItem) -> None:
        self.front.append(entry)
        self.bytes += len(entry.head) + len(entry.body or b"")

    def remember(self, entry: OutboxItem, body: bytes) -> None:
        """Keep the payload of an item that leaves next."""
        if entry.body is None:
            entry.body = body
            self.bytes += len(body)

    def refill(self, entries: Iterable[OutboxItem]) -> None:
        """Take the next items back from the journal."""
        for entry in entries:
            if entry.number == self.spilled_from:
                self._keep(entry)

    @property
    def wants_refill(self) -> bool:
        """Whether items wait in the journal and there is room for them."""
        return self.spilled_from <= self.sent and not self.closed and len(self.front) < LIMIT_ITEMS // 2

    def acknowledge(self, number: int) -> None:
        """Drop what the peer has written down."""
        while self.front and self.front[0].number <= number:
            entry = self.front.popleft()
            self.bytes -= len(entry.head) + len(entry.body or b"")
        self.acked = max(self.acked, number)

    def after(self, number: int) -> Iterator[OutboxItem]:
        """Yield the items in memory that come after this number."""
        if not self.front or self.front[-1].number <= number:
            return iter(())
        return islice(self.front, max(0, number - self.front[0].number + 1), None)

    def close(self) -> None:
        """Forget everything: the peer was given up."""
        self.front.clear()
        self.bytes, self.closed, self.acked = 0, True, self.sent
