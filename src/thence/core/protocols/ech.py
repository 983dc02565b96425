"""Rodrigues and Veríssimo, "Causal separators and topological timestamping", 1995: extended causal histories, R1 to R8.

Invariant: a member keeps a causal history H of messages with their addresses A, and for each of them a carbon copy C:
the processes to which it has already been reported. A message m is stamped with the elements of H not yet reported to
all of its address (R7); it is delivered at q when every element of its stamp that is addressed to q is in q's delivery
history (R3). An element reported to its whole address is dropped (R8).

Needs nothing. Cost: the elements of the history, of each sender at most one for each process, since a later message to
the same takes over. Unlike `ks` it remembers what it sent to a destination, and can
therefore go below the propagation constraints on some copies (errata 8). With `carbon=True` stamps carry the carbon
copies too (R6.1): fewer elements, more bytes.

With `explicit=True` (chapter 6) histories are in the hands of the application: a delivery adds nothing to H, the
application merges the histories of what it has really used and hands the result to `send`. That a process was informed
of an element stands in the same history as the message that informed it, so merging keeps every carbon copy true, and
R8 drops from a merged history what it drops from one's own. R7 then leaves nothing out (errata 34). A process's own
sends stay ordered.

Departures:

- R5, `is-in`: some n *from the same sender* with c_m <= c_n; without those words it is unsafe (errata 14). That is
  the shared rule of `receiver.py`.
- R4: at a send, `D_q` means the sender's own delivery history; and since self-addressed copies travel like any other
  here, a send adds nothing to it. For the same reason a carbon copy names the sender of a self-addressed message
  (R6.2, R6.3) only once that process has delivered it.
- R6.3 lets an element that *arrives* learn from later ones of its sender that are there; here one that is there learns
  from later ones that arrive, too, by the same argument. Without that, histories grow forever (errata 27): a process
  that never speaks to x never learns that newer messages to x have taken over from older ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

from thence.core.model.message import MESSAGE, Copy, MessageId
from thence.core.model.roster import Roster
from thence.core.protocols import dependency
from thence.core.protocols.effects import Effect, Sent
from thence.core.protocols.receiver import ClockMember, Needs
from thence.core.wire.codec import ADDED, BOOL, MASK, ByCount, ByProcess, RecordShape, Shape
from thence.core.wire.dependency_log_cy import Group, Log
from thence.core.wire.entries import Entries

Elements = dict[int, dict[int, tuple[int, int]]]
"""{sender: {count: (A, C)}}"""


class ECH(ClockMember):
    """Causal histories with carbon copies."""

    name = "ech"
    code = 10
    grows = True
    options: ClassVar[dict[str, Shape]] = {"carbon": BOOL, "explicit": ADDED}
    kinds: ClassVar[dict[str, Shape]] = {MESSAGE: RecordShape(Entries(), Entries())}
    fields: ClassVar[dict[str, Shape]] = {"history": ByProcess(ByCount(RecordShape(MASK, MASK)))}

    def __init__(
        self,
        roster: Roster,
        process: str | int,
        *,
        label: str | None = None,
        carbon: bool = False,
        explicit: bool = False,
    ) -> None:
        """R1: start empty; `carbon` turns on R6.1, `explicit` leaves it to the application what a message follows."""
        super().__init__(roster, process, label=label)
        self.carbon, self.explicit = carbon, explicit
        self.history: Elements = {}

    @staticmethod
    def needs(copy: Copy, me: int) -> Needs:
        """R3 with R5: the elements of the stamp that are addressed here."""
        needs: Needs = copy.stamp[0].needs(me)
        return needs

    def _send(self, destinations: int, context: object, token: object) -> Sent:
        if context is not None:
            self.history = self._causes(context)
        self.count += 1  # R2
        stamp = self._stamp(destinations)
        sent = self._sent(destinations, lambda d: stamp)
        for sender, elements in self.history.items():  # R6.2
            for count, (address, reported) in elements.items():
                elements[count] = (address, reported | destinations | self._aware(self.me, sender, address))
        self.history.setdefault(self.me, {})[self.count] = (destinations, 0)  # R4
        self._forget()
        return replace(sent, context=self.context()) if self.explicit else sent

    def _stamp(self, destinations: int) -> tuple[Log, Log]:
        """R7, and R6.1 if asked; an application may hold nothing of what its process knows (errata 34)."""
        addresses: dict[int, Group] = {}
        copies: dict[int, Group] = {}
        for sender, elements in self.history.items():
            chosen = [
                (c, a, reported) for c, (a, reported) in elements.items() if self.explicit or destinations & ~reported
            ]
            if chosen:
                chosen.sort()
                addresses[sender] = tuple((c, a) for c, a, _ in chosen)
                if self.carbon:
                    copies[sender] = tuple((c, reported) for c, _, reported in chosen)
        return Log(addresses), Log(copies)

    def _check(self, copy: Copy) -> None:
        addresses, carbon = copy.stamp
        dependency.check_log(self, copy, addresses)
        dependency.check_log(self, copy, carbon)

    def _check_state(self) -> None:
        self.check_own(max(self.history.get(self.me, ()), default=0))

    def _delivered(self, copy: Copy) -> list[Effect]:
        sender, address = copy.sender, copy.destinations
        if sender == self.me:  # its own copy came back: R6.3 covers other processes only
            element = self.history.get(sender, {}).get(copy.count)
            if element is not None:
                self.history[sender][copy.count] = (address, element[1] | self.bit)
        elif not self.explicit:
            self._learn(self.history, copy)
        self._forget()
        return []

    def _learn(self, history: Elements, copy: Copy) -> None:
        """Add a delivered message and its stamp to a history."""
        sender, address = copy.sender, copy.destinations
        for count, (a, reported) in history.get(sender, {}).items():  # R6.3, elements of the same sender
            if count < copy.count:
                history[sender][count] = (a, reported | address)
        stamped, carbon = (log.groups() for log in copy.stamp)
        for source, group in stamped.items():  # R6.3, elements of the stamp
            carbon_copies = dict(carbon.get(source, ()))
            elements = history.setdefault(source, {})
            for count, a in group:
                reported = carbon_copies.get(count, 0) | address | self._aware(sender, source, a)
                elements[count] = (a, reported | elements.get(count, (a, 0))[1])
        own = history.setdefault(sender, {})
        _, reported = own.get(copy.count, (address, 0))
        reported |= self.bit | (0 if address >> sender & 1 else 1 << sender)
        own[copy.count] = (address, reported)  # R4, R6.3
        self._take_over_from_earlier(history, {sender, *stamped})

    def _take_over_from_earlier(self, history: Elements, senders: Iterable[int]) -> None:
        """R6.3, its last union: a destination of a later message of the same sender knows of the earlier ones."""
        for sender in senders:
            elements, later = history[sender], 0
            for count in sorted(elements, reverse=True):
                address, reported = elements[count]
                elements[count] = (address, reported | later)
                later |= address

    @staticmethod
    def _aware(process: int, sender: int, address: int) -> int:
        """Return the process as informed of an element of its history, unless it is its own and on its way back."""
        return 0 if sender == process and address >> process & 1 else 1 << process

    def _forget(self) -> None:
        """R8 on one's own history."""
        self._forget_in(self.history)

    def _forget_in(self, history: Elements) -> None:
        """R8; processes that left are skipped."""
        for sender in list(history):
            elements = history[sender]
            kept = {count: element for count, element in elements.items() if element[0] & ~(element[1] | self.gone)}
            if not kept:
                del history[sender]
            elif len(kept) < len(elements):
                history[sender] = kept

    def _leave(self, process: int) -> list[Effect]:
        self._forget()
        return []

    # -- chapter 6: histories as values with one operation, merge ----------------------------------------------------

    def _causes(self, context: object) -> Elements:
        given = dependency.given_context(self, context, self.fields["history"], explicit=self.explicit)
        return self._merged(self.history, given)

    def context(self) -> Elements:
        """Return the messages that the next message would follow."""
        return self._merged(self.history)

    def context_of(self, copy: Copy) -> Elements:
        history: Elements = {}
        self._learn(history, copy)
        self._forget_in(history)
        return history

    def merge(self, *contexts: Elements) -> Elements:
        """Merge histories: each element with all reports of it, unless it was reported to all it is for."""
        shape = self.fields["history"]
        return self._merged(*(dependency.checked_context(self, context, shape) for context in contexts))

    def _merged(self, *contexts: Elements) -> Elements:
        merged: Elements = {}
        for context in contexts:
            add_elements(merged, context)
        self._take_over_from_earlier(merged, merged)
        self._forget_in(merged)
        return merged

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count the elements of the stamp."""
        addresses: Log = copy.stamp[0]
        return addresses.entries

    @classmethod
    def facts(cls, copy: Copy) -> int:
        """Count the pairs (message, destination)."""
        addresses: Log = copy.stamp[0]
        return addresses.facts()

    @classmethod
    def paper_bytes(cls, copy: Copy) -> int:
        """An id (2 + 4) and its address (2 each), and the carbon copies if there are."""
        carbon: Log = copy.stamp[1]
        return 6 * cls.entries(copy) + 2 * cls.facts(copy) + 2 * carbon.facts()

    @classmethod
    def dependencies(cls, copy: Copy) -> list[tuple[MessageId, int]]:
        return dependency.in_the_clear(copy.stamp[0])

    def log_size(self) -> int:
        """Count the elements of the history."""
        return sum(map(len, self.history.values()))


def add_elements(history: Elements, other: Elements) -> None:
    """Add the elements of another history; a process informed of one in either is informed of it."""
    for sender, elements in other.items():
        known = history.setdefault(sender, {})
        for count, (address, reported) in elements.items():
            known[count] = (address, reported | known.get(count, (address, 0))[1])
