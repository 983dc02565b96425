"""What a core keeps of messages and deliveries, and what one input sets free."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from thence.core.model.events import Event
from thence.live.inputs import Input, MessageKey
from thence.live.outbox import OutboxItem


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


class Aside(NamedTuple):
    """A copy that waits for its payload: who sent it, and its stamp."""

    peer: int
    stamp: bytes


@dataclass(slots=True)
class InputResult:
    """What one input set free."""

    given: Input
    body: bytes | None = None
    """payload that the input brought"""
    sent: list[tuple[int, OutboxItem, bool]] = field(default_factory=list)
    """(peer, item, whether it belongs into the journal)"""
    done: list[InboxEntry] = field(default_factory=list)
    """deliveries that the application is done with"""
    delivered: list[InboxEntry] = field(default_factory=list)
    clocks: list[int] = field(default_factory=list)
    """of each of `delivered` the clock of its send"""
    events: list[Event] = field(default_factory=list)
    message: str | None = None
    """name of the message that the input sent"""
    ticket: tuple[str | None, int] | None = None
    """what answers for a send that the protocol holds back"""
    released: list[tuple[tuple[str | None, int], str]] = field(default_factory=list)
    """tickets of sends that were held back and have left now, with their messages"""
    without: list[tuple[str, list[str]]] = field(default_factory=list)
    """messages that are delivered without these causes, because a process was given up"""
