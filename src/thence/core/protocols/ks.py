"""Kshemkalyani and Singhal, "Necessary and sufficient conditions on information for causal message ordering", 1998.

Invariant. A member carries on each copy, and keeps in its log, exactly the facts "d is a destination of m" that the
propagation constraints require (section 3.4; `core/model/minimum.py` computes them by definition): a fact ends where m
is known to be delivered to d (PC1) or a later message to d takes over (PC2). Stamps differ per destination: at a send
to D, the facts about D end, except that the copy to d still carries those about d itself.

Needs nothing of the network. Cost: at most n² facts, usually far fewer; entries without destinations count as entries.

Departures from the text of section 4.3:

- RCV(4), first loop, reads `l_{s,t} ∉ LOG`, as its own comment says; `l_{s,t'} ∉ LOG` as printed never holds (errata
  2).
- No initial entries (i, 0, ∅): an absent group says the same (errata 1). No sequence numbers for channels that are not
  FIFO (section 7.1): the delivery condition already orders them (errata 1).
- No look-ahead before delivery (section 4.5): it is unsafe (errata 3). No suppression of duplicate information
  (section 3.5): it is unsafe on top of RCV(4) (errata 4).
- With `explicit=True` a delivery adds nothing to the log: the application merges the contexts of what it has really
  used and hands the result to `send`. A process's own sends stay ordered.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from thence.core.model.message import MESSAGE, Copy, MessageId
from thence.core.model.roster import Roster
from thence.core.protocols import dependency
from thence.core.protocols.effects import Effect, Sent
from thence.core.protocols.receiver import ClockMember, Needs
from thence.core.wire.codec import BOOL, Shape
from thence.core.wire.dependency_log_cy import Log
from thence.core.wire.entries import Entries


class KS(ClockMember):
    """Least information, one stamp per destination."""

    name = "ks"
    code = 1
    kinds: ClassVar[dict[str, Shape]] = {MESSAGE: Entries()}
    fields: ClassVar[dict[str, Shape]] = {"log": Entries()}
    options: ClassVar[dict[str, Shape]] = {"explicit": BOOL}
    grows = True

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None, explicit: bool = False) -> None:
        """Start with an empty log; `explicit` leaves it to the application what a message depends on."""
        super().__init__(roster, process, label=label)
        self.explicit = explicit
        self.log = Log()

    @staticmethod
    def needs(copy: Copy, me: int) -> Needs:
        """RCV(1): each message the stamp says is on its way here; RCV(2) then sets SR_j[k] to the copy's count."""
        needs: Needs = copy.stamp.needs(me)
        return needs

    def _send(self, destinations: int, context: object, token: object) -> Sent:
        before = self._causes(context)
        self.count += 1  # SND(1)
        after = before.without(destinations)  # SND(3), SND(5)
        due = before.union() & destinations

        def stamp(destination: int) -> Log:
            """Return the log after the send, and to d the facts about d itself."""
            bit = 1 << destination
            if not due & bit:
                return after
            return before.without(destinations & ~bit)  # SND(2)

        sent = self._sent(destinations, stamp)
        self.log = after.appended(self.me, self.count, destinations)  # SND(4)
        return replace(sent, context=self.log) if self.explicit else sent

    def _check(self, copy: Copy) -> None:
        dependency.check_log(self, copy, copy.stamp)

    def _check_state(self) -> None:
        dependency.check_own(self, self.log)

    def _delivered(self, copy: Copy) -> list[Effect]:
        if not self.explicit:
            news = copy.stamp.appended(copy.sender, copy.count, copy.destinations)
            self.log = self.log.merged(news, self.bit | self.gone)  # RCV(3), RCV(4), RCV(5)
        return []

    def _learned(self, copy: Copy) -> Log:
        """Return the stamp and the message itself without this destination: RCV(3)."""
        stamp: Log = copy.stamp
        return stamp.appended(copy.sender, copy.count, copy.destinations).without(self.bit | self.gone)

    def _causes(self, context: object) -> Log:
        if context is None:
            return self.log
        given = dependency.given_context(self, context, self.fields["log"], explicit=self.explicit)
        return self.log.merged(given, self.gone)

    def context(self) -> Log:
        """Return the messages that the next message would depend on."""
        return self.log

    def context_of(self, copy: Copy) -> Log:
        return self._learned(copy)

    def merge(self, *contexts: Log) -> Log:
        """Merge contexts: a message that depends on the result depends on all of them."""
        result = Log()
        for context in contexts:
            result = result.merged(dependency.checked_context(self, context, self.fields["log"]))
        return result

    # Section 4.5: a process that joins has clock 0 and no process has an entry of it, so there is nothing to do.

    def _leave(self, process: int) -> list[Effect]:
        self.log = self.log.without(1 << process)
        return []

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count log entries, empty ones too."""
        stamp: Log = copy.stamp
        return stamp.entries

    @classmethod
    def facts(cls, copy: Copy) -> int:
        """Count the pairs (message, destination)."""
        stamp: Log = copy.stamp
        return stamp.facts()

    @classmethod
    def paper_bytes(cls, copy: Copy) -> int:
        """Each entry a sender (2), a timestamp (4) and its destinations (2 each)."""
        return 6 * cls.entries(copy) + 2 * cls.facts(copy)

    @classmethod
    def dependencies(cls, copy: Copy) -> list[tuple[MessageId, int]]:
        return dependency.in_the_clear(copy.stamp)

    def log_facts(self) -> set[tuple[MessageId, int]]:
        return dependency.facts_of(self.log)

    def log_size(self) -> int:
        """Count the entries of the log."""
        return self.log.entries
