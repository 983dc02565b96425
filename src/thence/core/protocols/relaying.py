"""Base of `central` and `hierarchy`: a process asks its coordinator to send, and gets its messages from
it alone.

Invariant: a message goes to the sender's coordinator as a request; requests of one process are taken in the order
of their counts. What a coordinator passes on to a process names the message it passed on there before and is
delivered after it. So each process delivers in the order in which its coordinator spoke to it, whatever the
channels do.

The name of the message before does what a sequence number per child would do, at the same cost, and lets the
shared delivery rule and `pending()` speak of messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from thence.core.model.message import MESSAGE, Cause, Copy, MessageId
from thence.core.model.message_names import name_of
from thence.core.model.roster import Roster, positions
from thence.core.protocols.base import REACHED
from thence.core.protocols.effects import Duplicate, Effect, Pending, Sent, Transmit
from thence.core.protocols.receiver import ClockMember, Needs
from thence.core.protocols.unordered import NOTHING
from thence.core.protocols.wire import PAIR
from thence.core.wire.codec import INT, MASK, PROCESS, ByCount, ByProcess, Optional, Shape, Vector
from thence.core.wire.reader_cy import Reader
from thence.errors import PeerError

REQUEST = "request"
MessageNumber = tuple[int, int]
"""(sender, count)"""


class RelayingMember(ClockMember):
    """A member with a coordinator, perhaps itself one."""

    cannot_abandon = "messages come by way of a coordinator, which must be there"
    entry_bytes = 6  # a sender and a timestamp
    kinds: ClassVar[dict[str, Shape]] = {MESSAGE: Optional(PAIR), REQUEST: NOTHING}
    fields: ClassVar[dict[str, Shape]] = {
        "over": Vector(PROCESS),
        "taken": Vector(INT),
        "early": ByProcess(ByCount(MASK)),
        "latest": Vector(Optional(PAIR)),
    }

    def __init__(self, roster: Roster, process: str | int, over: list[int], *, label: str | None = None) -> None:
        super().__init__(roster, process, label=label)
        self.over = over
        self.taken = [0] * self.size
        """count of the latest request taken from each process"""
        self.early: dict[int, dict[int, int]] = {}
        """destinations of requests that came before their turn, by process and count"""
        self.latest: list[MessageNumber | None] = [None] * self.size
        """the message that was passed on to each process last"""

    @staticmethod
    def needs(copy: Copy, me: int) -> Needs:
        """Return the message that was forwarded to this process before."""
        return () if copy.stamp is None else (copy.stamp,)

    def _send(self, destinations: int, context: object, token: object) -> Sent:
        self._no_context(context)
        self.count += 1
        message, here = (self.me, self.count), self.over[self.me]
        if here == self.me:
            copies = tuple(self._forward(message, destinations))
        else:
            copies = (Copy(*message, destinations, self.me, here, (), self.label, REQUEST),)  # Ask the coordinator
        return Sent(MessageId(*message), destinations, copies, self.label)

    def _forward(self, message: MessageNumber, destinations: int) -> Iterator[Copy]:
        """Send a message on its way."""
        raise NotImplementedError

    def _pass_on(self, message: MessageNumber, destinations: int, children: int) -> Iterator[Copy]:
        """Forward a message to processes that this one coordinates, each copy after the one before."""
        for d in positions(destinations & children):
            yield Copy(*message, destinations, self.me, d, self.latest[d], self.label)  # Name the copy before
            self.latest[d] = message

    def _check(self, copy: Copy) -> None:
        if copy.kind == MESSAGE:
            self._check_source(copy, self.over[self.me])
            if copy.stamp is not None:
                self.check_known(copy, *copy.stamp)
        elif copy.kind == REQUEST:
            self._check_source(copy, copy.sender)
            if self.over[copy.sender] != self.me:
                sender, here = self.roster.name(copy.sender), self.roster.name(self.me)
                raise PeerError(
                    f"request {self._name(copy)} came to {here}; "
                    f"the coordinator of {sender} is {self.roster.name(self.over[copy.sender])}"
                )

    def _check_source(self, copy: Copy, expected: int) -> None:
        if copy.source != expected:
            source, wanted = self.roster.name(copy.source), self.roster.name(expected)
            raise PeerError(f"{source} delivered a {copy.kind} of {self._name(copy)}; {wanted} would have to")

    def _check_state(self) -> None:
        self.check_own(max((pair[1] for pair in self.latest if pair is not None and pair[0] == self.me), default=0))
        if max(self.taken) > REACHED:
            raise PeerError(f"snapshot with more than {REACHED} requests taken")

    def load(self, reader: Reader) -> None:
        """Read the fields; who coordinates whom follows from the options."""
        over = self.over
        super().load(reader)
        if self.over != over:
            raise PeerError(f"snapshot with other coordinators than its options say, before byte {reader.at}")

    def _arrived(self, copy: Copy) -> list[Effect]:
        sender, count = copy.sender, copy.count
        early = self.early.get(sender, {})
        if count <= self.taken[sender] or count in early:
            return [Duplicate(copy)]
        early = {**early, count: copy.destinations}
        copies: list[Copy] = []
        while (turn := self.taken[sender] + 1) in early:
            self.taken[sender] = turn
            copies += self._forward((sender, turn), early.pop(turn))  # Multicast requests in turn
        self.early = {**self.early, sender: early}
        if not early:
            del self.early[sender]
        return [Transmit(tuple(copies))] if copies else []

    def _deferred(self) -> list[Pending]:
        """Explain the requests that came before their turn."""
        found = []
        for sender, early in sorted(self.early.items()):
            name = self.roster.name(sender)
            cause = Cause(name, self.taken[sender] + 1)
            for count in sorted(early):
                text = f"a request that came before its turn at {self.roster.name(self.me)}"
                found.append(Pending("copy", name_of(name, count), name, (cause,), reason=text, label=self.label))
        return found

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count the message before; the first has none, and a request carries nothing."""
        return int(copy.kind == MESSAGE and copy.stamp is not None)

    @classmethod
    def dependencies(cls, copy: Copy) -> list[tuple[MessageId, int]] | None:
        """Return the one message that comes before this one, in the clear."""
        if copy.kind != MESSAGE or copy.stamp is None:
            return []
        return [(MessageId(*copy.stamp), 1 << copy.destination)]

    def log_size(self) -> int:
        """Count what a coordinator keeps for those it serves."""
        return sum(pair is not None for pair in self.latest) + sum(map(len, self.early.values()))
