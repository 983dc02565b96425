"""A group of inputs on its way through a process: who asked for each, and what the group sets free."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from thence.core.model.events import Event
from thence.errors import ThenceError
from thence.live.deliveries import InboxEntry, InputResult
from thence.live.inputs import Input

HEAVY_BYTES, HEAVY_INPUTS = 1 << 18, 512
"""from here on checksums and SQLite take 2 ms and more; to ask a thread costs 0.05 ms"""


class Waiter(Protocol):
    """A caller that waits for the result of an input."""

    @property
    def gone(self) -> bool:
        """Whether all waiters are gone: an input that is not applied yet is withdrawn."""

    def settle(self, message: str | None) -> None:
        """Note that it is committed; a send gets the name of its message."""

    def fail(self, error: ThenceError) -> None:
        """Hear that it was refused."""


@dataclass(slots=True)
class QueuedInput:
    """An input in the queue."""

    given: Input
    waiter: Waiter | None = None


@dataclass(slots=True)
class Released:
    """What a committed group sets free beside frames."""

    delivered: list[InboxEntry] = field(default_factory=list)
    clocks: list[int] = field(default_factory=list)
    """of each of `delivered` the clock of its send"""
    events: list[Event] = field(default_factory=list)
    without: list[tuple[str, list[str]]] = field(default_factory=list)
    """messages delivered without these causes, whose senders were given up"""
    bodies: dict[int, bytes] = field(default_factory=dict)
    """payloads of deliveries that are still in memory, by input"""


@dataclass(slots=True)
class InputGroup:
    """A group of inputs that is applied and not yet released."""

    released: Released = field(default_factory=Released)
    unsealed: list[tuple[int, InputResult, float]] = field(default_factory=list)
    """inputs whose rows SQLite has not seen yet: number, what they set free, when"""
    bytes: int = 0
    """what its inputs bring"""
    settled: list[tuple[Waiter, str | None]] = field(default_factory=list)
    wrote: dict[int, int] = field(default_factory=dict)
    """bytes of items received, by peer"""
    abandoned: list[int] = field(default_factory=list)
    """peers that were given up"""

    @property
    def heavy(self) -> bool:
        """Whether it takes long to commit."""
        return self.bytes > HEAVY_BYTES or len(self.unsealed) > HEAVY_INPUTS
