"""Effects: the instructions of a member to its driver, as data instead of callbacks.

Never changed once made. Those that come with every arrival are not frozen: that would nearly triple what one costs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from thence.core.model.message import Cause, Copy, MessageId


@dataclass(slots=True, unsafe_hash=True)
class Sent:
    """The send happened: hand these copies to the network.

    `ticket` answers an earlier `Deferred`. `token` is what the next serialized sender must be given. `context` holds
    the message and its causes, for an application that passes contexts itself.
    """

    message: MessageId
    """sender's position and its count"""
    destinations: int
    """bit mask of positions in the roster"""
    copies: tuple[Copy, ...]
    """one for each destination, each with its stamp"""
    label: str | None = None
    """which causal order; None is the one order"""
    ticket: int | None = None
    token: object = None
    context: object = None


@dataclass(frozen=True, slots=True)
class Deferred:
    """The protocol must hold this send back; a `Sent` with the same ticket follows when it can leave."""

    ticket: int
    """number by which the later `Sent` answers"""
    destinations: int
    """bit mask of positions in the roster"""
    waits_for: tuple[str, ...]
    """names of the processes whose news the send awaits"""
    reason: str
    """a sentence for the user"""
    label: str | None = None
    """which causal order; None is the one order"""


@dataclass(slots=True, unsafe_hash=True)
class Deliver:
    """Deliver the message of this copy to the application now."""

    copy: Copy
    """the copy that arrived, with its message"""


class Hold:
    """The copy must wait for the causes in `waits_for`.

    They are computed on demand: naming them costs more than the whole step of the protocol, and most
    drivers use `pending()` instead, when a user asks.
    """

    __slots__ = ("_causes", "copy")

    def __init__(self, copy: Copy, causes: tuple[Cause, ...] | Callable[[], tuple[Cause, ...]]) -> None:
        """Take the copy that waits, and its missing causes.

        Args:
            copy: the copy that is held.
            causes: its missing causes, or a function that returns them when they are asked for.
        """
        self.copy, self._causes = copy, causes

    @property
    def waits_for(self) -> tuple[Cause, ...]:
        """The causes that were not delivered when the copy arrived."""
        if not isinstance(self._causes, tuple):
            self._causes = self._causes()
        return self._causes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hold) and (self.copy, self.waits_for) == (other.copy, other.waits_for)

    def __hash__(self) -> int:
        return hash((self.copy, self.waits_for))

    def __repr__(self) -> str:
        return f"Hold(copy={self.copy!r}, waits_for={self.waits_for!r})"


@dataclass(slots=True, unsafe_hash=True)
class GoesWithout:
    """The copy is delivered next, without these causes: their senders were abandoned, and they will not come."""

    copy: Copy
    """the copy that was held"""
    causes: tuple[Cause, ...]
    """what it goes without"""


@dataclass(slots=True, unsafe_hash=True)
class Duplicate:
    """The copy was received before and is ignored."""

    copy: Copy
    """the second copy of its message"""


@dataclass(slots=True, unsafe_hash=True)
class Transmit:
    """Protocol messages, relays and late copies to hand to the network; no event of the application."""

    copies: tuple[Copy, ...]
    """each with its destination"""


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
    """name of the process that sent it"""
    waits_for: tuple[Cause, ...] = ()
    """the missing causes of a held copy"""
    processes: tuple[str, ...] = ()
    """processes whose news a deferred send awaits"""
    reason: str = ""
    """a sentence for the user"""
    label: str | None = None
    """which causal order; None is the one order"""
    ticket: int | None = None
    """number of a deferred send; None for a held copy"""
