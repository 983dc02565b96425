"""Base of `synchronous` and `acked`: unicasts without control information, one at a time, each
acknowledged.

Invariant: a member has at most one copy on its way; the next may leave when the acknowledgement has come. A copy
is delivered on arrival and acknowledged at once. So whatever a process puts on the network comes after the
delivery of all it put there before, and along a chain of messages that carries over from process to process:
an effect can arrive nowhere before its cause. No stamp is needed; the count in the header tells repeats.
"""

from __future__ import annotations

from typing import ClassVar

from thence.core.model.message import MESSAGE, Copy
from thence.core.model.message_names import name_of
from thence.core.model.roster import Roster
from thence.core.protocols.effects import Duplicate, Effect, Transmit
from thence.core.protocols.receiver import ClockMember, Needs
from thence.core.protocols.unordered import NOTHING
from thence.core.wire.codec import INT, PROCESS, Optional, RecordShape, Shape
from thence.errors import MisuseError, PeerError

ACK = "ack"


class AcknowledgingMember(ClockMember):
    """A member with one copy on its way at most."""

    kinds: ClassVar[dict[str, Shape]] = {MESSAGE: NOTHING, ACK: NOTHING}
    fields: ClassVar[dict[str, Shape]] = {"away": Optional(RecordShape(INT, PROCESS))}

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None) -> None:
        super().__init__(roster, process, label=label)
        self.away: tuple[int, int] | None = None
        """count and destination of the copy that is not acknowledged yet"""

    @staticmethod
    def needs(copy: Copy, me: int) -> Needs:
        """Return no needs: every arrival may be delivered."""
        return ()

    def _one(self, destinations: int) -> int:
        """Return the position of the only destination."""
        if destinations & (destinations - 1):
            found = ", ".join(self.roster.members(destinations))
            raise MisuseError(f"protocol {self.name} is unicast only; a send goes to one process, not to {found}")
        return destinations.bit_length() - 1

    def _check(self, copy: Copy) -> None:
        if copy.destinations & (copy.destinations - 1):
            raise PeerError(f"message {self._name(copy)} goes to more than one; protocol {self.name} is unicast only")
        if copy.kind == ACK and (copy.sender != self.me or copy.destinations != 1 << copy.source):
            source, here = self.roster.name(copy.source), self.roster.name(self.me)
            raise PeerError(f"{source} acknowledges {self._name(copy)} to {here}; whom it went to tells its sender")

    def _check_state(self) -> None:
        if self.away is not None:
            self.check_own(self.away[0])

    def _abandon(self, process: int) -> list[Effect]:
        effects = super()._abandon(process)
        return effects + self._acknowledged() if self.away is not None and self.away[1] == process else effects

    def _delivered(self, copy: Copy) -> list[Effect]:
        ids = (copy.sender, copy.count, copy.destinations)
        return [Transmit((Copy(*ids, self.me, copy.sender, (), copy.label, ACK),))]  # Acknowledge the delivery

    def _arrived(self, copy: Copy) -> list[Effect]:
        if self.away is None or copy.count != self.away[0]:
            return [Duplicate(copy)]
        return self._acknowledged()

    def _acknowledged(self) -> list[Effect]:
        self.away = None  # Take the acknowledgement
        return self._freed()

    def _freed(self) -> list[Effect]:
        """Send the next copy, and those after it while their destination is abandoned and will not answer."""
        raise NotImplementedError

    def _reason(self) -> str:
        assert self.away is not None
        count, destination = self.away
        return f"{self.roster.name(destination)} has not acknowledged {name_of(self.roster.name(self.me), count)}"

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Return 0: a stamp carries no control information."""
        return 0

    @classmethod
    def facts(cls, copy: Copy) -> int:
        """Return 0: a stamp carries no control information."""
        return 0
