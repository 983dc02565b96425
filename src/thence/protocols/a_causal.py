"""Schiper and Pedone 2009, "Genuine fifo and causal multicast": A_causal, repaired.

Law. nbCast[g][q] is the number of messages from q to group g in the causal past; it travels on every message.
A message that is F-delivered (`okays.py`) is delivered once nbDel[q] >= nbCast[my group][q] for every q but
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

from typing import Any, ClassVar

from thence.model.codec import INT, ByProcess, Shape, Vector
from thence.model.message import Copy
from thence.protocols.clocks import later
from thence.protocols.effects import Effect
from thence.protocols.ok_member import OkMember
from thence.protocols.okays import CausedOkays, kinds_of, leader

MATRIX = ByProcess(Vector(INT, make=tuple))
"""{first member of a group: one number for each process}; rows are shared and never changed in place"""


def matrix(stamp: Any) -> dict[int, tuple[int, ...]]:
    """Return nbCast from a stamp; experiments put something beside it."""
    found: dict[int, tuple[int, ...]] = stamp[0] if isinstance(stamp, tuple) else stamp
    return found


class CausalOkays(CausedOkays):
    """After F-delivery, messages wait for their causes (lines 12-20); `delivered` is nbDel, `waiting` msgLst."""

    def number(self, sender: int, stamp: Any) -> int:
        """Return m.nbCast[group(p)][m.sender], which is m.seq of the FIFO multicast beneath."""
        number: int = matrix(stamp)[self.leader][sender]
        return number

    def mark(self, copy: Copy) -> int:
        """Line 17."""
        return self.number(copy.sender, copy.stamp)

    def missing(self, copy: Copy) -> list[tuple[int, int]]:
        """Lines 10, 11: the (q, k) such that the k-th message of q to this group must come first."""
        row = matrix(copy.stamp)[self.leader]
        return [(q, k) for q, k in enumerate(row) if k > self.delivered[q] and q != copy.sender]


class ACausal(OkMember):
    """Uniform causal multicast that survives crashes, with a matrix of counts."""

    name = "a-causal"
    code = 41
    pairwise = True
    receives = CausalOkays
    kinds: ClassVar[dict[str, Shape]] = kinds_of(MATRIX)
    fields: ClassVar[dict[str, Shape]] = {**OkMember.fields, "cast": MATRIX}

    def begin(self) -> None:
        """Start with nothing multicast."""
        self.cast: dict[int, tuple[int, ...]] = {leader(g): (0,) * self.size for g in self.masks}

    def stamped(self, destinations: int) -> Any:
        """Lines 6-8."""
        cast = self.cast.copy()
        for group in self.masks:
            if group & destinations:
                row = cast[leader(group)]
                cast[leader(group)] = (*row[: self.me], row[self.me] + 1, *row[self.me + 1 :])
        self.cast = cast
        return cast

    def _delivered(self, copy: Copy) -> list[Effect]:
        theirs = matrix(copy.stamp)  # lines 18, 19
        self.cast = {g: later(row, theirs[g]) for g, row in self.cast.items()}
        return []

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count the numbers of the matrix."""
        return sum(map(len, matrix(copy.stamp).values()))

    def log_size(self) -> int:
        """Count the numbers of the matrix."""
        return sum(map(len, self.cast.values()))
