"""The true causes of each copy, tracked during a run independently of the protocol.

Invariant: a copy at d is *free* from the moment at which it has arrived and every message that is addressed to d and
causally precedes it has been delivered at d. What passes between that moment and its delivery is needless waiting. A
copy that is delivered before it is free is early: causal order is violated. Labels are apart.

Messages are bits; the past of a process, and of a message, is a set of bits. Messages of the beginning of the run that
are delivered everywhere can never be missing again and are shifted out from time to time, so long runs cost no more.
"""

from __future__ import annotations

from thence.core.model.message import Copy
from thence.core.model.roster import positions
from thence.core.protocols.effects import Sent
from thence.lab.simulator.simulation import Observer, Simulation

SHIFT = 2048


class _Order:
    """The past under one label."""

    def __init__(self, size: int) -> None:
        self.size, self.base, self.next = size, 0, 0
        self.past = [0] * size
        self.addressed = [0] * size
        self.delivered = [0] * size
        self.number: dict[tuple[int, int], int] = {}
        self.past_of: dict[tuple[int, int], int] = {}
        self.waiting: list[dict[tuple[int, int], int]] = [{} for _ in range(size)]

    def sent(self, message: tuple[int, int], destinations: int) -> None:
        if self.next - self.base >= SHIFT:
            self._shift()
        bit = 1 << self.next - self.base
        self.number[message] = self.next
        self.next += 1
        sender = message[0]
        self.past_of[message] = self.past[sender]
        self.past[sender] |= bit
        for destination in positions(destinations):
            self.addressed[destination] |= bit

    def missing(self, message: tuple[int, int], here: int) -> int:
        return self.past_of[message] & self.addressed[here] & ~self.delivered[here]

    def deliver(self, message: tuple[int, int], here: int) -> None:
        number = self.number[message] - self.base
        if number >= 0:
            self.delivered[here] |= 1 << number
            self.past[here] |= self.past_of[message] | 1 << number

    def _shift(self) -> None:
        undelivered = 0
        for addressed, delivered in zip(self.addressed, self.delivered, strict=True):
            undelivered |= addressed & ~delivered
        done = (undelivered & -undelivered).bit_length() - 1 if undelivered else self.next - self.base
        if done <= 0:
            return
        self.base += done
        for masks in (self.past, self.addressed, self.delivered):
            masks[:] = [mask >> done for mask in masks]
        old = [message for message, number in self.number.items() if number < self.base]
        for message in old:
            del self.number[message], self.past_of[message]
        for message in self.past_of:
            self.past_of[message] >>= done
        for waiting in self.waiting:
            for message in waiting:
                waiting[message] >>= done


class Causes(Observer):
    """Follows the run and tells, for each copy, when it was free."""

    def __init__(self) -> None:
        self.early = 0
        """deliveries before a cause"""
        self.orders: dict[str | None, _Order] = {}
        self._free: dict[tuple[str | None, int, int, int], float] = {}

    def begin(self, simulation: Simulation) -> None:
        self.size = len(simulation.roster)

    def sent(self, now: float, process: int, sent: Sent, asked: float) -> None:
        """Give the message its causes."""
        order = self.orders.get(sent.label)
        if order is None:
            order = self.orders[sent.label] = _Order(self.size)
        order.sent((sent.message.sender, sent.message.count), sent.destinations)

    def arrived(self, now: float, copy: Copy) -> None:
        """Note what an arrival misses, unless it was there before."""
        order, message, here = self.orders[copy.label], (copy.sender, copy.count), copy.destination
        number = order.number.get(message)
        if number is None or order.delivered[here] >> number - order.base & 1 or message in order.waiting[here]:
            return
        missing = order.missing(message, here)
        if missing:
            order.waiting[here][message] = missing
        else:
            self._free.setdefault((copy.label, copy.sender, copy.count, here), now)

    def waited(self, now: float, copy: Copy) -> float | None:
        """Take a delivery; return for how long the copy was free, None if it is early."""
        order, message, here = self.orders[copy.label], (copy.sender, copy.count), copy.destination
        early = order.waiting[here].pop(message, 0)
        order.deliver(message, here)
        free = self._free.pop((copy.label, copy.sender, copy.count, here), now)
        waiting = order.waiting[here]
        if waiting:
            left = ~order.delivered[here]
            for other in [other for other, missing in waiting.items() if not missing & left]:
                del waiting[other]
                self._free[copy.label, other[0], other[1], here] = now
        if early:
            self.early += 1
            return None
        return now - free
