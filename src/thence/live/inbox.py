"""Deliveries that wait for the application, in causal order, with as many of their payloads as memory may hold.

Invariant: the oldest delivery is taken first. Payloads beyond `MEMORY_BYTES` are read from the journal when their turn
comes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from thence.live.group import InboxEntry
from thence.live.journal import Journal

MEMORY_BYTES = 1 << 24


class Taken(NamedTuple):
    """A delivery whose turn has come; `again`: it may have been returned before the process ended."""

    delivery: InboxEntry
    payload: bytes
    again: bool


class Inbox:
    """The deliveries of one process that the application has not received yet."""

    def __init__(self, journal: Journal) -> None:
        """Take the journal that holds every payload."""
        self.news = asyncio.Event()
        """set when there is something to take, or nothing will come any more"""
        self._journal = journal
        self._waiting: deque[tuple[InboxEntry, bool]] = deque()
        self.returned = asyncio.Event()
        """set while a delivery that was given back is there to take"""
        self._back: list[tuple[int, InboxEntry, bool]] = []
        """deliveries that were given back, a heap: they come before what was never received"""
        self._payloads: dict[int, bytes] = {}
        self._memory = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._back)

    def put(self, delivery: InboxEntry, payload: bytes | None = None, *, again: bool = False) -> None:
        """Take a delivery in, with its payload if that is at hand."""
        if payload is not None and self._memory < MEMORY_BYTES:
            self._payloads[delivery.number] = payload
            self._memory += len(payload)
        self._waiting.append((delivery, again))

    def wake(self) -> None:
        """Wake the readers: no more deliveries will come."""
        self.news.set()
        self.returned.set()

    def give_back(self, delivery: InboxEntry, again: bool) -> None:
        """Take in a delivery that the application gave back and will receive again."""
        heappush(self._back, (delivery.number, delivery, again))
        self.news.set()
        self.returned.set()

    def withdraw(self, number: int) -> bool:
        """Take out a delivery that was given back; return whether it was still here."""
        kept = [each for each in self._back if each[0] != number]
        found = len(kept) < len(self._back)
        if found:
            heapify(kept)
            self._back = kept
            if not kept:
                self.returned.clear()
        return found

    def next(self) -> tuple[InboxEntry, bool]:
        """Return the oldest delivery, which stays, and whether the application may have had it before."""
        return self._back[0][1:] if self._back else self._waiting[0]

    def take(self) -> Taken:
        """Return the oldest delivery, which leaves."""
        delivery, again = self._leave()
        payload = self._payloads.pop(delivery.number, None)
        if payload is None:
            return Taken(delivery, self._journal.payload(delivery.ref), again)
        self._memory -= len(payload)
        return Taken(delivery, payload, again)

    def drop(self) -> None:
        """Forget the oldest delivery: it is done."""
        self._memory -= len(self._payloads.pop(self._leave()[0].number, b""))

    def _leave(self) -> tuple[InboxEntry, bool]:
        if not self._back:
            return self._waiting.popleft()
        oldest = heappop(self._back)[1:]
        if not self._back:
            self.returned.clear()
        return oldest
