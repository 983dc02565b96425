"""The receiver that most protocols share: the rule of `waiting_cy.py` over copies.

Invariant. A copy that needs nothing more is delivered at once. A delivery sets delivered[sender] to the copy's own
number, and then, as long as some held copy needs nothing more, the one that arrived first among those is delivered
next.

A protocol says only two things of a stamp: `needs(copy)`, the pairs (s, t), and `gives(copy)`, the copy's own number (a
count of messages, or a count per pair of processes). A copy whose number is not above delivered[sender] was delivered
before: causal order implies that messages of one sender to one destination are delivered in the order of their numbers.

This no longer holds once a copy was delivered without a cause: a message of a live process may have been known only
through that cause, and may come after later ones of its sender. From then on the latest `PASSED` numbers delivered of
each sender are remembered (`passed`). What is not among them, and above the least of them, is not a repeat: it is
delivered late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import ClassVar

from thence.core.model.message import MESSAGE, Cause, Copy
from thence.core.model.roster import Roster
from thence.core.protocols.base import Member, Receiver
from thence.core.protocols.effects import Deliver, Duplicate, Effect, GoesWithout, Hold
from thence.core.protocols.snapshots import REMEMBERED, Passed
from thence.core.protocols.waiting_cy import Watches, unmet, wake, watch
from thence.core.protocols.wire import CopyShape
from thence.core.wire.codec import INT, MASK, RecordShape, Seq, Shape, Vector
from thence.core.wire.reader_cy import Reader
from thence.core.wire.sets import Rename
from thence.errors import PeerError

Needs = Sequence[tuple[int, int]]
PASSED = 256
"""numbers of each sender that are remembered once a copy has gone without a cause"""


class ClockReceiver(Receiver):
    """The shared rule over a delivered clock."""

    def __init__(
        self,
        roster: Roster,
        me: int,
        kinds: Mapping[str, Shape],
        needs: Callable[[Copy, int], Needs],
        gives: Callable[[Copy, int], int],
        *,
        pairwise: bool = False,
    ) -> None:
        """Take the rule: `needs(copy, me)` and `gives(copy, me)`."""
        super().__init__(roster, me)
        self.needs, self.gives, self.pairwise = needs, gives, pairwise
        self.delivered = [0] * self.size
        self.held: dict[int, tuple[Copy, Needs]] = {}
        """by arrival: a copy and those of its needs that were not met when it was first looked at"""
        self.arrivals = 0
        self._keys: set[tuple[int, int]] = set()
        self._watch: Watches = {}
        self._forgone: dict[int, Needs] = {}
        """needs that will never be met, by arrival"""
        self._shape = RecordShape(Vector(INT), MASK, Seq(CopyShape({MESSAGE: kinds[MESSAGE]})))

    def receive(self, copy: Copy) -> list[Effect]:
        """Apply the rule to an arrival."""
        number = self.gives(copy, self.me)
        sender = copy.sender
        repeated = number <= self.delivered[sender] and not self._late(sender, number)
        if repeated or (self._keys and (sender, number) in self._keys):
            return [Duplicate(copy)]
        needs = self.needs(copy, self.me)
        forgone: Needs = ()
        if self.abandoned:
            needs, forgone = self._parted(needs)
        if needs and (left := self._unmet(needs)):
            return [self._hold(copy, number, left, forgone)]  # Hold what needs more than is delivered
        effects: list[Effect] = [self._goes_without(copy, forgone)] if forgone else []
        effects.append(Deliver(copy))  # Deliver at once what needs nothing more
        self.delivered[sender] = self._latest(sender, number) if self.passed else number
        if self._watch:
            ready: list[int] = []
            self._wake(sender, ready)
            self._release(ready, effects)
        return effects

    def _unmet(self, needs: Needs) -> Needs:
        found: Needs = unmet(needs, self.delivered)
        return found

    def _wake(self, sender: int, ready: list[int]) -> None:
        if sender in self._watch:
            wake(sender, self._watch, self.delivered, self.held, ready)

    def _hold(self, copy: Copy, number: int, left: Needs, forgone: Needs) -> Hold:
        self.arrivals += 1
        self.held[self.arrivals] = (copy, left)
        self._keys.add((copy.sender, number))
        watch(self._watch, left[0], self.arrivals)
        if forgone:
            self._forgone[self.arrivals] = forgone
        return Hold(copy, partial(self._causes, left))

    def _release(self, ready: list[int], effects: list[Effect]) -> None:
        """Deliver free copies in order of arrival, and those that they unblock."""
        while ready:
            self._wake(self._deliver(effects, heappop(ready)), ready)

    def _deliver(self, effects: list[Effect], arrival: int) -> int:
        """Deliver a held copy; return its sender."""
        copy, _ = self.held.pop(arrival)
        number = self.gives(copy, self.me)
        self._keys.discard((copy.sender, number))
        if arrival in self._forgone:
            effects.append(self._goes_without(copy, self._forgone.pop(arrival)))
        effects.append(Deliver(copy))  # Deliver what was held
        self.delivered[copy.sender] = self._latest(copy.sender, number) if self.passed else number
        return copy.sender

    # -- abandoned processes ---------------------------------------------------------------------------------------

    def abandon(self, process: int) -> list[Effect]:
        """Make copies wait only for held messages of an abandoned process, and release those that no longer wait."""
        super().abandon(process)
        self._watch, self._forgone = {}, {}
        ready: list[int] = []
        for arrival, (copy, _) in self.held.items():
            needs, forgone = self._parted(self.needs(copy, self.me))
            left = self._unmet(needs)
            self.held[arrival] = (copy, left)
            if forgone:
                self._forgone[arrival] = forgone
            if left:
                watch(self._watch, left[0], arrival)
            else:
                heappush(ready, arrival)
        effects: list[Effect] = []
        self._release(ready, effects)
        return effects

    def _parted(self, needs: Needs) -> tuple[Needs, Needs]:
        """Split needs into those that can still be met and those that cannot.

        Of an abandoned process only what is held here can still be delivered: the need of (s, t) becomes that of the
        newest held message of s up to t.
        """
        possible, forgone = [], []
        for sender, count in needs:
            if not self.abandoned >> sender & 1 or self.delivered[sender] >= count:
                possible.append((sender, count))
                continue
            newest = max((number for s, number in self._keys if s == sender and number <= count), default=0)
            if newest:
                possible.append((sender, newest))
            if newest != count:
                forgone.append((sender, count))
        return possible, forgone

    def _goes_without(self, copy: Copy, forgone: Needs) -> GoesWithout:
        if not self.passed:
            self.passed = {sender: (number,) for sender, number in enumerate(self.delivered)}
        return GoesWithout(copy, self._causes(forgone))

    def _latest(self, sender: int, number: int) -> int:
        """Remember a number that is delivered now; return the latest."""
        numbers = sorted((*self.passed.get(sender, (0,)), number))
        self.passed[sender] = tuple(numbers[-PASSED:])
        return numbers[-1]

    def _late(self, sender: int, number: int) -> bool:
        """Return whether a number that was passed has not been delivered."""
        if not self.passed:
            return False
        numbers = self.passed.get(sender, (0,))
        return number > numbers[0] and number not in numbers

    def remember(self, passed: Passed) -> None:
        """Take from a snapshot which numbers were delivered."""
        for sender, numbers in passed.items():
            if not self.abandoned or list(numbers) != sorted(set(numbers)) or numbers[-1:] != (self.delivered[sender],):
                raise PeerError(f"snapshot that remembers {numbers[-8:]} of sender {sender}; they ascend to the latest")
            if len(numbers) > PASSED:
                raise PeerError(f"snapshot that remembers {len(numbers)} numbers of a sender; {PASSED} are kept")
        self.passed = passed

    def _causes(self, needs: Iterable[tuple[int, int]]) -> tuple[Cause, ...]:
        name = self.roster.name
        return tuple(Cause(name(s), t, self.pairwise) for s, t in needs)

    # -- the state as a value --------------------------------------------------------------------------------------

    def pending(self) -> list[tuple[Copy, list[tuple[int, int]]]]:
        """Return held copies in order of arrival with their unmet needs."""
        return [(copy, list(self._unmet(needs))) for copy, needs in self.held.values()]

    def join(self, roster: Roster) -> None:
        """Extend the delivered clock by the process that joined."""
        super().join(roster)
        self.delivered.append(0)

    # Keys and watches are computed again from the held copies.

    def _value(self) -> tuple[list[int], int, list[Copy]]:
        return self.delivered, self.abandoned, [copy for copy, _ in self.held.values()]

    def dump(self, out: bytearray, size: int) -> None:
        """Write the delivered clock and the held copies in order of arrival."""
        self._shape.write(self._value(), out, size)

    def load(self, reader: Reader) -> None:
        self.delivered, self.abandoned, copies = self._shape.read(reader)
        self.size = len(self.delivered)
        self.held, self._keys, self._watch, self._forgone, self.arrivals = {}, set(), {}, {}, 0
        numbers = [self.gives(copy, self.me) for copy in copies]
        self._keys = {(copy.sender, number) for copy, number in zip(copies, numbers, strict=True)}
        if len(self._keys) < len(copies):
            raise PeerError(f"snapshot holds back one of {len(copies)} messages twice")
        for copy, number in zip(copies, numbers, strict=True):
            needs, forgone = (
                self._parted(self.needs(copy, self.me)) if self.abandoned else (self.needs(copy, self.me), ())
            )
            left = self._unmet(needs)
            if not left:
                raise PeerError(f"snapshot holds back message {copy.id}, which waits for nothing")
            self._hold(copy, number, left, forgone)

    def freeze(self, rename: Rename) -> tuple[object, ...]:
        frozen = self._shape.freeze(self._value(), rename)
        assert isinstance(frozen, tuple)
        return (*frozen, REMEMBERED.freeze(self.passed, rename)) if self.passed else frozen

    def fork_into(self, forked: object) -> None:
        assert isinstance(forked, ClockReceiver)
        forked.delivered = self.delivered[:]
        forked.held = self.held.copy()
        forked._keys = self._keys.copy()
        forked._watch = {sender: heap[:] for sender, heap in self._watch.items()}
        forked._forgone = self._forgone.copy()
        forked.passed = self.passed.copy()


class ClockMember(Member):
    """A member whose receiver is the shared rule; a subclass says what a copy needs and which number it has."""

    receives: ClassVar[type[ClockReceiver]] = ClockReceiver
    receiver: ClockReceiver

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None) -> None:
        super().__init__(roster, process, label=label)
        self.receiver = self.alone(roster, self.me)

    @classmethod
    def alone(cls, roster: Roster, me: int) -> ClockReceiver:
        """Return the receiver by itself, for a destination that never sends."""
        return cls.receives(roster, me, cls.kinds, cls.needs, cls.gives, pairwise=cls.pairwise)

    @staticmethod
    def needs(copy: Copy, me: int) -> Needs:
        """Return the (s, t) that must be delivered at `me` before this copy."""
        raise NotImplementedError

    @staticmethod
    def gives(copy: Copy, me: int) -> int:
        """Return the number that delivered[sender] takes when this copy is delivered at `me`."""
        return copy.count
