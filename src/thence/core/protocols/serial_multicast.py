"""KS98 section 7.1, serialized multicasts to arbitrary groups: one entry per destination suffices.

Invariant: sends are serialized by mutual exclusion. The token names, for each process, the latest message sent to
it; so does every copy, as of before its own send. A copy is delivered at d after the one it names for d. So
every process delivers what is addressed to it in the order of the token, which is causal.

Needs serialized sends (`send(token=...)` with what the previous `Sent.token` was; the very first send takes
None) and a fixed membership. Waits for more than causes. Cost: n entries, (sender, count), on every copy and
at every member.

Departures: the entries pass from sender to sender with the token. The text has logs learn them from deliveries; then
a process that sends next, but has not delivered what was sent before, breaks the chain, and keeping only the latest
entry is
unsafe: `a!1>cd b!1>cd d<a1 d<b1 d!1>c c<b1 c<d1` delivers d1 at c before a1. A number of the send stands beside the
entries. The delivery rule does not use it; it orders the logs, so that a member can refuse a token that is older than
what it has sent or delivered.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, TypeGuard

from thence.core.model.message import MESSAGE, Copy, MessageId
from thence.core.model.roster import Roster, positions
from thence.core.protocols.base import COUNT_MAX, REACHED
from thence.core.protocols.dependency import by_message
from thence.core.protocols.effects import Effect, Sent
from thence.core.protocols.receiver import ClockMember, Needs
from thence.core.protocols.wire import PAIR
from thence.core.wire.codec import INT, Optional, RecordShape, Shape, Vector
from thence.errors import MisuseError, PeerError

Latest = tuple[tuple[int, int] | None, ...]
"""for each process the (sender, count) of the latest message sent to it"""
MulticastToken = tuple[int, Latest]
"""number of sends so far, and the latest message to each process"""
TOKEN = RecordShape(INT, Vector(Optional(PAIR), make=tuple))


class SerialMulticast(ClockMember):
    """n entries: the latest send to each process."""

    name = "serial-multicast"
    code = 31
    entry_bytes = 6  # a sender and a timestamp
    kinds: ClassVar[dict[str, Shape]] = {MESSAGE: TOKEN}
    tokens: ClassVar[Shape] = TOKEN
    fields: ClassVar[dict[str, Shape]] = {"log": TOKEN}

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None) -> None:
        super().__init__(roster, process, label=label)
        self.log: MulticastToken = (0, (None,) * self.size)

    @staticmethod
    def needs(copy: Copy, me: int) -> Needs:
        """The latest message sent here before this one."""
        latest = copy.stamp[1][me]
        return () if latest is None else (latest,)

    def _send(self, destinations: int, context: object, token: object) -> Sent:
        self._no_context(context)
        before = self._taken(token)  # Take the latest send to each from the token
        self.count += 1
        sent = self._sent(destinations, lambda d: before)
        self.log = after_sending(before, destinations, (self.me, self.count))  # Replace the entries of the destinations
        return replace(sent, token=self.log)

    def _delivered(self, copy: Copy) -> list[Effect]:
        if copy.stamp[0] >= self.log[0]:
            self.log = after_sending(copy.stamp, copy.destinations, (copy.sender, copy.count))  # Take over a later log
        return []

    def _check(self, copy: Copy) -> None:
        number, latest = copy.stamp
        for pair in latest:
            if pair is not None and pair[0] in (self.me, copy.sender):
                self.check_known(copy, *pair)
        if number > COUNT_MAX:
            raise PeerError(f"message {self._name(copy)} has place {number} among all; at most {COUNT_MAX} is accepted")

    def _check_state(self) -> None:
        self.check_own(max((pair[1] for pair in self.log[1] if pair is not None and pair[0] == self.me), default=0))
        if self.log[0] > REACHED:
            raise PeerError(f"snapshot of send {self.log[0]} among all; at most {REACHED} is accepted")

    def _taken(self, token: object) -> MulticastToken:
        number = self.log[0]
        if token is None:
            if number:
                raise self._misused("is missing; only the very first send goes without")
            return self.log
        if not _is_token(token, self.size):
            raise self._misused(f"is {token!r}; it must be the token of the send before")
        found, latest = token
        if found < number or (found == number and latest != self.log[1]):
            raise self._misused(f"is of send {found}, this process knows of send {number}; it must be the latest")
        return (found, latest)

    def _misused(self, what: str) -> MisuseError:
        return MisuseError(f"protocol {self.name} needs serialized sends: the token {what}")

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count an entry for each process."""
        return len(copy.stamp[1])

    @classmethod
    def facts(cls, copy: Copy) -> int:
        # to sort the entries by message would take a tenth of a simulated run
        return sum(pair is not None for pair in copy.stamp[1])

    @classmethod
    def dependencies(cls, copy: Copy) -> list[tuple[MessageId, int]]:
        return by_message((*pair, d) for d, pair in enumerate(copy.stamp[1]) if pair is not None)

    def log_size(self) -> int:
        """Count an entry for each process."""
        return self.size


def is_pair(pair: object, size: int) -> TypeGuard[tuple[int, int]]:
    """Return whether something names a message."""
    return (
        isinstance(pair, tuple)
        and len(pair) == 2
        and all(isinstance(number, int) for number in pair)
        and 0 <= pair[0] < size
        and 0 < pair[1] <= COUNT_MAX
    )


def _is_token(token: object, size: int) -> TypeGuard[MulticastToken]:
    if not isinstance(token, tuple) or len(token) != 2:
        return False
    number, latest = token
    if not isinstance(number, int) or not 0 <= number <= COUNT_MAX or not isinstance(latest, tuple):
        return False
    return len(latest) == size and all(pair is None or is_pair(pair, size) for pair in latest)


def after_sending(token: MulticastToken, destinations: int, message: tuple[int, int]) -> MulticastToken:
    """Return the token after a message was sent to these."""
    latest = list(token[1])
    for d in positions(destinations):
        latest[d] = message
    return (token[0] + 1, tuple(latest))
