"""The receiving half of Schiper and Pedone's multicasts: relays, OKs and the failure detector.

Invariant: processes are divided into groups; a message addresses whole groups. The process that first receives a
message hands it on to all its addressees. A process *OKs* a message, to its addressees and its sender, once it has
F-delivered every earlier message of that sender to its own group. A message is F-delivered in the sender's order once,
in every group addressed, all trusted members have OKed it: since some correct member is trusted wherever there is one,
a correct process in each such group then has it, and whatever came before it, and has handed them on.

A message is *secured* at its sender once all trusted members of every group addressed have OKed it. A sender
stamps x only when each earlier message of its own that is not addressed within x's destinations is secured
(`hold_back`).

What is kept of a message: who has OKed it, at its addressees and at its sender. OKs carry how far their source
has delivered, and a record is forgotten once every trusted addressee is known to have delivered the message.
What is on record tells which messages a process may still lack: a driver whose links break must be able to
deliver those again. A number below the next expected one tells what comes late, record or not. Records are looked
through when some have gathered, and before the state is read (`settle`), not at every OK.

Without `counts` a record ends at F-delivery, and at the sender when the message is secured. No step depends
on what is kept beyond that, so both ways behave alike.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import lru_cache, partial
from typing import ClassVar, NamedTuple

from thence.core.model.message import MESSAGE, Copy, Stamp
from thence.core.model.roster import Roster, positions
from thence.core.protocols.base import Receiver
from thence.core.protocols.effects import Deliver, Duplicate, Effect, Transmit
from thence.core.protocols.wire import CopyShape
from thence.core.wire.codec import BOOL, INT, MASK, ByProcess, RecordShape, Seq, Shape, Vector
from thence.core.wire.reader_cy import Reader
from thence.core.wire.sets import Rename
from thence.core.wire.words_cy import put_varint
from thence.errors import PeerError

OK = "ok"
"""kind of a copy that says its source has OKed the message; it carries the message too"""
COUNTS = ByProcess(INT)
"""{sender: count of the last message of it that was delivered}"""


def kinds_of(stamp: Shape) -> dict[str, Shape]:
    """Return the kinds of copies of a protocol: messages, and OKs, which carry delivery counts beside the stamp."""
    return {MESSAGE: stamp, OK: RecordShape(stamp, COUNTS)}


NO_COUNTS: dict[int, int] = {}
GATHERED = 8
"""records of one sender that may gather before they are looked through"""


class Mail(NamedTuple):
    """A message that is not F-delivered yet, who has OKed it, and whether this process has."""

    copy: Copy
    okayed: int
    okayed_here: bool


_mail = partial(tuple.__new__, Mail)
"""makes a mail of a tuple of its fields: most OKs make one, and to call the class takes half as long again"""


class Mails(Shape):
    """Mails by sender, then count; their order does not count."""

    def __init__(self, kinds: Mapping[str, Shape], size: int) -> None:
        self.record = RecordShape(CopyShape({MESSAGE: kinds[MESSAGE]}), MASK, BOOL, make=Mail)
        self.size = size

    def write(self, value: list[dict[int, Mail]], out: bytearray, size: int) -> None:
        put_varint(out, sum(map(len, value)))
        for mails in value:
            for count in sorted(mails):
                self.record.write(mails[count], out, size)

    def read(self, reader: Reader) -> list[dict[int, Mail]]:
        """Read the messages, which must ascend by sender and count."""
        mails: list[Mail] = [self.record.read(reader) for _ in range(reader.length())]
        keys = [(mail.copy.sender, mail.copy.count) for mail in mails]
        if keys != sorted(set(keys)):
            raise PeerError(f"messages before byte {reader.at} do not ascend")
        found: list[dict[int, Mail]] = [{} for _ in range(self.size)]
        for (sender, count), mail in zip(keys, mails, strict=True):
            found[sender][count] = mail
        return found

    def freeze(self, value: list[dict[int, Mail]], rename: Rename) -> Hashable:
        """Freeze the messages as a set: their order has no meaning."""
        return frozenset(self.record.freeze(mail, rename) for mails in value for mail in mails.values())

    def fork(self, value: list[dict[int, Mail]]) -> list[dict[int, Mail]]:
        """Copy the dicts; mails are immutable."""
        return [mails.copy() for mails in value]


class AckReceiver(Receiver):
    """The OKs of what arrives, and F-delivery; what follows F-delivery is the subclass's."""

    to_sender: ClassVar[bool] = True
    """whether OKs also go to the sender, who may not be addressed"""

    def __init__(
        self, roster: Roster, me: int, groups: tuple[int, ...], kinds: Mapping[str, Shape], *, counts: bool
    ) -> None:
        """Start with every process trusted; with `counts`, a record lasts until its message is known delivered."""
        super().__init__(roster, me)
        self.groups, self.kinds, self.counts = groups, kinds, counts
        self.group = next(g for g in groups if g >> me & 1)
        self.leader = leader(self.group)
        self.bit = 1 << me
        self.following = [1] * self.size
        self.mails: list[dict[int, Mail]] = [{} for _ in range(self.size)]
        self.trust = roster.everyone
        self.own_okayed: list[int] = []  # own messages OKed here since the member last looked; empty between steps
        self.kept: list[dict[int, Mail]] = [{} for _ in range(self.size)]
        self.done: dict[int, int] = {}  # never changed in place: OKs carry it
        self.known: dict[int, dict[int, int]] = {}
        self.fields = {  # type: ignore[misc]
            "following": Vector(INT),
            "mails": Mails(kinds, self.size),
            "trust": MASK,
            **({"kept": Mails(kinds, self.size), "done": COUNTS, "known": ByProcess(COUNTS)} if counts else {}),
            **self.more_fields(),
        }

    def more_fields(self) -> dict[str, Shape]:
        """Return the fields of a subclass."""
        return {}

    def number(self, sender: int, stamp: Stamp) -> int:
        """Return the place of a message among its sender's messages to this group, from 1."""
        raise NotImplementedError

    def f_delivered(self, copy: Copy) -> list[Effect]:
        """Take an F-delivered message; the FIFO multicast hands it to the application."""
        return [Deliver(copy)]

    def receive(self, copy: Copy) -> list[Effect]:
        """Lines 10-16, then F-delivery: only of this sender, since nothing has changed for the others."""
        sender, count, stamp, by = copy.sender, copy.count, copy.stamp, 0
        mails = self.mails[sender]
        mail = mails.get(count)
        if copy.kind == OK:
            stamp, by = stamp[0], 1 << copy.source
            if mail is not None and mail[0].stamp is stamp:
                home, okayed, okayed_here = mail
                if home.destinations & self.trust & ~(okayed | by):  # one more of those it waits for, others to come
                    mails[count] = _mail((home, okayed | by, okayed_here))
                    return []
        elif mail is not None:
            return [Duplicate(copy)]  # relayed to a process that has it already; it carries no OK
        number, following = self.number(sender, stamp), self.following[sender]
        if number < following:
            return [] if by else [Duplicate(copy)]
        effects: list[Effect]
        if mail is None:
            home = Copy(sender, count, copy.destinations, sender, self.me, stamp, copy.label)
            okayed_here = number == following  # line 12
            okayed = self.bit if okayed_here else 0
            effects = self._tell(home, OK if okayed_here else MESSAGE)  # lines 13, 15
        else:
            home, okayed, okayed_here = mail
            effects = []
        okayed |= by
        mails[count] = _mail((home, okayed, okayed_here))
        if number == following and self.secured(home.destinations, okayed):
            effects += self.advance(sender)
        return effects

    def _tell(self, home: Copy, kind: str) -> list[Effect]:
        sender, count, destinations, stamp = home.sender, home.count, home.destinations, home.stamp
        to = destinations
        if kind == OK:
            stamp = (stamp, self.done)
            if sender == self.me:
                self.own_okayed = [*self.own_okayed, count]  # forks share it
            elif self.to_sender:
                to |= 1 << sender
        me, label = self.me, home.label
        copies = [Copy(sender, count, destinations, me, d, stamp, label, kind) for d in _places(to & ~self.bit)]
        return [Transmit(tuple(copies))] if copies else []

    def progress(self) -> list[Effect]:
        """Lines 17-21 for every sender: the failure detector has spoken."""
        effects: list[Effect] = []
        for sender in range(self.size):
            effects += self.advance(sender)
        return effects

    def advance(self, sender: int) -> list[Effect]:
        """Lines 17-21 as long as the next message of a sender is ready."""
        effects: list[Effect] = []
        mails = self.mails[sender]
        while mails:
            for mail in self.next_of(sender):
                home, okayed, _ = mail
                if self.secured(home.destinations, okayed):
                    break
            else:
                break
            del mails[home.count]
            self.following[sender] += 1  # line 19
            found = self.f_delivered(home)  # line 18
            if self.counts:
                self.kept[sender][home.count] = mail
                self._count(found)
            effects += found
            if mails:
                effects += self._okay_next(sender)
        return effects

    def next_of(self, sender: int) -> list[Mail]:
        """Return the next messages in a sender's order: one, unless a process sends false numbers."""
        number, following = self.number, self.following[sender]
        found = [m for m in self.mails[sender].values() if number(sender, m[0].stamp) == following]
        return sorted(found, key=lambda m: m.copy.count) if len(found) > 1 else found

    def secured(self, destinations: int, okayed: int) -> bool:
        """Return whether every trusted addressee has OKed: line 17."""
        return not destinations & self.trust & ~okayed

    def _okay_next(self, sender: int) -> list[Effect]:
        """Lines 20-21, for every message that has become the next one and is not OKed yet."""
        effects: list[Effect] = []
        for mail in self.next_of(sender):
            if not mail.okayed_here:
                self.mails[sender][mail.copy.count] = _mail((mail.copy, mail.okayed | self.bit, True))
                effects += self._tell(mail.copy, OK)
        return effects

    def pending(self) -> list[tuple[Copy, list[tuple[int, int]]]]:
        """Return the messages that are not F-delivered; `AckMember.pending` adds the missing OKs."""
        return [(mail.copy, []) for mails in self.mails for _, mail in sorted(mails.items())]

    # -- delivery counts ---------------------------------------------------------------------------------------------

    def _count(self, effects: list[Effect]) -> None:
        """Count deliveries, and forget known deliveries where many are recorded."""
        for effect in effects:
            if type(effect) is Deliver:
                sender = effect.copy.sender
                self.done = self.done | {sender: effect.copy.count}
                if len(self.kept[sender]) > GATHERED:
                    self._forget(sender)

    def heard(self, source: int, counts: dict[int, int]) -> None:
        """Take the delivery counts that came with an OK, unless newer ones came before: they only grow."""
        before = self.known.get(source, NO_COUNTS)
        if counts is not before and sum(counts.values()) > sum(before.values()):
            self.known[source] = counts  # never changed in place: it may be the source's own

    def _forget(self, sender: int) -> None:
        """Forget the messages of a sender that are known to be delivered wherever that is owed."""
        kept = self.kept[sender]
        for count in [c for c, mail in kept.items() if self.all_delivered(sender, c, mail[0].destinations)]:
            del kept[count]

    def settle(self) -> None:
        """Forget deliveries that every process which needs them knows of."""
        for sender, kept in enumerate(self.kept):
            if kept:
                self._forget(sender)

    def all_delivered(self, sender: int, count: int, destinations: int) -> bool:
        """Return whether this process (if addressed) and all trusted addressees are known to have delivered it."""
        if destinations & self.bit and self.done.get(sender, 0) < count:
            return False
        known = self.known
        for place in _places(destinations & self.trust & ~self.bit):
            counts = known.get(place)
            if counts is None or counts.get(sender, 0) < count:
                return False
        return True


class CausedOkays(AckReceiver):
    """After F-delivery, messages wait for their causes; what those are is the subclass's."""

    def __init__(
        self, roster: Roster, me: int, groups: tuple[int, ...], kinds: Mapping[str, Shape], *, counts: bool
    ) -> None:
        super().__init__(roster, me, groups, kinds, counts=counts)
        self.delivered = [0] * self.size
        self.waiting: list[Copy] = []

    def more_fields(self) -> dict[str, Shape]:
        """The delivered clock and the messages that wait."""
        return {"delivered": Vector(INT), "waiting": Seq(CopyShape({MESSAGE: self.kinds[MESSAGE]}))}

    def missing(self, copy: Copy) -> list[tuple[int, int]]:
        """Return the messages that must be delivered here first."""
        raise NotImplementedError

    def mark(self, copy: Copy) -> int:
        """Return the delivered clock's value for the sender after a message is delivered."""
        raise NotImplementedError

    def f_delivered(self, copy: Copy) -> list[Effect]:
        """Deliver it and the messages that it unblocks, in order of arrival; other held messages still wait."""
        self.waiting.append(copy)
        effects: list[Effect] = []
        ready = None if self.missing(copy) else copy
        while ready is not None:
            self.waiting.remove(ready)
            self.delivered[ready.sender] = self.mark(ready)
            effects.append(Deliver(ready))
            ready = next((c for c in self.waiting if not self.missing(c)), None)
        return effects

    def pending(self) -> list[tuple[Copy, list[tuple[int, int]]]]:
        """Return the messages that are not F-delivered, and those that wait for causes."""
        return super().pending() + [(copy, self.missing(copy)) for copy in self.waiting]

    def copies(self) -> list[Copy]:
        """Return the same copies without a look into their stamps."""
        return [copy for copy, _ in super().pending()] + self.waiting


def leader(group: int) -> int:
    """Return the position that stands for a group: its first member."""
    return (group & -group).bit_length() - 1


@lru_cache(maxsize=1 << 12)
def _places(mask: int) -> tuple[int, ...]:
    return tuple(positions(mask))


@lru_cache(maxsize=1 << 12)
def leaders(groups: tuple[int, ...], destinations: int) -> tuple[int, ...]:
    """Return the positions that stand for the groups addressed."""
    return tuple(leader(group) for group in groups if group & destinations)
