"""KS98 section 7.1, asymmetric organization, one extreme: a coordinator multicasts every message serially.

Invariant: the process that sends asks the coordinator; it takes one request after the other and passes each on to its
destinations. Its order is one in which causes come first, and every process delivers in it (`relaying.py`).

Needs a coordinator (option `coordinator`, a name; by default the first of the roster) and a fixed
membership. Waits for more than causes. Cost: one entry on a copy, but two hops for each, and one process
that carries all traffic.

Departures: the coordinator is also an ordinary process. Its own sends need no request; copies to itself
travel like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from thence.core.model.message import Copy
from thence.core.model.roster import Roster
from thence.core.protocols.relaying import MessageNumber, RelayingMember
from thence.core.wire.codec import TEXT, Shape


class Central(RelayingMember):
    """A member that sends everything through one coordinator."""

    name = "central"
    code = 35
    options: ClassVar[dict[str, Shape]] = {"coordinator": TEXT}

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None, coordinator: str = "") -> None:
        """Take the name of the coordinator; the first of the roster unless said."""
        self.coordinator = coordinator or roster.name(0)
        super().__init__(roster, process, [roster.position(self.coordinator)] * len(roster), label=label)

    def _forward(self, message: MessageNumber, destinations: int) -> Iterator[Copy]:
        return self._pass_on(message, destinations, self.roster.everyone)
