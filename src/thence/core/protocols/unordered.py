"""No order at all: deliver on arrival. A deliberate failure that every check must find on a network that reorders."""

from __future__ import annotations

from typing import ClassVar

from thence.core.model.message import MESSAGE, Copy
from thence.core.model.roster import Roster
from thence.core.protocols.base import Member, Receiver
from thence.core.protocols.effects import Deliver, Duplicate, Effect, Sent
from thence.core.wire.codec import INT, MASK, ByCount, RecordShape, Shape, Vector

NOTHING = RecordShape()
"""The shape of an empty stamp."""


class AnyOrder(Receiver):
    """Delivers every new copy; stores counts as runs, so that a long stream costs little."""

    fields: ClassVar[dict[str, Shape]] = {
        "abandoned": MASK,
        "upto": Vector(INT),
        "beyond": Vector(ByCount(RecordShape())),
    }

    def __init__(self, roster: Roster, me: int) -> None:
        super().__init__(roster, me)
        self.upto = [0] * self.size
        self.beyond: list[dict[int, tuple[()]]] = [{} for _ in range(self.size)]

    def receive(self, copy: Copy) -> list[Effect]:
        """Deliver it unless it was delivered."""
        sender, count = copy.sender, copy.count
        beyond = self.beyond[sender]
        if count <= self.upto[sender] or count in beyond:
            return [Duplicate(copy)]
        beyond[count] = ()
        while self.upto[sender] + 1 in beyond:
            self.upto[sender] += 1
            del beyond[self.upto[sender]]
        return [Deliver(copy)]  # Deliver on arrival

    def pending(self) -> list[tuple[Copy, list[tuple[int, int]]]]:
        """Return no copy, because none is ever held."""
        return []

    def join(self, roster: Roster) -> None:
        """Extend the state by the process that joined."""
        super().join(roster)
        self.upto.append(0)
        self.beyond.append({})


class Unordered(Member):
    """A member that sends without control information, to show what goes wrong."""

    name = "unordered"
    code = 0
    grows = True
    kinds: ClassVar[dict[str, Shape]] = {MESSAGE: NOTHING}

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None) -> None:
        """Keep only the count."""
        super().__init__(roster, process, label=label)
        self.receiver = AnyOrder(roster, self.me)

    def _send(self, destinations: int, context: object, token: object) -> Sent:
        self.count += 1
        return self._sent(destinations, lambda d: ())  # Stamp with nothing

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Return 0: a stamp carries no control information."""
        return 0
