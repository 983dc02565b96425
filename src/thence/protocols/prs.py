"""Prakash, Raynal and Singhal, "An adaptive causal ordering algorithm suited to mobile computing environments", 1997.

Law. CB[d] holds the direct predecessors, with respect to d, of the next message to d: pairs (sender, count). A message
carries the whole of CB; d delivers it when the pairs in CB_M[d] are delivered. A message to d replaces all of CB[d],
since whatever comes after it comes after them.

Needs nothing. Cost: the pairs of CB; each names one destination, so there are as many as facts. More than `ks`: a
pair is dropped when replaced at a send, but not when it is learned that somebody else replaced or delivered it.

Departures:

- Multicast: a delivery records the message under all its *other* destinations too (errata 10).
- The knowledge of deliveries elsewhere (DELIVERED of other processes) is not kept; that the destination itself has
  delivered is. It prunes little, and the paper that compares with this algorithm counts without it.
"""

from __future__ import annotations

from typing import Any, ClassVar

from thence.model.codec import INT, ByProcess, Shape
from thence.model.message import MESSAGE, Copy, MessageId
from thence.model.roster import Roster, positions
from thence.protocols.base import Effect, Sent
from thence.protocols.receiver import ClockMember, Needs

Before = dict[int, dict[int, int]]
"""{destination: {sender: count}}; the inner dicts are shared and never changed in place"""


class PRS(ClockMember):
    """Direct predecessors, per destination."""

    name = "prs"
    code = 7
    kinds: ClassVar[dict[str, Shape]] = {MESSAGE: ByProcess(ByProcess(INT))}
    fields: ClassVar[dict[str, Shape]] = {"before": ByProcess(ByProcess(INT))}

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None) -> None:
        """Start with no predecessors."""
        super().__init__(roster, process, label=label)
        self.before: Before = {}

    @staticmethod
    def needs(copy: Copy, me: int) -> Needs:
        """The direct predecessors with respect to this destination."""
        return tuple(copy.stamp.get(me, {}).items())

    def _send(self, destinations: int, context: Any, token: Any) -> Sent:
        self._no_context(context)
        self.count += 1
        stamp = self.before
        copies = self._copies(destinations, lambda d: stamp)
        mine = {self.me: self.count}
        self.before = stamp | dict.fromkeys(positions(destinations), mine)
        return Sent(MessageId(self.me, self.count), destinations, copies, self.label)

    def _delivered(self, copy: Copy) -> list[Effect]:
        message = {copy.sender: copy.count}
        learned: Before = copy.stamp | dict.fromkeys(positions(copy.destinations), message)
        before = self.before.copy()
        for d, pairs in learned.items():
            before[d] = _later(before.get(d), pairs)
        delivered = self.receiver.delivered  # type: ignore[attr-defined]
        mine = {s: c for s, c in before.get(self.me, {}).items() if delivered[s] < c}
        if mine:
            before[self.me] = mine
        else:
            before.pop(self.me, None)
        self.before = before
        return []

    def _join(self) -> None:
        pass

    def _leave(self, process: int) -> list[Effect]:
        self.before = {d: pairs for d, pairs in self.before.items() if d != process}
        return []

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count the pairs."""
        return sum(map(len, copy.stamp.values()))

    @classmethod
    def facts(cls, copy: Copy) -> int:
        """Each pair stands under one destination."""
        return cls.entries(copy)

    @classmethod
    def paper_bytes(cls, copy: Copy) -> int:
        """A sender (2) and a time-stamp (4) for each pair."""
        return 6 * cls.entries(copy)

    @classmethod
    def dependencies(cls, copy: Copy) -> list[tuple[MessageId, int]]:
        """Return the messages with the destinations they stand under."""
        table: dict[MessageId, int] = {}
        for d, pairs in copy.stamp.items():
            for sender, count in pairs.items():
                key = MessageId(sender, count)
                table[key] = table.get(key, 0) | 1 << d
        return sorted(table.items())

    def log_size(self) -> int:
        """Count the pairs."""
        return sum(map(len, self.before.values()))


def _later(mine: dict[int, int] | None, theirs: dict[int, int]) -> dict[int, int]:
    """Union that keeps the later message of each sender."""
    if mine is None or mine is theirs:
        return theirs
    result = mine.copy()
    for sender, count in theirs.items():
        if result.get(sender, 0) < count:
            result[sender] = count
    return result
