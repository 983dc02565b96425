"""Krishnamurthy and Mukund, Protocol 1 by itself: who knows what of whom, with no order of channels or deliveries.

Invariant: GOSSIP[q][r] at p is the time of the latest event of r in the causal past of the latest event of q in p's
(theorem 2.1). A message carries the whole of it; of each r of which the sender knows more, the receiver takes the row.

Departure: the clock counts sends. Counting every event, as the text does, theorem 2.1 fails at GOSSIP[p][p]: a delivery
is an event of p, but the protocol writes that entry at sends only (errata 31). `every_event` is that literal reading.
"""

from __future__ import annotations

from typing import NamedTuple

Matrix = tuple[tuple[int, ...], ...]


class Gossiped(NamedTuple):
    """What travels on a message: its sender and the sender's GOSSIP."""

    sender: int
    gossip: Matrix


class NaiveGossip:
    """One process of Protocol 1."""

    def __init__(self, processes: int, me: int, *, every_event: bool = False) -> None:
        """Start knowing of no event."""
        self.me, self.every_event, self.clock = me, every_event, 0
        self.gossip = [[0] * processes for _ in range(processes)]

    def send(self) -> Gossiped:
        """Step 1: set GOSSIP[p, p] and copy everything onto the message."""
        self.clock += 1
        self.gossip[self.me][self.me] = self.clock
        return Gossiped(self.me, tuple(map(tuple, self.gossip)))

    def deliver(self, message: Gossiped) -> None:
        """Step 2: of each r with best(r) = p, take over what p knows."""
        if self.every_event:
            self.clock += 1
        carried, gossip = message.gossip, self.gossip
        newer = [r for r, time in enumerate(carried[message.sender]) if time > gossip[self.me][r] and r != self.me]
        for r in newer:
            gossip[self.me][r] = carried[message.sender][r]
            gossip[r] = list(carried[r])
