"""Causal multicast that survives crashes with the least information of KS98, kept per group. In none of the papers.

Invariant: on top of the same OKs and the same hold-back as `a-causal`, a message carries dependency entries "m may
still be on its way to these groups" instead of the matrix nbCast. A fact (m, g) ends when a later message to
g takes over (PC2), or, only if g has a single member, when it is known that m was delivered there (PC1). For
a larger group, that one member has delivered m says nothing of the others, and a failure detector that is
wrong about them may not be used to forget: it would let a member it does not trust deliver a successor before
m.

A message is delivered once it is F-delivered and each message it names as on its way to this group is
delivered here.

One stamp serves all destinations, because the process that relays a message must hand on the facts about every group:
stamps are those of `ks-hardware`, logs are the least. Cost: at most one fact for each sender and group,
usually far fewer.
"""

from __future__ import annotations

from typing import ClassVar

from thence.core.model.message import Copy, MessageId, Stamp
from thence.core.protocols import dependency
from thence.core.protocols.ack_member import AckMember
from thence.core.protocols.ack_receiver import CausedOkays, kinds_of, leaders
from thence.core.protocols.effects import Effect
from thence.core.wire.codec import INT, ByProcess, RecordShape, Shape
from thence.core.wire.dependency_log_cy import Log
from thence.core.wire.entries import Entries

STAMP = RecordShape(ByProcess(INT), Entries())
"""(number among the sender's messages to each group addressed, dependency log)"""


class KsOkays(CausedOkays):
    """After F-delivery, messages wait for what their stamp says is on its way to this group."""

    def number(self, sender: int, stamp: Stamp) -> int:
        """Return the number for this group."""
        number: int = stamp[0].get(self.leader, 0)
        return number

    def mark(self, copy: Copy) -> int:
        """Return the count of the copy's message, which an OK names."""
        return copy.count

    def missing(self, copy: Copy) -> list[tuple[int, int]]:
        """Return the messages on their way to this group that must come first."""
        return [(s, t) for s, t in copy.stamp[1].needs(self.me) if self.delivered[s] < t]


class KsFt(AckMember):
    """Uniform causal multicast that survives crashes, with the least information per group."""

    name = "ks-ft"
    code = 42
    receives = KsOkays
    kinds: ClassVar[dict[str, Shape]] = kinds_of(STAMP)
    fields: ClassVar[dict[str, Shape]] = {**AckMember.fields, "cast": ByProcess(INT), "log": Entries()}

    def begin(self) -> None:
        self.cast: dict[int, int] = {}
        self.log = Log()
        alone = self.receiver.group == self.bit
        self.ended = self.bit if alone else 0

    def stamped(self, destinations: int) -> Stamp:
        """Number the message in each group; end the facts about them (PC2)."""
        addressed = leaders(self.masks, destinations)
        self.cast = self.cast | {g: self.cast.get(g, 0) + 1 for g in addressed}
        stamp = ({g: self.cast[g] for g in addressed}, self.log)
        self.log = self.log.without(destinations).appended(self.me, self.count, destinations)
        return stamp

    def _check_stamp(self, copy: Copy, stamp: Stamp) -> None:
        numbers, log = stamp
        self._numbers_match(copy, numbers)
        dependency.check_log(self, copy, log)

    def _check_state(self) -> None:
        super()._check_state()
        dependency.check_own(self, self.log)

    def _delivered(self, copy: Copy) -> list[Effect]:
        covered = copy.stamp[1].without(copy.destinations)  # PC2
        news = covered.appended(copy.sender, copy.count, copy.destinations & ~self.ended)  # PC1
        self.log = self.log.merged(news)
        return []

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count the dependency entries, empty ones too."""
        log: Log = copy.stamp[1]
        return log.entries

    @classmethod
    def facts(cls, copy: Copy) -> int:
        """Count the pairs (message, process); `group_facts` counts the pairs (message, group)."""
        log: Log = copy.stamp[1]
        return log.facts()

    @classmethod
    def dependencies(cls, copy: Copy) -> list[tuple[MessageId, int]]:
        return dependency.in_the_clear(copy.stamp[1])

    def group_facts(self, log: Log) -> int:
        """Count the pairs (message, group) of a log or stamp."""
        return sum(bool(g & dests) for group in log.values() for _, dests in group for g in self.masks)

    def log_facts(self) -> set[tuple[MessageId, int]]:
        return dependency.facts_of(self.log)

    def log_size(self) -> int:
        """Count the entries of the log."""
        return self.log.entries
