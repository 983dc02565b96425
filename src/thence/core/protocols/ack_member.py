"""The sending half of Schiper and Pedone's multicasts: groups, the hold-back of the repair, the failure detector.

Invariant: that of `ack_receiver.py`. A send leaves when nothing it must wait for is unsecured and nothing waits before
it, so sends leave in the order in which they were asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Self

from thence.core.model.faults import groups_of
from thence.core.model.message import Cause, Copy, MessageId, Stamp, copies_of
from thence.core.model.message_names import name_of
from thence.core.model.roster import Roster
from thence.core.protocols.ack_receiver import GATHERED, OK, AckReceiver, Mail, leaders
from thence.core.protocols.base import COUNT_MAX, REACHED, Member
from thence.core.protocols.effects import Deferred, Deliver, Duplicate, Effect, Hold, Pending, Sent
from thence.core.wire.codec import BOOL, INT, MASK, TEXT, ByCount, RecordShape, Seq, Shape
from thence.errors import MisuseError, PeerError

TAKEN = (Deliver, Duplicate)
MOST_REMEMBERED = 256
"""messages whose stamps are remembered as checked"""


class AckMember(Member):
    """A member over an `AckReceiver`: groups, the failure detector, deferred sends."""

    options: ClassVar[dict[str, Shape]] = {"groups": TEXT, "counts": BOOL}
    cannot_abandon = "the failure detector reports crashed processes: trusted(...)"
    receives: ClassVar[type[AckReceiver]]
    """the receiving half"""
    hold_back: ClassVar[bool] = True
    """whether a send waits until earlier ones to other groups are secured"""
    receiver: AckReceiver
    fields: ClassVar[dict[str, Shape]] = {
        "own": ByCount(RecordShape(MASK, MASK)),
        "queue": Seq(RecordShape(INT, MASK)),
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

        OKs carry delivery counts, and records are kept until every trusted process is known to have delivered:
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
        self._checked: dict[tuple[int, int], tuple[Stamp, int]] = {}
        """the latest messages that passed, with stamp and destinations"""
        self.changed = False  # whether something own may be secured or known delivered now; False between steps
        self.receiver = self.receives(roster, self.me, self.masks, self.kinds, counts=self.counts)
        self.begin()

    def begin(self) -> None:
        """Set the fields of the subclass to their start."""

    def stamped(self, destinations: int) -> Stamp:
        """Return the stamp of the message that has just been counted, and note that it was sent."""
        raise NotImplementedError

    # -- sending ---------------------------------------------------------------------------------------------------

    def _send(self, destinations: int, context: object, token: object) -> Sent | Deferred:
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
            if len(self.own) > GATHERED:
                self._settle_own()
        copies = copies_of(self.me, self.count, destinations, lambda d: stamp, self.label)
        return Sent(MessageId(self.me, self.count), destinations, copies, self.label, ticket)

    def _secured(self, to: int, okayed: int) -> bool:
        """Return whether an own message can no longer be lost."""
        return self.receiver.secured(to, okayed)

    def _unsecured(self, destinations: int) -> list[int]:
        """Return the own messages that a send to these destinations must wait for."""
        return [
            count
            for count, (to, okayed) in self.own.items()
            if to & ~destinations and okayed != to and not self._secured(to, okayed)
        ]

    def _waits_for(self, destinations: int) -> tuple[str, ...]:
        missing = 0
        for count in self._unsecured(destinations):
            to, okayed = self.own[count]
            missing |= to & self.receiver.trust & ~okayed
        return self.roster.members(missing)

    def _released(self) -> list[Effect]:
        """Record secured messages, and release deferred sends in order."""
        self.changed = False
        for count in [c for c, (to, okayed) in self.own.items() if okayed != to and self._secured(to, okayed)]:
            to = self.own[count][0]
            self.own[count] = (to, to)  # for good
        if not self.counts:
            self._settle_own()
        effects: list[Effect] = []
        while self.queue and not self._unsecured(self.queue[0][1]):
            ticket, destinations = self.queue.pop(0)
            effects.append(self._leave_now(destinations, ticket))
        return effects

    def _settle_own(self) -> None:
        """Forget the own messages that are secured and, with `counts`, known to be delivered."""
        known, me = self.receiver.all_delivered, self.me
        secured = [(count, to) for count, (to, okayed) in self.own.items() if okayed == to]
        for count in [c for c, to in secured if not self.counts or known(me, c, to)]:
            del self.own[count]

    def settle(self) -> None:
        """Forget facts that every process knows."""
        self.receiver.settle()
        self._settle_own()

    def on_record(self) -> list[MessageId]:
        """Return the messages on record here: not delivered, not secured, or not known delivered."""
        self.settle()
        found = {MessageId(self.me, count) for count in self.own}
        for table in (self.receiver.mails, self.receiver.kept):
            found |= {MessageId(sender, count) for sender, mails in enumerate(table) for count in mails}
        return sorted(found)

    # -- receiving -------------------------------------------------------------------------------------------------

    def _received(self, copy: Copy) -> list[Effect]:
        """Take a message, a relay of it, or an OK."""
        receiver = self.receiver
        if copy.kind != OK:
            effects = receiver.receive(copy)
            if len(effects) != 1 or type(effects[0]) is not Duplicate:  # most relays arrive after the message itself
                effects = self._handed(effects)
                if not any(type(e) in TAKEN for e in effects):
                    effects.append(Hold(copy, ()))
        else:
            if copy.sender == self.me:
                self._okayed(copy.count, 1 << copy.source)
            if self.counts:
                receiver.heard(copy.source, copy.stamp[1])
            effects = receiver.receive(copy) if copy.destinations & self.bit else []
            if effects or receiver.own_okayed:  # most OKs set nothing free yet
                effects = self._handed(effects)
        return effects + self._released() if self.changed else effects

    def spent(self, copy: Copy) -> bool:
        """Whether it is an OK of a delivered and secured message, from a process whose delivery counts are known."""
        if copy.kind != OK:
            return False
        receiver, by = self.receiver, 1 << copy.source
        if copy.sender == self.me and by & ~self.own.get(copy.count, (0, by))[1]:
            return False
        known = receiver.known.get(copy.source, {})
        if self.counts and any(count > known.get(sender, 0) for sender, count in copy.stamp[1].items()):
            return False
        number, following = receiver.number, receiver.following[copy.sender]
        return not copy.destinations & self.bit or number(copy.sender, copy.stamp[0]) < following

    def _handed(self, found: list[Effect]) -> list[Effect]:
        effects: list[Effect] = []
        for effect in found:
            effects.append(effect)
            if type(effect) is Deliver:
                effects += self._delivered(effect.copy)
        for count in self.receiver.own_okayed:
            self._okayed(count, self.bit)
        self.receiver.own_okayed = []
        return effects

    def _okayed(self, count: int, by: int) -> None:
        to, okayed = self.own.get(count, (0, by))
        if by & ~okayed:
            self.own[count] = (to, okayed | by)
            self.changed |= self._secured(to, okayed | by)

    def _admit(self, copy: Copy) -> None:
        """Reject an impossible copy; a message that was checked once is not checked again.

        A stamp that could be can still be later: it is refused for naming more of one's own than there is.
        """
        ok, stamp, destinations, key = copy.kind == OK, copy.stamp, copy.destinations, (copy.sender, copy.count)
        if ok:
            stamp, counts = stamp
        known = self._checked.get(key)
        if known is None or known[0] is not stamp or known[1] != destinations or copy.destination != self.me:
            self.check(copy)
            if len(self._checked) == MOST_REMEMBERED:
                del self._checked[next(iter(self._checked))]
            self._checked[key] = (stamp, destinations)
        elif not 0 <= copy.source < self.size or not (ok or destinations & self.bit):
            self.check(copy)
        elif ok and (
            not destinations >> copy.source & 1 or copy.sender == self.me or counts.get(self.me, 0) > self.count
        ):
            self._check_ok(copy, counts)  # otherwise there is nothing to reject

    def _check(self, copy: Copy) -> None:
        party = copy.destinations | 1 << copy.sender
        if not party & self.bit:
            raise PeerError(
                f"a copy of {self._name(copy)} arrived at {self.roster.name(self.me)}, who has no part in it"
            )
        for group in self.several:
            if group & copy.destinations and group & ~copy.destinations:
                raise PeerError(f"message {self._name(copy)} addresses a part of a group; whole groups are expected")
        stamp = copy.stamp
        if copy.kind == OK:
            stamp, counts = copy.stamp
            self._check_ok(copy, counts)
        self._check_stamp(copy, stamp)
        if copy.destinations & self.bit and not 0 < self.receiver.number(copy.sender, stamp) <= COUNT_MAX:
            raise PeerError(f"message {self._name(copy)} has no number among those to its destinations")

    def _check_ok(self, copy: Copy, counts: dict[int, int]) -> None:
        """Reject an OK of a process that was not asked, or for a message that was sent to others or not at all."""
        if not copy.destinations >> copy.source & 1:
            raise PeerError(f"{self.roster.name(copy.source)} OKs {self._name(copy)}, which is not addressed to it")
        if copy.sender == self.me and self.own.get(copy.count, (copy.destinations,))[0] != copy.destinations:
            raise PeerError(f"an OK of {self._name(copy)} that names other destinations than it was sent to")
        if counts.get(self.me, 0) > self.count:
            raise self.beyond(f"{self.roster.name(self.me)}, who has sent {self.count}", counts[self.me], copy)

    def _check_stamp(self, copy: Copy, stamp: Stamp) -> None:
        """Reject control information that no member can have produced."""

    def _numbers_match(self, copy: Copy, numbers: dict[int, int]) -> None:
        """Require a number for each addressed group and for no other."""
        addressed = leaders(self.masks, copy.destinations)
        if tuple(numbers) != addressed:
            raise PeerError(
                f"message {self._name(copy)} has {len(numbers)} numbers for {len(addressed)} groups addressed"
            )

    def _check_state(self) -> None:
        if max(self.own, default=0) > self.count or max(self.receiver.following) > REACHED:
            raise PeerError(f"snapshot that names a message beyond the {self.count} its member has sent")
        for table in (self.receiver.mails, self.receiver.kept):
            for mails in table:
                for mail in mails.values():
                    self.check(mail.copy)
        recorded = self.own.copy(), [mails.copy() for mails in self.receiver.kept]
        AckMember.settle(self)
        if recorded != (self.own, self.receiver.kept):
            raise PeerError("snapshot that keeps a message which no process can lack; a member has forgotten it")

    def trusted(self, processes: Iterable[str]) -> list[Effect]:
        """Apply the failure detector's output: F-deliver and send what no longer waits for a trusted process."""
        mask = self.roster.mask(processes)
        effects: list[Effect] = []
        for order in self.orders():
            order.settle()  # with the processes trusted so far
            order.receiver.trust = mask
            order.receiver.settle()
            order.changed = True
            effects += order._handed(order.receiver.progress()) + order._released()
        return effects

    def fork(self) -> Self:
        """Return an independent copy of this member."""
        forked = super().fork()
        forked._checked = {}
        return forked

    def fresh(self, label: str) -> Self:
        """Return the order of a new label; who is trusted holds for all."""
        order = super().fresh(label)
        order.receiver.trust = self.receiver.trust
        return order

    def pending(self) -> list[Pending]:
        """Explain every held copy by the OKs or causes that are missing, and every deferred send."""
        found = []
        for order in self.orders():
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
