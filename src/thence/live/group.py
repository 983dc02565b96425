"""Group commit: the inputs of one commit, the callers that wait for them, and the effects that it releases."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from thence.core.model.events import Event
from thence.errors import ThenceError
from thence.live.inputs import Input, MessageKey
from thence.live.outbox import OutboxItem

HEAVY_BYTES, HEAVY_INPUTS = 1 << 18, 512
"""from here on checksums and SQLite take 2 ms and more; to ask a thread costs 0.05 ms"""


class Ref(NamedTuple):
    """A message that is here: the input that holds its payload, and what is known of it."""

    number: int
    order: int
    """its send, in the order in which causes come first"""
    destinations: int
    size: int
    """bytes of its payload"""
    stamp: int
    """bytes of its stamp"""


class InboxEntry(NamedTuple):
    """A message in the inbox: its place among all deliveries here, its name, and the input with its payload."""

    number: int
    key: MessageKey
    ref: int
    clock: int | None = None
    """of its send, lower than that of all that depends on it; None if that is not known any more"""


class Aside(NamedTuple):
    """A copy that waits for its payload: who sent it, its stamp, and the number of its item."""

    peer: int
    stamp: bytes
    item: int = 0
    """0 in snapshots of releases up to 0.1.0, whose trace has the arrival of the hop already"""


@dataclass(slots=True)
class InputResult:
    """The effects that one input released."""

    given: Input
    number: int
    """of the input in the journal"""
    time: float
    """when it was taken; stands in the rows of the trace only"""
    body: bytes | None = None
    """payload that the input brought"""
    sent: list[tuple[int, OutboxItem, bool]] = field(default_factory=list)
    """(peer, item, whether it belongs into the journal)"""
    done: list[InboxEntry] = field(default_factory=list)
    """deliveries that the application is done with"""
    delivered: list[InboxEntry] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    message: str | None = None
    """name of the message that the input sent"""
    ticket: tuple[str | None, int] | None = None
    """the waiter of a send that the protocol holds back"""
    released: list[tuple[tuple[str | None, int], str]] = field(default_factory=list)
    """tickets of sends that were held back and have left now, with their messages"""
    without: list[tuple[str, list[str]]] = field(default_factory=list)
    """messages that are delivered without these causes, because a process was given up"""


class Waiter(Protocol):
    """A caller that waits for the result of an input."""

    @property
    def gone(self) -> bool:
        """Whether all waiters are gone: an input that is not applied yet is withdrawn."""

    def settle(self, message: str | None) -> None:
        """Note that it is committed; a send gets the name of its message."""

    def fail(self, error: ThenceError) -> None:
        """Take the error with which the input was rejected."""


@dataclass(slots=True)
class QueuedInput:
    """An input in the queue."""

    given: Input
    waiter: Waiter | None = None


@dataclass(slots=True)
class Released:
    """The effects that a committed group releases beside frames."""

    delivered: list[InboxEntry] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    without: list[tuple[str, list[str]]] = field(default_factory=list)
    """messages delivered without these causes, whose senders were given up"""
    bodies: dict[int, bytes] = field(default_factory=dict)
    """payloads of deliveries that are still in memory, by input"""


@dataclass(slots=True)
class InputGroup:
    """A group of inputs that is applied and not yet released."""

    released: Released = field(default_factory=Released)
    unsealed: list[InputResult] = field(default_factory=list)
    """what was set free by inputs whose rows SQLite has not seen yet"""
    bytes: int = 0
    """what its inputs bring"""
    settled: list[tuple[Waiter, str | None]] = field(default_factory=list)
    wrote: dict[int, int] = field(default_factory=dict)
    """bytes of items received, by peer"""
    abandoned: list[int] = field(default_factory=list)
    """peers that were given up"""

    @property
    def heavy(self) -> bool:
        """Whether its commit will take long."""
        return self.bytes > HEAVY_BYTES or len(self.unsealed) > HEAVY_INPUTS
