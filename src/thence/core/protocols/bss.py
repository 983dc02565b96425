"""Birman, Schiper and Stephenson, "Lightweight causal and atomic group multicast", 1991: vector clocks for broadcast.

Invariant: a broadcast goes to all others. It carries a vector: of each process the number of its broadcasts in the
causal past. A copy is delivered when that many broadcasts of each process, the destination's own left aside, have been
delivered.

Needs: broadcast only, fixed membership. On a multicast a process would wait for messages it never gets (errata 12),
so a send to anything but all others is refused. Cost: n numbers.

Departures: the sender's own component is the number of its *previous* broadcasts; the count of this one is in the
header.
"""

from __future__ import annotations

from typing import ClassVar

from thence.core.model.message import MESSAGE, Copy
from thence.core.protocols.effects import Sent
from thence.core.protocols.receiver import ClockMember, Needs
from thence.core.wire.codec import INT, Shape, Vector
from thence.errors import MisuseError


class BSS(ClockMember):
    """The vector of broadcasts, made of the delivered clock and the process's own count."""

    name = "bss"
    code = 5
    kinds: ClassVar[dict[str, Shape]] = {MESSAGE: Vector(INT, make=tuple)}

    @staticmethod
    def needs(copy: Copy, me: int) -> Needs:
        """Return all broadcasts that the sender knew of, except this destination's own."""
        return [(k, count) for k, count in enumerate(copy.stamp) if count and k != me]  # Need all that the sender knew

    def _send(self, destinations: int, context: object, token: object) -> Sent:
        self._no_context(context)
        self._check_destinations(destinations)
        vector = self.receiver.delivered[:]  # Stamp with the vector of broadcasts
        vector[self.me] = self.count
        self.count += 1
        stamp = tuple(vector)
        return self._sent(destinations, lambda d: stamp)

    def _check_destinations(self, destinations: int) -> None:
        check_broadcast(self, destinations)

    def _check(self, copy: Copy) -> None:
        if copy.stamp[copy.sender] != copy.count - 1:
            raise self.beyond(f"the same sender, where {copy.count - 1} is expected", copy.stamp[copy.sender], copy)
        self.check_known(copy, self.me, copy.stamp[self.me])

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count the n numbers of the vector clock."""
        return len(copy.stamp)

    def log_size(self) -> int:
        """Count the n numbers of the vector clock."""
        return self.size


def check_broadcast(member: ClockMember, destinations: int) -> None:
    """Refuse destinations other than all others."""
    others = member.roster.everyone & ~member.bit
    if destinations != others:
        found = ", ".join(member.roster.members(destinations))
        wanted = ", ".join(member.roster.members(others))
        raise MisuseError(
            f"protocol {member.name} is broadcast only: {member.roster.name(member.me)} sends to {found}; "
            f"it must be {wanted}"
        )
