"""Chance as an argument: one seed, and an independent stream of random numbers for each purpose.

Invariant: a stream depends on the seed and on its purpose, on nothing else; what one purpose draws never moves another.
So the same workload meets different protocols, and the copies of the same messages take the same time under each of
them. Seeding is by text, which Python hashes itself: neither PYTHONHASHSEED nor the platform matters.
"""

from __future__ import annotations

from random import Random


class Streams:
    """The streams of one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.times = self.of("times")
        """when processes ask to send, and which of them"""
        self.destinations = self.of("destinations")
        """to whom, and under which label"""
        self.layout = self.of("layout")
        """who belongs to which group or holds which replica; drawn once"""
        self.delays = self.of("delays")
        """how long copies of messages travel"""
        self.hops = self.of("hops")
        """how long protocol messages and relays travel"""
        self.replies = self.of("replies")
        """how long a process thinks before it answers"""
        self.faults = self.of("faults")
        """which copies are lost or doubled, who crashes and when"""

    def of(self, purpose: str) -> Random:
        """Return a new stream for a purpose."""
        return Random(f"thence/{self.seed}/{purpose}")
