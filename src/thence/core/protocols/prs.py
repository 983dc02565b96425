"""Prakash, Raynal and Singhal, "An adaptive causal ordering algorithm suited to mobile computing environments", 1997.

Invariant: CB[d] holds the direct predecessors, with respect to d, of the next message to d: pairs (sender, count),
none of them in DELIVERED[d]. A message carries the whole of CB; d delivers it when the pairs in CB_M[d] are delivered.
A message to d replaces all of CB[d], since whatever comes after it comes after them.

Needs nothing. Cost: the pairs of CB; each names one destination, so there are as many as facts. More than `ks`: that
another process replaced or delivered a message is noticed only where the two steps below notice it.

Reconstructed. The text of this algorithm was not at hand; the papers that compare with it say what it carries and what
it costs. Two prunings follow from what they say, and both are needed to come near their figures:

- *Addressed rows are subtracted.* On delivery of M, for every destination k of M, whatever CB[k] and CB_M[k] both cover
  goes and M takes its place: M itself waits for it at k. CB_M[k] is added for the other k only.
- *A record of deliveries elsewhere.* DELIVERED[j][l] is the latest message of l that j is known to know, and so to have
  delivered if it was addressed to j. It is read from CB_M[me], the row that the delivery test reads, for M from j, and
  takes pairs out of CB[j]. Read from all rows it would prune more; the ci-dc paper has PRS cost more
  than RST past n = 25.

Departures:

- Multicast: a delivery records the message under all its *other* destinations too (errata 10).
- DELIVERED[j][j] is not kept: what a process sent to itself travels like any other copy and may not have arrived.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from thence.core.model.message import MESSAGE, Copy, MessageId
from thence.core.model.roster import Roster, positions
from thence.core.protocols.counts_cy import (
    beyond,
    later_pairs,
    later_rows,
    newest,
    packed,
    pairs_in,
    put_packed,
    replaced_rows,
)
from thence.core.protocols.dependency import by_message
from thence.core.protocols.effects import Effect, Sent
from thence.core.protocols.receiver import ClockMember, Needs
from thence.core.wire.codec import INT, ByProcess, Shape
from thence.core.wire.reader_cy import Reader
from thence.core.wire.sets import Rename

BY_SENDER = ByProcess(INT)
NO_PAIRS = packed(())
PAIR_BYTES = 16
LastCounts = dict[int, bytearray]
"""{destination: packed pairs (sender, count)}; the pairs are shared and never changed in place"""


class PackedPairs(Shape):
    """Packed pairs (process, count): the bytes of a dict from process to count."""

    def write(self, value: bytearray, out: bytearray, size: int) -> None:
        put_packed(out, value)

    def read(self, reader: Reader) -> bytearray:
        return packed(reader.pairs().items())

    def freeze(self, value: bytearray, rename: Rename) -> Hashable:
        return BY_SENDER.freeze(dict(pairs_in(value)), rename)


ROWS = ByProcess(PackedPairs())


class PRS(ClockMember):
    """A member that carries direct predecessors, for each destination."""

    name = "prs"
    code = 7
    entry_bytes = 6  # a sender and a timestamp
    grows = True
    kinds: ClassVar[dict[str, Shape]] = {MESSAGE: ROWS}
    fields: ClassVar[dict[str, Shape]] = {"before": ROWS, "elsewhere": ROWS}

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None) -> None:
        super().__init__(roster, process, label=label)
        self.before: LastCounts = {}
        self.elsewhere: LastCounts = {}
        """by process: the messages addressed to it that it is known to have delivered"""

    @staticmethod
    def needs(copy: Copy, me: int) -> Needs:
        """The direct predecessors with respect to this destination."""
        return pairs_in(copy.stamp.get(me, NO_PAIRS))

    def _send(self, destinations: int, context: object, token: object) -> Sent:
        self._no_context(context)
        self.count += 1
        stamp = self.before  # Stamp with the direct predecessors
        sent = self._sent(destinations, lambda d: stamp)
        message = packed([(self.me, self.count)])
        self.before = stamp | dict.fromkeys(positions(destinations), message)  # Take the place of those before it
        return sent

    def _delivered(self, copy: Copy) -> list[Effect]:
        message, me = packed([(copy.sender, copy.count)]), self.me
        self._note(copy)
        known = self.elsewhere | {me: packed(enumerate(self.receiver.delivered))}
        before = later_rows(self.before, copy.stamp, known, copy.destinations)
        # Subtract the addressed rows of the stamp
        before = replaced_rows(before, copy.stamp, message, known, [*positions(copy.destinations)])
        for d in (me, copy.sender):  # what these know has changed
            before[d] = beyond(before.get(d, NO_PAIRS), known.get(d, NO_PAIRS))  # Prune what is known to be delivered
        self.before = {d: pairs for d, pairs in before.items() if pairs and not self.gone >> d & 1}
        return []

    def _note(self, copy: Copy) -> None:
        """Record what the sender knew, and so had delivered if it was addressed to it; of its own that is unknown."""
        knew = packed(pair for pair in pairs_in(copy.stamp.get(self.me, NO_PAIRS)) if pair[0] != copy.sender)
        if knew and copy.sender != self.me:
            known = later_pairs(self.elsewhere.get(copy.sender, NO_PAIRS), knew, NO_PAIRS)
            self.elsewhere = self.elsewhere | {copy.sender: known}  # DELIVERED: what the sender had delivered

    def _check(self, copy: Copy) -> None:
        for sender in (self.me, copy.sender):
            self.check_known(copy, sender, newest(copy.stamp.values(), sender))

    def _check_state(self) -> None:
        self.check_own(newest(self.before.values(), self.me))

    def _leave(self, process: int) -> list[Effect]:
        self.before = {d: pairs for d, pairs in self.before.items() if d != process}
        self.elsewhere = {d: pairs for d, pairs in self.elsewhere.items() if d != process}
        return []

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count the pairs of destination and predecessor."""
        return sum(map(len, copy.stamp.values())) // PAIR_BYTES

    @classmethod
    def facts(cls, copy: Copy) -> int:
        # Each pair stands under one destination. To sort all of them by message would take 16 times a whole run.
        return cls.entries(copy)

    @classmethod
    def dependencies(cls, copy: Copy) -> list[tuple[MessageId, int]]:
        return by_message((*pair, d) for d, pairs in copy.stamp.items() for pair in pairs_in(pairs))

    def log_size(self) -> int:
        """Count the pairs of destination and predecessor that are kept."""
        return sum(map(len, self.before.values())) // PAIR_BYTES
