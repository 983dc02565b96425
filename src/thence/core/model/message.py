"""What travels: a message is sent once, a copy of it goes to each destination and carries a stamp. How both are named.

Names of messages. The simulator, the explorer and live endpoints name messages by one rule, from what every process
that handles a copy knows: sender, count and label. `a7` is the 7th message of a, `a7/red` its 7th under the label red.
Messages on their way by others and protocol messages are *hops*: rows of the run `<run>/hops`, sent and received and
never delivered. There `a7/b` is the 7th of a on the link to b; a link that carries messages too counts them.

*Invariant.* No two messages of a run, and no two hops, have one name. A colon stands between a count and a name that
ends in a digit, `:` or `#` (`node1:7`), and before a slash that follows a digit within a name (`rack1/x` becomes
`rack1:/x`). So the first slash that follows a digit ends the count, and without one the name ends with the count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeAlias

SEPARATED = frozenset("0123456789:#")
"""How a process name ends that a colon must part from the count."""
SLASH = re.compile(r"([0-9]:*)/")
"""A slash within a process name that could be taken for the one before a label."""
HOPS = "/hops"
"""How the run of hops is called, after the run itself."""
MESSAGE = "message"
"""Kind of a copy that can be delivered; every other kind belongs to the protocol itself."""
Stamp: TypeAlias = Any
"""What a protocol puts on a copy; `kinds` of the protocol states its shape, and reading checks it."""
Context: TypeAlias = Any
"""Causes that an application passes on itself; each protocol has its own form of them."""


def prefix_of(sender: str) -> str:
    """Return what stands before the count in the names of the messages of a process."""
    if "/" in sender:
        sender = SLASH.sub(r"\1:/", sender)
    return f"{sender}:" if sender[-1:] in SEPARATED else sender


def suffix_of(label: str | None) -> str:
    """Return what stands after the count in the names of messages under a label, and of hops to a destination."""
    return "" if label is None else f"/{label}"


def name_of(sender: str, count: int, label: str | None = None) -> str:
    """Return the name of the count-th message of a process under a label: a7, a7/red, or node1:7."""
    return f"{prefix_of(sender)}{count}{suffix_of(label)}"


def hop_name(source: str, number: int, destination: str) -> str:
    """Return the name of a hop: a7/b is the 7th of a on the link to b."""
    return name_of(source, number, destination)


@dataclass(slots=True, order=True, unsafe_hash=True)
class MessageId:
    """The count-th message that the process at position `sender` sent under a label."""

    sender: int
    count: int


@dataclass(frozen=True, slots=True, order=True)
class Cause:
    """What a held copy waits for, named at the edge.

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
    """One message on its way to one process; never changed once it is made (to freeze it would triple what that costs).

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


def is_hop(copy: Copy) -> bool:
    """Tell whether a copy is anything but a message straight from its sender to a destination of it."""
    return copy.kind != MESSAGE or copy.sender != copy.source or not copy.destinations >> copy.destination & 1
