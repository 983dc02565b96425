"""FIFO order only: messages of one sender to one destination in the order they were sent; nothing across senders.

A baseline, and the second deliberate failure: on a network that reorders, the audit must find its violations. Cost: one
number, the sender's previous message to that destination.
"""

from __future__ import annotations

from typing import ClassVar

from thence.core.model.message import MESSAGE, Copy
from thence.core.model.roster import Roster, positions
from thence.core.protocols.effects import Effect, Sent
from thence.core.protocols.receiver import ClockMember, Needs
from thence.core.wire.codec import INT, ByProcess, Shape


class Fifo(ClockMember):
    """The previous message to the same destination."""

    name = "fifo"
    code = 6
    grows = True
    kinds: ClassVar[dict[str, Shape]] = {MESSAGE: INT}
    fields: ClassVar[dict[str, Shape]] = {"last": ByProcess(INT)}

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None) -> None:
        super().__init__(roster, process, label=label)
        self.last: dict[int, int] = {}

    @staticmethod
    def needs(copy: Copy, me: int) -> Needs:
        """The sender's previous message to here."""
        return ((copy.sender, copy.stamp),) if copy.stamp else ()

    def _send(self, destinations: int, context: object, token: object) -> Sent:
        self._no_context(context)
        self.count += 1
        sent = self._sent(destinations, lambda d: self.last.get(d, 0))  # Name the message before to each
        for d in positions(destinations):
            self.last[d] = self.count
        return sent

    def _check(self, copy: Copy) -> None:
        self.check_known(copy, copy.sender, copy.stamp)

    def _check_state(self) -> None:
        self.check_own(max(self.last.values(), default=0))

    def _leave(self, process: int) -> list[Effect]:
        self.last.pop(process, None)
        return []

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Return 1: a stamp carries the sender's count for this destination."""
        return 1

    def log_size(self) -> int:
        """Count the numbers kept, one for each destination so far."""
        return len(self.last)
