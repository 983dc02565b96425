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

from whence.model.codec import INT, ByProcess, Seq, Shape, Vector
from whence.model.message import MESSAGE, Copy
from whence.model.roster import Roster
from whence.protocols.base import CopyShape
from whence.protocols.effects import Deliver, Effect
from whence.protocols.ok_member import OkMember
from whence.protocols.okays import OK, OkReceiver, leader

MATRIX = ByProcess(Vector(INT, make=tuple))
"""{first member of a group: one number for each process}; rows are shared and never changed in place"""


def matrix(stamp: Any) -> dict[int, tuple[int, ...]]:
    """Return nbCast from a stamp; experiments put something beside it."""
    found: dict[int, tuple[int, ...]] = stamp[0] if isinstance(stamp, tuple) else stamp
    return found


class CausalOkays(OkReceiver):
    """After F-delivery, messages wait for their causes."""

    def __init__(self, roster: Roster, me: int, groups: tuple[int, ...], kinds: dict[str, Shape]) -> None:
        """Start with nothing delivered."""
        super().__init__(roster, me, groups, kinds)
        self.delivered = [0] * self.size
        self.waiting: list[Copy] = []

    def more_fields(self) -> dict[str, Shape]:
        """nbDel and msgLst."""
        return {"delivered": Vector(INT), "waiting": Seq(CopyShape(self.kinds))}

    def number(self, copy: Copy) -> int:
        """Return m.nbCast[group(p)][m.sender], which is m.seq of the FIFO multicast beneath."""
        number: int = matrix(copy.stamp)[self.leader][copy.sender]
        return number

    def f_delivered(self, copy: Copy) -> list[Effect]:
        """Lines 12-20."""
        self.waiting.append(copy)  # line 13
        effects: list[Effect] = []
        while True:
            ready = next((c for c in self.waiting if not self.missing(c)), None)  # lines 14, 15
            if ready is None:
                return effects
            self.waiting.remove(ready)  # line 20
            self.delivered[ready.sender] = self.number(ready)  # line 17
            effects.append(Deliver(ready))  # line 16

    def missing(self, copy: Copy) -> list[tuple[int, int]]:
        """Lines 10, 11: the (q, k) such that the k-th message of q to this group must come first."""
        row = matrix(copy.stamp)[self.leader]
        return [(q, k) for q, k in enumerate(row) if q != copy.sender and k > self.delivered[q]]

    def pending(self) -> list[tuple[Copy, list[tuple[int, int]]]]:
        """Return what is not F-delivered, and what waits for causes."""
        return super().pending() + [(copy, self.missing(copy)) for copy in self.waiting]


class ACausal(OkMember):
    """Uniform causal multicast that survives crashes, with a matrix of counts."""

    name = "a-causal"
    code = 41
    pairwise = True
    kinds: ClassVar[dict[str, Shape]] = {MESSAGE: MATRIX, OK: MATRIX}
    fields: ClassVar[dict[str, Shape]] = {**OkMember.fields, "cast": MATRIX}

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None, groups: str = "") -> None:
        """Start with nothing multicast."""
        super().__init__(roster, process, label=label, groups=groups)
        self.cast: dict[int, tuple[int, ...]] = {leader(g): (0,) * self.size for g in self.masks}

    def make_receiver(self) -> OkReceiver:
        """Return the receiver of causal multicast."""
        return CausalOkays(self.roster, self.me, self.masks, self.kinds)

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
        self.cast = {g: row if row == theirs[g] else tuple(map(max, row, theirs[g])) for g, row in self.cast.items()}
        return []

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count the numbers of the matrix."""
        return sum(map(len, matrix(copy.stamp).values()))

    def log_size(self) -> int:
        """Count the numbers of the matrix."""
        return sum(map(len, self.cast.values()))
