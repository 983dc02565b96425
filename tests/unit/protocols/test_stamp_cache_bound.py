"""What the wire remembers of how stamps begin has a bound."""

from __future__ import annotations

from thence.core.model.roster import Roster
from thence.core.protocols import wire
from thence.protocols import create


def test_no_more_openings_are_remembered_than_said() -> None:
    for number in range(wire.MOST_OPENINGS + 10):
        roster = Roster(("a", "b", f"c{number}"))
        sender, receiver = create("ks", roster, 0), create("ks", roster, 1)
        copy = sender.send(0b10).copies[0]
        assert receiver.decode(sender.encode(copy), source=0) == copy
        assert 0 < len(wire._openings) <= wire.MOST_OPENINGS
