"""Schiper and Pedone, "Genuine fifo and causal multicast algorithms", Lugano TR 2009/003: A_fifo.

Invariant: each message carries its number among its sender's messages to each group addressed. It is F-delivered in
that order, once all trusted members of every group addressed have OKed it (`ack_receiver.py`). Any number of
processes may crash; links are quasi-reliable; only the sender and the addressees of a message take part in
delivering it; an isolated message takes two steps.

Departures:

- The failure detector is accurate in each group, not only in the system (errata 18; `core/model/faults.py`).
- Line 20: every message that becomes the next one is OKed, not some one (errata 19).
- Only the numbers for the groups addressed travel; the others are never read.
- A process counts its own OK at once instead of sending it to itself.
- Nothing is kept of a message once it is known to be delivered wherever that is owed; msgSet only grows in the
  text.
- OKs do not go to a sender that is not addressed, and no send is held back: FIFO order does not need the
  repair of A_causal.
"""

from __future__ import annotations

from typing import ClassVar

from thence.core.model.message import Copy, Stamp
from thence.core.protocols.ack_member import AckMember
from thence.core.protocols.ack_receiver import AckReceiver, kinds_of, leaders
from thence.core.wire.codec import INT, ByProcess, Shape


class FifoOkays(AckReceiver):
    """The receiver for FIFO order, where F-delivery is delivery."""

    to_sender = False

    def number(self, sender: int, stamp: Stamp) -> int:
        """Return m.seq[group(p)], the number of the message in this process's group."""
        number: int = stamp.get(self.leader, 0)
        return number


class AFifo(AckMember):
    """Uniform FIFO multicast that survives crashes."""

    name = "a-fifo"
    code = 40
    kinds: ClassVar[dict[str, Shape]] = kinds_of(ByProcess(INT))
    fields: ClassVar[dict[str, Shape]] = {**AckMember.fields, "cast": ByProcess(INT)}
    hold_back = False
    receives = FifoOkays

    def begin(self) -> None:
        self.cast: dict[int, int] = {}

    def stamped(self, destinations: int) -> Stamp:
        """Count one more message for each addressed group, and return those counts (lines 6-8)."""
        addressed = leaders(self.masks, destinations)
        self.cast = self.cast | {g: self.cast.get(g, 0) + 1 for g in addressed}
        return {g: self.cast[g] for g in addressed}

    def _check_stamp(self, copy: Copy, stamp: Stamp) -> None:
        self._numbers_match(copy, stamp)

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count one number for each addressed group."""
        return len(copy.stamp)
