"""Raynal, Schiper and Toueg, "The causal ordering abstraction and a simple way to implement it", 1991.

Invariant: SENT[k][l] counts the messages from k to l that a member knows of; each message carries the whole matrix as
it was before the send. A copy is delivered at j when, for every k, j has delivered SENT_M[k][j] messages of k.

Needs nothing. Cost: n² numbers on every copy. Messages are numbered per pair of processes.

Departures:

- Multicast: on delivery the message counts as sent to *all* its destinations, not only to the one that delivers it;
  the unicast text used on multicast is unsafe (errata 10).
- The number of a message is taken from its stamp (SENT_M[i][j] + 1) and merged by maximum. Adding one to the
  receiver's own SENT[i][j], as printed, counts a self-addressed message twice and blocks (errata 11).
"""

from __future__ import annotations

from typing import ClassVar

from thence.core.model.message import MESSAGE, Copy
from thence.core.model.roster import Roster, positions
from thence.core.protocols.base import COUNT_MAX, REACHED
from thence.core.protocols.counts_cy import later
from thence.core.protocols.effects import Effect, Sent
from thence.core.protocols.receiver import ClockMember, Needs
from thence.core.wire.codec import INT, Shape, Vector
from thence.errors import PeerError

MatrixRow = tuple[int, ...]
MATRIX_SHAPE = Vector(Vector(INT, make=tuple), make=tuple)


class RST(ClockMember):
    """The matrix of messages sent."""

    name = "rst"
    code = 4
    pairwise = True
    grows = True
    kinds: ClassVar[dict[str, Shape]] = {MESSAGE: MATRIX_SHAPE}
    fields: ClassVar[dict[str, Shape]] = {"sent": MATRIX_SHAPE}

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None) -> None:
        super().__init__(roster, process, label=label)
        self.sent: tuple[MatrixRow, ...] = ((0,) * self.size,) * self.size

    @staticmethod
    def needs(copy: Copy, me: int) -> Needs:
        """Return the needs: for every k, DELIV[k] >= SENT_M[k][me]."""
        return [(k, row[me]) for k, row in enumerate(copy.stamp) if me < len(row) and row[me]]

    @staticmethod
    def gives(copy: Copy, me: int) -> int:
        """Return the message's number among its sender's messages to this destination."""
        row = copy.stamp[copy.sender]
        return (row[me] if me < len(row) else 0) + 1

    def _send(self, destinations: int, context: object, token: object) -> Sent:
        self._no_context(context)
        self.count += 1
        stamp = self.sent  # SENT_M := SENT
        sent = self._sent(destinations, lambda d: stamp)
        self.sent = _bumped(stamp, self.me, destinations)  # SENT[i, j] := SENT[i, j] + 1
        return sent

    def _delivered(self, copy: Copy) -> list[Effect]:
        theirs = _bumped(_padded(copy.stamp, self.size), copy.sender, copy.destinations)  # SENT_M[i, j] + 1
        self.sent = tuple(map(later, self.sent, theirs))  # SENT := max(SENT, SENT_M)
        return []

    def _check(self, copy: Copy) -> None:
        if self.me < len(copy.stamp):
            for d, (stamped, sent) in enumerate(zip(copy.stamp[self.me], self.sent[self.me], strict=False)):
                if stamped > sent:
                    name, to = self.roster.name(self.me), self.roster.name(d)
                    raise self.beyond(f"{name} to {to}, who was sent {sent}", stamped, copy)
        most = max(copy.stamp[copy.sender])
        if most > COUNT_MAX:
            raise self.beyond(f"its sender to a process, where {COUNT_MAX} is the most", most, copy)

    def _check_state(self) -> None:
        if max(self.sent[self.me]) > REACHED:
            raise PeerError(f"snapshot with a count above {REACHED}")

    def _join(self) -> None:
        self.sent = _padded(self.sent, self.size)

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count the n² numbers of the matrix."""
        return len(copy.stamp) ** 2

    def log_size(self) -> int:
        """Count the n² numbers of the matrix."""
        return self.size**2


def _bumped(matrix: tuple[MatrixRow, ...], sender: int, destinations: int) -> tuple[MatrixRow, ...]:
    row = list(matrix[sender])
    for d in positions(destinations):
        row[d] += 1
    return (*matrix[:sender], tuple(row), *matrix[sender + 1 :])


def _padded(matrix: tuple[MatrixRow, ...], size: int) -> tuple[MatrixRow, ...]:
    if len(matrix) == size:
        return matrix
    more = size - len(matrix)
    return tuple(row + (0,) * more for row in matrix) + ((0,) * size,) * more
