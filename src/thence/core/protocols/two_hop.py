"""KS98 section 7.1, Lemma 8: causal order over chains of at most two messages, with O(n) control information.

Invariant: a member keeps, for each process i, the latest message of i to each process, as of i's latest message
delivered here; and the same of its own. A copy to k carries (1) the latest message of its sender to each
process and (2) the latest message of each process to k that its sender knows of in this way. It is delivered
at k after all of (2).

Needs a fixed membership. Gives not causal order but `two-hop`: m before m' at a common destination if one
process sent both, or if the sender of m' had delivered m or a later message of m's sender. Waits for causes
only. Cost: 2n entries on a copy, n² at a member. Chains of three messages break it, and need n² (Theorem 8):
`a!1>d a!2>b b<a2 b!1>c c<b1 c!1>d` delivers c1 at d before a1.

Departures: only (1) is taken over at a delivery. The proof says "(1) and (2)", but (2) speaks of messages to
the receiver itself, which it has just delivered. Multicast: the message itself counts as sent to all its
destinations.
"""

from __future__ import annotations

from typing import ClassVar

from thence.core.model.message import MESSAGE, Copy, MessageId
from thence.core.model.roster import Roster, positions
from thence.core.protocols.dependency import by_message
from thence.core.protocols.effects import Effect, Sent
from thence.core.protocols.receiver import ClockMember, Needs
from thence.core.wire.codec import INT, RecordShape, Shape, Vector

MatrixRow = tuple[int, ...]
ROW_SHAPE = Vector(INT, make=tuple)


class TwoHop(ClockMember):
    """A row of one's own sends and a column for the destination."""

    name = "two-hop"
    code = 34
    kinds: ClassVar[dict[str, Shape]] = {MESSAGE: RecordShape(ROW_SHAPE, ROW_SHAPE)}
    fields: ClassVar[dict[str, Shape]] = {"sent": Vector(ROW_SHAPE)}

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None) -> None:
        super().__init__(roster, process, label=label)
        self.sent: list[MatrixRow] = [(0,) * self.size] * self.size
        """sent[i][k]: count of the latest message of i to k, as of i's latest message delivered here"""

    @staticmethod
    def needs(copy: Copy, me: int) -> Needs:
        """Return what condition (2) requires: every non-zero count of the second row."""
        return [(i, count) for i, count in enumerate(copy.stamp[1]) if count]

    def _send(self, destinations: int, context: object, token: object) -> Sent:
        self._no_context(context)
        self.count += 1
        row = self.sent[self.me]  # Stamp with (1) one's latest message to each and (2) the latest of each to here
        sent = self._sent(destinations, lambda d: (row, tuple([to[d] for to in self.sent])))
        self.sent[self.me] = _with(row, destinations, self.count)
        return sent

    def _delivered(self, copy: Copy) -> list[Effect]:
        if copy.sender != self.me:
            self.sent[copy.sender] = _with(copy.stamp[0], copy.destinations, copy.count)  # Update with (1)
        return []

    def _check(self, copy: Copy) -> None:
        row, column = copy.stamp
        self.check_known(copy, copy.sender, max(row))
        self.check_known(copy, copy.sender, column[copy.sender])
        self.check_known(copy, self.me, column[self.me])

    def _check_state(self) -> None:
        self.check_own(max(self.sent[self.me]))

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count the numbers of both rows."""
        return 2 * len(copy.stamp[0])

    @classmethod
    def dependencies(cls, copy: Copy) -> list[tuple[MessageId, int]]:
        row, column = copy.stamp
        facts = [(copy.sender, count, d) for d, count in enumerate(row)]
        facts += [(sender, count, copy.destination) for sender, count in enumerate(column)]
        return by_message(fact for fact in facts if fact[1])

    def log_size(self) -> int:
        """Count the n² numbers of the matrix."""
        return self.size**2


def _with(row: MatrixRow, destinations: int, count: int) -> MatrixRow:
    changed = list(row)
    for d in positions(destinations):
        changed[d] = count
    return tuple(changed)
