"""The efficient causal order algorithm with CI and DC ("efficient-causal-order-ci-dc", 1997).

Invariant: the control information CI holds, per sender, messages with the destinations that may still lack them; at a
send to D, what concerns a destination j moves out of CI into the delivery constraints DC[j], which travel to j alone.
Information about messages just delivered (R4), already delivered or already replaced (R5, R6) and just replaced (S2) is
pruned.

It carries the same facts as `ks` at every event; only the encoding, CI and DC apart, differs (errata 9).

Departures:

- R4 *replaces* the sender's tuple, and the sender adds its own tuple (S5) after the stamp is taken (S4): sender,
  count and destinations stand in the header of the stamp already. Read as a union it would carry 1.8 times the facts.
- R8 is left out: it never fires (errata 9).
"""

from __future__ import annotations

from typing import ClassVar

from thence.core.model.message import MESSAGE, Copy, MessageId
from thence.core.model.roster import Roster, positions
from thence.core.protocols import dependency
from thence.core.protocols.effects import Effect, Sent
from thence.core.protocols.receiver import ClockMember, Needs
from thence.core.wire.codec import INT, ByProcess, RecordShape, Shape
from thence.core.wire.dependency_log_cy import Log
from thence.core.wire.entries import Entries


class CiDc(ClockMember):
    """Least information, split into what travels to all (CI) and what concerns one destination (DC)."""

    name = "ci-dc"
    code = 3
    grows = True
    kinds: ClassVar[dict[str, Shape]] = {MESSAGE: RecordShape(Entries(), ByProcess(INT))}
    fields: ClassVar[dict[str, Shape]] = {"ci": Entries()}

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None) -> None:
        super().__init__(roster, process, label=label)
        self.ci = Log()

    @staticmethod
    def needs(copy: Copy, me: int) -> Needs:
        """R1: wait for every (k, t) in DC; R3 then sets DLV[j] to the copy's count."""
        return list(copy.stamp[1].items())

    def _send(self, destinations: int, context: object, token: object) -> Sent:
        self._no_context(context)
        self.count += 1  # S1
        due = self.ci.union() & destinations
        dc = {d: dict(self.ci.needs(d)) for d in positions(due)}  # S2
        after = self.ci.without(destinations)  # S3
        sent = self._sent(destinations, lambda d: (after, dc.get(d, {})))  # S4
        self.ci = after.appended(self.me, self.count, destinations)  # S5
        return sent

    def _check(self, copy: Copy) -> None:
        ci, dc = copy.stamp
        dependency.check_log(self, copy, ci)
        for sender in dc.keys() & {self.me, copy.sender}:
            self.check_known(copy, sender, dc[sender])

    def _check_state(self) -> None:
        dependency.check_own(self, self.ci)

    def _delivered(self, copy: Copy) -> list[Effect]:
        rest = copy.destinations & ~(self.bit | self.gone)
        ci = copy.stamp[0].appended(copy.sender, copy.count, rest)  # R4
        self.ci = self.ci.merged(ci, self.gone)  # R5, R6, R7, R9
        return []

    def _leave(self, process: int) -> list[Effect]:
        self.ci = self.ci.without(1 << process)
        return []

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count the tuples of CI and of DC."""
        ci, dc = copy.stamp
        return int(ci.entries + len(dc))

    @classmethod
    def facts(cls, copy: Copy) -> int:
        """Count the pairs (message, destination)."""
        ci, dc = copy.stamp
        return int(ci.facts() + len(dc))

    @classmethod
    def paper_bytes(cls, copy: Copy) -> int:
        """CI: a sender (2), a timestamp (4), destinations (2 each); DC: a sender and a timestamp."""
        ci, dc = copy.stamp
        return int(6 * ci.entries + 2 * ci.facts() + 6 * len(dc))

    @classmethod
    def dependencies(cls, copy: Copy) -> list[tuple[MessageId, int]]:
        ci, dc = copy.stamp
        table = dict(dependency.in_the_clear(ci))
        for sender, count in dc.items():
            key = MessageId(sender, count)
            table[key] = table.get(key, 0) | 1 << copy.destination
        return sorted(table.items())

    def log_facts(self) -> set[tuple[MessageId, int]]:
        return dependency.facts_of(self.ci)

    def log_size(self) -> int:
        """Count the tuples of CI."""
        return self.ci.entries
