"""What a member tells its driver: data, no callbacks.

Never changed once made. Those that come with every arrival are not frozen: that would nearly triple what one costs.
"""

from __future__ import annotations

from dataclasses import dataclass

from thence.core.model.message import Cause, Copy, MessageId


@dataclass(slots=True, unsafe_hash=True)
class Sent:
    """The send happened: hand these copies to the network.

    `ticket` answers an earlier `Deferred`. `token` is what the next serialized sender must be given. `context` holds
    the message and its causes, for an application that passes contexts itself.
    """

    message: MessageId
    destinations: int
    copies: tuple[Copy, ...]
    label: str | None = None
    ticket: int | None = None
    token: object = None
    context: object = None


@dataclass(frozen=True, slots=True)
class Deferred:
    """The protocol must hold this send back; a `Sent` with the same ticket follows when it can leave."""

    ticket: int
    destinations: int
    waits_for: tuple[str, ...]
    reason: str
    label: str | None = None


@dataclass(slots=True, unsafe_hash=True)
class Deliver:
    """Hand the message of this copy to the application now."""

    copy: Copy


@dataclass(slots=True, unsafe_hash=True)
class Hold:
    """The copy must wait for these causes."""

    copy: Copy
    waits_for: tuple[Cause, ...]


@dataclass(slots=True, unsafe_hash=True)
class GoesWithout:
    """The copy is delivered next, without these causes: their senders were abandoned, and they will not come."""

    copy: Copy
    causes: tuple[Cause, ...]


@dataclass(slots=True, unsafe_hash=True)
class Duplicate:
    """The copy was received before; nothing is done with it."""

    copy: Copy


@dataclass(slots=True, unsafe_hash=True)
class Transmit:
    """Protocol messages, relays and late copies to hand to the network; no event of the application."""

    copies: tuple[Copy, ...]


Effect = Sent | Deliver | Hold | GoesWithout | Duplicate | Transmit
Answer = Effect | Deferred
"""What a member answers to a receipt or to a send."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A held copy or a deferred send, explained by name."""

    what: str
    """`copy` or `send`"""
    message: str | None
    """name of the held message; None for a send that has no number yet"""
    sender: str
    waits_for: tuple[Cause, ...] = ()
    processes: tuple[str, ...] = ()
    """processes whose news a deferred send awaits"""
    reason: str = ""
    label: str | None = None
    ticket: int | None = None
