"""Krishnamurthy and Mukund, Protocol 3: timestamps (epoch, t) with only three values for the epoch.

Invariant: a process counts its sends t within an epoch, and enters the next epoch once it knows that every other
process knows of the present one. So its messages of epoch n are all delivered before it enters epoch n + 2
(Lemma 4.1), and stamps that must be compared lie at most one epoch apart. Three values then suffice, *if*
stamps that are older still are forgotten before their value comes round again: of a process known to be in
epoch g, only g, g - 1 and null are ever kept.

Needs a fixed membership, and a receiver that knows of its own process's sends and sees arrivals in the order of
the run: an epoch turns because of what this process sent, so copies recorded once and replayed in another order,
which absolute stamps would bear, cannot be distinguished by three values. Gives causal order, waiting for causes only,
on any network, in the very executions that unbounded epochs would give. Cost: 2n² timestamps; t grows while a process
keeps silent. A system of one process stays in its first epoch: no other process can acknowledge it.

A stamp is one number: 0 for null, else 3(t - 1) + epoch + 1.

Departures (errata 22; all the rest is `gossip`'s):

- Null is a value of its own, below everything. As (0, 0) it equals a stamp of every third epoch.
- Ageing. When the epoch g of r is learned, stamps of r that read g + 1 (they are g - 2) become null: in
  DELIV at once, in SENT at r's own send, from where whole rows spread. As printed, they are kept and compare
  as equal or newer.
- The delivery test ages DELIV[r] against the copy's own gossip of r first; that can be one epoch ahead.
- For r = me (self-addressed copies) both sides of the test are aged against one's own clock: a copy on its
  way to me knows my epoch or the one before.
"""

from __future__ import annotations

from typing import ClassVar

from thence.core.model.message import Copy
from thence.core.model.roster import Roster
from thence.core.protocols.base import REACHED
from thence.core.protocols.effects import Effect
from thence.core.protocols.gossip import Gossip, Times
from thence.core.protocols.timestamp_vectors import NULL
from thence.core.wire.codec import INT, Shape
from thence.errors import PeerError


class ThreeEpochs(Times):
    """Stamps compared modulo 3, which is right for stamps at most one epoch apart."""

    values = 3

    def stamp(self, epoch: int, tick: int) -> int:
        """Pack the tick-th send of an epoch; ticks count from 1."""
        return 3 * (tick - 1) + epoch + 1

    def in_epoch(self, stamp: int, epoch: int) -> bool:
        """Return whether a stamp belongs to an epoch."""
        return stamp != NULL and (stamp - 1) % 3 == epoch

    def later(self, one: int, other: int) -> bool:
        """One is later if its epoch follows the other's, or is the same and t is larger."""
        if one == NULL or other == NULL:
            return one != NULL
        ahead = (one - other) % 3
        return ahead == 1 or (ahead == 0 and one > other)

    def aged(self, stamp: int, latest: int) -> int:
        """Forget a stamp two epochs old, which reads as one ahead."""
        return NULL if stamp and latest and (stamp - latest) % 3 == 1 else stamp


class Epochs(Gossip):
    """Protocol 3, its epochs modulo 3."""

    name = "epochs"
    code = 21
    pairwise = True
    fields: ClassVar[dict[str, Shape]] = {**Gossip.fields, "epoch": INT, "ticks": INT}
    times: ClassVar[ThreeEpochs] = ThreeEpochs()

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None) -> None:
        super().__init__(roster, process, label=label)
        self.epoch = 0
        self.ticks = 0
        self.receiver.turn(self.times.stamp(0, 1))

    def _tick(self) -> int:
        self.ticks += 1  # Increment T.t
        return self.times.stamp(self.epoch, self.ticks)

    def _check(self, copy: Copy) -> None:
        """Accept any epoch, since three values cannot distinguish future from old: docs/explanation/lying-peers.md."""
        if copy.stamp[0][copy.sender][copy.sender] == NULL:
            raise PeerError(f"the stamp of {self._name(copy)} has no time of its own; a send has one")

    def _check_state(self) -> None:
        if self.epoch >= self.times.values or self.ticks > REACHED:
            raise PeerError(f"snapshot in epoch {self.epoch} with {self.ticks} sends")
        if self.receiver.now != self.times.stamp(self.epoch, 1):
            raise PeerError(f"snapshot in epoch {self.epoch} whose receiver is at {self.receiver.now}")

    def _unaware(self) -> list[int]:
        """Return the other processes not known to know of the present epoch."""
        me, epoch, in_epoch = self.me, self.epoch, self.times.in_epoch
        return [r for r, row in enumerate(self.gossip) if r != me and not in_epoch(row[me], epoch)]

    def _delivered(self, copy: Copy) -> list[Effect]:
        super()._delivered(copy)
        if self.size > 1 and not self._unaware():  # If GOSSIP[r, q].e = T.e for all r
            self.epoch = (self.epoch + 1) % self.times.values  # T.e := T.e + 1 mod 3
            self.ticks = 0  # T.t := 0
            self.receiver.turn(self.times.stamp(self.epoch, 1))
        return []
