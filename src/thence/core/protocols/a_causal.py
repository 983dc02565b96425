"""Schiper and Pedone 2009, "Genuine fifo and causal multicast": A_causal, repaired.

Invariant: nbCast[g][q] is the number of messages from q to group g in the causal past; it travels on every message.
A message that is F-delivered (`ack_receiver.py`) is delivered once nbDel[q] >= nbCast[my group][q] for every q but
its sender.

Departures:

- **The repair (errata 20).** As printed, validity and uniform agreement fail with one crash: a sender's
  message m1 can be lost with it although something that causally follows m1, sent to others, is delivered.
  OKs therefore also go to the sender, and a sender holds x back until each earlier own message not addressed
  within x's destinations is secured. Isolated sends keep two steps; back-to-back sends to different groups
  take four. OKs to senders that are not addressed cost as many messages more as there are addressees.
- Those of `a_fifo.py`: accuracy per group (errata 18), every eligible message is OKed (errata 19).
"""

from __future__ import annotations

from typing import ClassVar, Self

from thence.core.model.message import Copy, Stamp
from thence.core.protocols.ack_member import AckMember
from thence.core.protocols.ack_receiver import GATHERED, CausedOkays, kinds_of, leader, leaders
from thence.core.protocols.base import REACHED
from thence.core.protocols.effects import Effect
from thence.core.wire.codec import INT, ByProcess, Shape, Vector
from thence.errors import PeerError

GROUP_COUNTS = ByProcess(Vector(INT, make=tuple))
"""{first member of a group: one number for each process}; rows are shared and never changed in place"""


def matrix(stamp: Stamp) -> dict[int, tuple[int, ...]]:
    """Return nbCast from a stamp; experiments put something beside it."""
    found: dict[int, tuple[int, ...]] = stamp[0] if isinstance(stamp, tuple) else stamp
    return found


class CausalOkays(CausedOkays):
    """After F-delivery, messages wait for their causes (lines 12-20); `delivered` is nbDel, `waiting` msgLst."""

    def number(self, sender: int, stamp: Stamp) -> int:
        """Return m.nbCast[group(p)][m.sender], which is m.seq of the FIFO multicast beneath."""
        rows = stamp[0] if type(stamp) is tuple else stamp
        number: int = rows[self.leader][sender]
        return number

    def mark(self, copy: Copy) -> int:
        """Return the number that an OK for this copy names (line 17)."""
        return self.number(copy.sender, copy.stamp)

    def missing(self, copy: Copy) -> list[tuple[int, int]]:
        """Lines 10, 11: the (q, k) such that the k-th message of q to this group must come first."""
        row = matrix(copy.stamp)[self.leader]
        return [(q, k) for q, k in enumerate(row) if k > self.delivered[q] and q != copy.sender]


class ACausal(AckMember):
    """Uniform causal multicast that survives crashes, with a matrix of counts."""

    name = "a-causal"
    code = 41
    pairwise = True
    receives = CausalOkays
    kinds: ClassVar[dict[str, Shape]] = kinds_of(GROUP_COUNTS)
    fields: ClassVar[dict[str, Shape]] = {**AckMember.fields, "cast": GROUP_COUNTS}

    def begin(self) -> None:
        self.cast: dict[int, tuple[int, ...]] = dict.fromkeys(map(leader, self.masks), (0,) * self.size)
        self.learnt: list[dict[int, tuple[int, ...]]] = []  # nbCast of what was delivered and is not merged yet

    def stamped(self, destinations: int) -> Stamp:
        """Count one more message for each addressed group, and return the matrix (lines 6-8)."""
        self._merge()
        cast = self.cast.copy()
        for group in leaders(self.masks, destinations):
            row = cast[group]
            cast[group] = (*row[: self.me], row[self.me] + 1, *row[self.me + 1 :])
        self.cast = cast
        return cast

    def _check_stamp(self, copy: Copy, stamp: Stamp) -> None:
        rows = matrix(stamp)
        if rows.keys() != self.cast.keys():
            raise PeerError(f"message {self._name(copy)} has counts for {len(rows)} of {len(self.masks)} groups")
        cast, me = self.cast, self.me
        for group, row in rows.items():
            if row[me] > cast[group][me]:
                to = f"the group of {self.roster.name(group)}, where {cast[group][me]} were sent"
                raise self.beyond(f"{self.roster.name(me)} to {to}", row[me], copy)

    def _check_state(self) -> None:
        super()._check_state()
        if (
            self.cast.keys() != set(map(leader, self.masks))
            or max(row[self.me] for row in self.cast.values()) > REACHED
        ):
            raise PeerError(f"snapshot with counts for {len(self.cast)} of {len(self.masks)} groups")

    def _delivered(self, copy: Copy) -> list[Effect]:
        self.learnt.append(matrix(copy.stamp))
        if len(self.learnt) == GATHERED:
            self._merge()
        return []

    def _merge(self) -> None:
        """Lines 18, 19, for all that was delivered since the last time: no process reads nbCast before the next
        send.
        """
        if self.learnt:
            rows, self.learnt = (self.cast, *self.learnt), []
            self.cast = {g: tuple(map(max, *[each[g] for each in rows])) for g in self.cast}

    def settle(self) -> None:
        """Take over the learnt facts, and forget those that every process knows."""
        super().settle()
        self._merge()

    def fork(self) -> Self:
        """Return an independent copy of this member."""
        forked = super().fork()
        forked.learnt = self.learnt.copy()
        return forked

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count the numbers of the matrix."""
        return sum(map(len, matrix(copy.stamp).values()))

    def log_size(self) -> int:
        """Count the numbers of the matrix."""
        return sum(map(len, self.cast.values()))
