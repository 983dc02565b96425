"""Messages and copies: a message is sent once, and a copy with a stamp travels to each destination."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from thence.core.model.message_names import name_of
from thence.core.model.roster import positions

MESSAGE = "message"
"""Kind of a copy that can be delivered; every other kind belongs to the protocol itself."""
Stamp: TypeAlias = Any
"""What a protocol puts on a copy; `kinds` of the protocol states its shape, and reading checks it."""
Context: TypeAlias = Any
"""Causes that an application passes on itself; each protocol has its own form of them."""
_new = object.__new__


@dataclass(slots=True, order=True, unsafe_hash=True)
class MessageId:
    """The count-th message that the process at position `sender` sent under a label."""

    sender: int
    count: int


@dataclass(frozen=True, slots=True, order=True)
class Cause:
    """A cause that a held copy waits for, with names in place of positions.

    `sender` and `count` name the message when `pairwise` is false. When it is true (matrix and clock protocols number
    messages per pair of processes) the cause is the count-th message of `sender` to the destination that waits.
    """

    sender: str
    count: int
    pairwise: bool = False

    def __str__(self) -> str:
        return f"{self.sender}#{self.count}" if self.pairwise else name_of(self.sender, self.count)


@dataclass(slots=True, unsafe_hash=True)
class Copy:
    """One message in flight to one process; never changed once made (a frozen class would cost three times as much).

    `source` and `destination` are the ends of this hop (positions), `sender` and `count` name the message, and
    `destinations` is the whole set it is addressed to. `stamp` is the control information the protocol put on it.
    """

    sender: int
    count: int
    destinations: int
    source: int
    destination: int
    stamp: Stamp
    label: str | None = None
    kind: str = MESSAGE

    @property
    def id(self) -> MessageId:
        """The identity of the message within its label."""
        return MessageId(self.sender, self.count)


def copies_of(
    sender: int, count: int, destinations: int, stamp: Callable[[int], Stamp], label: str | None
) -> tuple[Copy, ...]:
    """Return a copy of a message for each destination, which carries `stamp(destination)`."""
    copies = []
    for destination in positions(destinations):
        copy: Copy = _new(Copy)  # field by field: half of what a call of the class costs
        copy.sender = copy.source = sender
        copy.count = count
        copy.destinations = destinations
        copy.destination = destination
        copy.stamp = stamp(destination)
        copy.label = label
        copy.kind = MESSAGE
        copies.append(copy)
    return tuple(copies)


def is_hop(copy: Copy) -> bool:
    """Return whether a copy is anything but a message straight from its sender to a destination of it."""
    return copy.kind != MESSAGE or copy.sender != copy.source or not copy.destinations >> copy.destination & 1
