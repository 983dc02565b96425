"""The receiving half of Schiper and Pedone's multicasts: relays, OKs and the failure detector.

Law. Processes are parted into groups; a message addresses whole groups. Whoever first receives a message
hands it on to all its addressees. A process *OKs* a message, to its addressees and its sender, once it has
F-delivered every earlier message of that sender to its own group. A message is F-delivered in the sender's
order once, in every group addressed, all trusted members have OKed it: since some correct member is trusted
wherever there is one, a correct process in each such group then has it, and whatever came before it, and has
handed them on.

A message is *secured* at its sender once all trusted members of every group addressed have OKed it. A sender
stamps x only when each earlier message of its own that is not addressed within x's destinations is secured
(`hold_back`).

What is kept of a message: until it is F-delivered, who has OKed it; at its sender, until it is secured, the
same. Nothing after that: a number below the next expected one tells what is late, and every copy owed has
been handed over.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from whence.errors import PeerError
from whence.model.codec import BOOL, INT, MASK, Reader, Record, Rename, Shape, Vector, put_varint
from whence.model.message import MESSAGE, Copy
from whence.model.roster import Roster, positions
from whence.protocols.base import CopyShape, Receiver
from whence.protocols.effects import Deliver, Duplicate, Effect, Transmit

OK = "ok"
"""kind of a copy that says its source has OKed the message; it carries the message too"""


class Mail(NamedTuple):
    """A message that is not F-delivered yet, who has OKed it, and whether this process has."""

    copy: Copy
    okayed: int
    said: bool


class Mails(Shape):
    """Mails by (sender, count); their order does not count."""

    def __init__(self, kinds: dict[str, Shape]) -> None:
        """Take the stamps' shapes."""
        self.record = Record(CopyShape(kinds), MASK, BOOL, make=Mail)

    def write(self, value: Any, out: bytearray, size: int) -> None:
        """Write them by sender and count."""
        put_varint(out, len(value))
        for key in sorted(value):
            self.record.write(value[key], out, size)

    def read(self, reader: Reader) -> dict[tuple[int, int], Mail]:
        """Read them."""
        mails: list[Mail] = [self.record.read(reader) for _ in range(reader.length())]
        keys = [(mail.copy.sender, mail.copy.count) for mail in mails]
        if keys != sorted(set(keys)):
            raise PeerError(f"messages before byte {reader.at} do not ascend")
        return dict(zip(keys, mails, strict=True))

    def freeze(self, value: Any, rename: Rename) -> Hashable:
        """Freeze as a set."""
        return frozenset(self.record.freeze(mail, rename) for mail in value.values())

    def fork(self, value: Any) -> Any:
        """Copy the dict; mails are immutable."""
        return value.copy()


class OkReceiver(Receiver):
    """The OKs of what arrives, and F-delivery; what follows F-delivery is the subclass's."""

    to_sender: ClassVar[bool] = True
    """whether OKs also go to the sender, who may not be addressed"""

    def __init__(self, roster: Roster, me: int, groups: tuple[int, ...], kinds: dict[str, Shape]) -> None:
        """Start with everybody trusted."""
        super().__init__(roster, me)
        self.groups, self.kinds = groups, kinds
        self.group = next(g for g in groups if g >> me & 1)
        self.leader = leader(self.group)
        self.bit = 1 << me
        self.following = [1] * self.size
        self.mails: dict[tuple[int, int], Mail] = {}
        self.trust = roster.everyone
        self.mine: list[int] = []  # own messages OKed here since the member last looked; empty between steps
        self.fields = {  # type: ignore[misc]
            "following": Vector(INT),
            "mails": Mails(kinds),
            "trust": MASK,
            **self.more_fields(),
        }

    def more_fields(self) -> dict[str, Shape]:
        """Return the fields of a subclass."""
        return {}

    def number(self, copy: Copy) -> int:
        """Return the place of a message among its sender's messages to this group, from 1."""
        raise NotImplementedError

    def f_delivered(self, copy: Copy) -> list[Effect]:
        """Take an F-delivered message; the FIFO multicast hands it to the application."""
        return [Deliver(copy)]

    def receive(self, copy: Copy) -> list[Effect]:
        """Lines 10-16, then whatever can be F-delivered."""
        key, number = (copy.sender, copy.count), self.number(copy)
        mail = self.mails.get(key)
        if number < self.following[copy.sender]:
            return [] if copy.kind == OK else [Duplicate(copy)]
        effects: list[Effect] = []
        if mail is None:
            home = replace(copy, source=copy.sender, destination=self.me, kind=MESSAGE)
            mail = Mail(home, 0, False)
            if number == self.following[copy.sender]:  # line 12
                mail = mail._replace(okayed=self.bit, said=True)
                effects += self._tell(home, OK)  # line 13
            else:
                effects += self._tell(home, MESSAGE)  # line 15
        elif copy.kind == MESSAGE:
            effects.append(Duplicate(copy))
        if copy.kind == OK:
            mail = mail._replace(okayed=mail.okayed | 1 << copy.source)
        self.mails[key] = mail
        return effects + self.progress()

    def _tell(self, home: Copy, kind: str) -> list[Effect]:
        if kind == OK and home.sender == self.me:
            self.mine.append(home.count)
        to = home.destinations | (1 << home.sender if kind == OK and self.to_sender else 0)
        copies = tuple(replace(home, source=self.me, destination=d, kind=kind) for d in positions(to & ~self.bit))
        return [Transmit(copies)] if copies else []

    def progress(self) -> list[Effect]:
        """Lines 17-21 as long as some message is ready."""
        effects: list[Effect] = []
        while True:
            mail = next((m for _, m in sorted(self.mails.items()) if self._ready(m)), None)
            if mail is None:
                return effects
            home = mail.copy
            del self.mails[home.sender, home.count]
            self.following[home.sender] += 1  # line 19
            effects += self.f_delivered(home)  # line 18
            effects += self._okay_next(home.sender)

    def _ready(self, mail: Mail) -> bool:
        return self.number(mail.copy) == self.following[mail.copy.sender] and self.secured(
            mail.copy.destinations, mail.okayed
        )

    def secured(self, destinations: int, okayed: int) -> bool:
        """Tell whether every trusted addressee has OKed: line 17."""
        return not destinations & self.trust & ~okayed

    def _okay_next(self, sender: int) -> list[Effect]:
        """Lines 20-21, for every message that has become the next one and is not OKed yet."""
        effects: list[Effect] = []
        for key, mail in sorted(self.mails.items()):
            if not mail.said and self.number(mail.copy) == self.following[mail.copy.sender]:
                self.mails[key] = mail._replace(okayed=mail.okayed | self.bit, said=True)
                effects += self._tell(mail.copy, OK)
        return effects

    def pending(self) -> list[tuple[Copy, list[tuple[int, int]]]]:
        """Return what is not F-delivered; `OkMember.pending` says which OKs are missing."""
        return [(mail.copy, []) for _, mail in sorted(self.mails.items())]


def leader(group: int) -> int:
    """Return the position that stands for a group: its first member."""
    return (group & -group).bit_length() - 1
