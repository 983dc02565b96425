"""The sending half of Schiper and Pedone's multicasts: groups, the hold-back of the repair, the failure detector.

Law: that of `okays.py`. A send leaves when nothing it must wait for is unsecured and nothing waits before it,
so sends leave in the order in which they were asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Self

from thence.errors import MisuseError, PeerError
from thence.model.codec import INT, MASK, ByCount, Record, Seq, Shape
from thence.model.faults import groups_of
from thence.model.message import MESSAGE, Cause, Copy, MessageId
from thence.model.roster import Roster
from thence.protocols.base import Member
from thence.protocols.effects import Deferred, Deliver, Duplicate, Effect, Hold, Pending, Sent, name_of
from thence.protocols.okays import OK, Mail, OkReceiver

TAKEN = (Deliver, Duplicate)


class OkMember(Member):
    """A member over an `OkReceiver`: groups, the failure detector, deferred sends."""

    options = ("groups", "counts")
    receives: ClassVar[type[OkReceiver]]
    """the receiving half"""
    hold_back: ClassVar[bool] = True
    """whether a send waits until earlier ones to other groups are secured"""
    receiver: OkReceiver
    fields: ClassVar[dict[str, Shape]] = {
        "own": ByCount(Record(MASK, MASK)),
        "queue": Seq(Record(INT, MASK)),
        "tickets": INT,
    }

    def __init__(
        self,
        roster: Roster,
        process: str | int,
        *,
        label: str | None = None,
        groups: str = "",
        counts: bool = True,
    ) -> None:
        """Take the groups as text, "ab|cd|e"; without it every process is a group of its own.

        OKs carry delivery counts, and records are kept until everybody trusted is known to have delivered:
        `on_record` lists them. Without `counts` nothing is counted, and records end at delivery.
        """
        super().__init__(roster, process, label=label)
        if not isinstance(counts, bool):
            raise MisuseError(f"counts is {counts!r}; True or False is accepted")
        self.groups, self.counts = groups, counts
        self.masks = groups_of(groups, roster)
        self.several = [group for group in self.masks if group & (group - 1)]
        self.own: dict[int, tuple[int, int]] = {}
        self.queue: list[tuple[int, int]] = []
        self.tickets = 0
        self.changed = False  # whether an OK or the detector may have secured something; False between steps
        self.receiver = self.receives(roster, self.me, self.masks, self.kinds, counts=self.counts)
        self.begin()

    def begin(self) -> None:
        """Set the fields of the subclass to their start."""

    def stamped(self, destinations: int) -> Any:
        """Return the stamp of the message that has just been counted, and note that it was sent."""
        raise NotImplementedError

    # -- sending ---------------------------------------------------------------------------------------------------

    def _send(self, destinations: int, context: Any, token: Any) -> Sent | Deferred:
        self._no_context(context)
        for group in self.several:
            if group & destinations and group & ~destinations:
                missing = ", ".join(self.roster.members(group & ~destinations))
                raise MisuseError(f"a message addresses whole groups; with these destinations goes {missing} as well")
        if not self.queue and not self._unsecured(destinations):
            return self._leave_now(destinations, None)
        self.tickets += 1
        self.queue.append((self.tickets, destinations))
        waits = self._waits_for(destinations)
        return Deferred(self.tickets, destinations, waits, "earlier messages are not OKed everywhere yet", self.label)

    def _leave_now(self, destinations: int, ticket: int | None) -> Sent:
        self.count += 1
        stamp = self.stamped(destinations)
        if self.hold_back and not self._secured(destinations, 0):
            self.own[self.count] = (destinations, 0)
        copies = self._copies(destinations, lambda d: stamp)
        return Sent(MessageId(self.me, self.count), destinations, copies, self.label, ticket)

    def _secured(self, to: int, okayed: int) -> bool:
        """Tell whether a message of one's own can no longer be lost."""
        return self.receiver.secured(to, okayed)

    def _unsecured(self, destinations: int) -> list[int]:
        """Return the own messages that a send to these destinations must wait for."""
        return [
            count for count, (to, okayed) in self.own.items() if to & ~destinations and not self._secured(to, okayed)
        ]

    def _waits_for(self, destinations: int) -> tuple[str, ...]:
        missing = 0
        for count in self._unsecured(destinations):
            to, okayed = self.own[count]
            missing |= to & self.receiver.trust & ~okayed
        return self.roster.members(missing)

    def _released(self) -> list[Effect]:
        """Forget what is secured, and let deferred sends go in order."""
        self.changed = False
        secured = [count for count, (to, okayed) in self.own.items() if self._secured(to, okayed)]
        for count in secured:
            to, _ = self.own[count]
            if self.counts and not self.receiver.all_delivered(self.me, count, to):
                self.own[count] = (to, to)  # secured for good, and on record until it is known to be delivered
            else:
                del self.own[count]
        effects: list[Effect] = []
        while self.queue and not self._unsecured(self.queue[0][1]):
            ticket, destinations = self.queue.pop(0)
            effects.append(self._leave_now(destinations, ticket))
        return effects

    def on_record(self) -> list[MessageId]:
        """Return the messages on record here: not delivered, not secured, or not known delivered."""
        found = {MessageId(self.me, count) for count in self.own}
        for table in (self.receiver.mails, self.receiver.kept):
            found |= {MessageId(sender, count) for sender, mine in enumerate(table) for count in mine}
        return sorted(found)

    # -- receiving -------------------------------------------------------------------------------------------------

    def receive(self, copy: Copy) -> list[Effect]:
        """Take a message, a relay of it, or an OK."""
        order = self if copy.label == self.label else self._order(copy.label)
        order._check(copy)
        if copy.kind == OK:
            if copy.sender == self.me:
                order._okayed(copy.count, 1 << copy.source)
            if order.counts and order.receiver.heard(copy.source, copy.stamp[1]):
                order.changed = True
        effects: list[Effect] = []
        if copy.destinations & self.bit:
            found = order.receiver.receive(copy)
            if found or order.receiver.mine:  # most OKs come late and change nothing
                effects = order._handed(found)
            if copy.kind == MESSAGE and not any(type(e) in TAKEN for e in effects):
                effects.append(Hold(copy, ()))
        return effects + order._released() if order.changed else effects

    def _handed(self, found: list[Effect]) -> list[Effect]:
        effects: list[Effect] = []
        for effect in found:
            effects.append(effect)
            if type(effect) is Deliver:
                effects += self._delivered(effect.copy)
                self.changed |= effect.copy.sender == self.me and self.counts
        for count in self.receiver.mine:
            self._okayed(count, self.bit)
        self.receiver.mine = []
        return effects

    def _okayed(self, count: int, by: int) -> None:
        if count in self.own:
            to, okayed = self.own[count]
            self.own[count] = (to, okayed | by)
            self.changed = True

    def _check(self, copy: Copy) -> None:
        party = copy.destinations | 1 << copy.sender
        if not party & self.bit:
            raise PeerError(
                f"a copy of {self._name(copy)} arrived at {self.roster.name(self.me)}, who has no part in it"
            )
        for group in self.several:
            if group & copy.destinations and group & ~copy.destinations:
                raise PeerError(f"message {self._name(copy)} addresses a part of a group; whole groups are expected")

    def trusted(self, processes: Iterable[str]) -> list[Effect]:
        """Take the failure detector's word: F-deliver and send what no longer waits for anybody trusted."""
        mask = self.roster.mask(processes)
        effects: list[Effect] = []
        for order in self._all_orders():
            order.receiver.trust = mask
            order.receiver.forget()
            order.changed = True
            effects += order._handed(order.receiver.progress()) + order._released()
        return effects

    def _order(self, label: str | None) -> Self:
        order = super()._order(label)
        order.receiver.trust = self.receiver.trust
        return order

    def pending(self) -> list[Pending]:
        """Explain every held copy by the OKs or causes that are missing, and every deferred send."""
        found = []
        for order in self._all_orders():
            for copy, causes in order.receiver.pending():
                sender = self.roster.name(copy.sender)
                mail = order.receiver.mails[copy.sender].get(copy.count)
                found.append(order._explained(name_of(sender, copy.count), sender, mail, causes))
            found += order._deferred()
        return found

    def _explained(self, name: str, sender: str, mail: Mail | None, causes: list[tuple[int, int]]) -> Pending:
        if mail is None:
            named = tuple(Cause(self.roster.name(s), c, self.pairwise) for s, c in causes)
            return Pending("copy", name, sender, named, label=self.label)
        missing = self.roster.members(mail.copy.destinations & self.receiver.trust & ~mail.okayed)
        reason = f"OKs of {', '.join(missing)}" if missing else f"an earlier message of {sender}"
        return Pending("copy", name, sender, processes=missing, reason=reason, label=self.label)

    def _deferred(self) -> list[Pending]:
        me = self.roster.name(self.me)
        return [
            Pending("send", None, me, (), self._waits_for(to), "OKs of earlier messages", self.label, ticket)
            for ticket, to in self.queue
        ]
