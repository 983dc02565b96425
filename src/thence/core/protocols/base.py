"""The contract: a member is one process's end of a protocol, a state machine without I/O, time or chance.

A member has two parts. The **receiver** holds the delivery rule, the delivered clock and the held copies; a destination
that never sends runs it alone. Around it the member keeps its dependency log, stamps what it sends and returns effects.

*Invariant.* A copy is taken or refused with a `PeerError` before any state changes. A copy is rejected if it names this
process beyond its own count, or holds a position, count, label or kind out of range.

What a protocol writes: a subclass of `Member` with `kinds` (the shape of the stamp for each kind of copy), `fields`
(the shape of its own state), `_send`, `_check` (which stamps are impossible) and `_delivered` (what a delivery adds to
its log); and a `Receiver`, nearly always the shared one in `receiver.py`. Forks, canonical states, snapshots
(`snapshots.py`), labels and the wire format (`wire.py`) follow from those.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import ClassVar, Self

from thence.core.model.message import MESSAGE, Cause, Context, Copy, MessageId, copies_of
from thence.core.model.message_names import name_of
from thence.core.model.roster import Roster
from thence.core.protocols import snapshots, wire
from thence.core.protocols.effects import Deferred, Deliver, Effect, Pending, Sent
from thence.core.wire.codec import MASK, Fielded, Shape
from thence.core.wire.sets import Rename
from thence.errors import MisuseError, PeerError

COUNT_MAX = 1 << 62
"""The largest number taken from outside. One more must still fit into 63 bits: a member may count on from there."""
REACHED = COUNT_MAX + (COUNT_MAX >> 1)
"""The largest number accepted in a restored state: beyond what counting on from `COUNT_MAX` reaches."""


class Receiver(Fielded, abc.ABC):
    """The delivery rule, what has been delivered, and the copies that are held."""

    def __init__(self, roster: Roster, me: int) -> None:
        """Start with nothing delivered and nothing held.

        Args:
            roster: the processes by position.
            me: the position of the process that receives.
        """
        self.roster, self.size, self.me = roster, len(roster), me
        self.abandoned = 0
        """the processes of which nothing more will come, as a mask"""
        self.passed: snapshots.Passed = {}

    @abc.abstractmethod
    def receive(self, copy: Copy) -> list[Effect]:
        """Take an arrival; return `Deliver` for it and for each copy that it releases, or `Hold`, or `Duplicate`.

        Args:
            copy: the copy that has arrived, already checked by `Member.check`.
        """

    @abc.abstractmethod
    def pending(self) -> list[tuple[Copy, list[tuple[int, int]]]]:
        """Return each held copy with the (sender, count) pairs it still waits for."""

    def copies(self) -> list[Copy]:
        """Return the held copies, without their missing causes."""
        return [copy for copy, _ in self.pending()]

    def join(self, roster: Roster) -> None:
        """Extend the state by the position of a process that joined.

        Args:
            roster: the roster with the new process at its end.
        """
        self.roster, self.size = roster, len(roster)

    def remember(self, passed: snapshots.Passed) -> None:
        """Restore the numbers that were skipped when processes were abandoned, from a snapshot.

        Args:
            passed: the skipped numbers by sender, as `passed` held them when the snapshot was written.
        """
        if passed:
            raise PeerError(f"snapshot that remembers numbers of {len(passed)} senders; none are kept here")

    def abandon(self, process: int) -> list[Effect]:
        """Stop waiting for messages of a process that have not arrived; return the copies this releases.

        Args:
            process: its position.
        """
        self.abandoned |= 1 << process
        return []


class Member(Fielded, abc.ABC):
    """One process's end of a protocol; see the module text for what a subclass writes."""

    name: ClassVar[str]
    """the registry's name"""
    code: ClassVar[int]
    """the number that stands for the protocol on the wire; never reused"""
    kinds: ClassVar[dict[str, Shape]]
    """shape of the stamp for each kind of copy; the first is the message itself"""
    entry_bytes: ClassVar[int] = 4
    """bytes of an entry as papers count them: a timestamp (4), and a process id (2) where it says whose"""
    pairwise: ClassVar[bool] = False
    """whether causes are numbered per pair of processes"""
    grows: ClassVar[bool] = False
    """whether processes can join and leave; the registry says the opposite as the need of a fixed membership"""
    cannot_abandon: ClassVar[str] = ""
    """why this protocol cannot give up on a process; empty if it can"""
    options: ClassVar[Mapping[str, Shape]] = {}
    """names and shapes of what else the constructor takes and a snapshot keeps"""
    tokens: ClassVar[Shape | None] = None
    """shape of the token that sends hand on, where they are serialized"""
    receiver: Receiver

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None) -> None:
        """Start a member that has sent and delivered nothing.

        Args:
            roster: the processes by position; all members of one system have the same.
            process: the name or position of this member's process.
            label: the causal order that this member keeps; None for a system with one order.
        """
        self.roster = roster
        self.me = process if isinstance(process, int) else roster.position(process)
        self.bit = 1 << self.me
        self.size = len(roster)
        self.label = label
        self.labels: frozenset[str] | None = None
        """the labels that are accepted beside the member's own; None accepts all"""
        self.gone = 0
        self.count = 0
        self._orders: dict[str, Self] = {}

    # -- what a protocol writes ------------------------------------------------------------------------------------

    @abc.abstractmethod
    def _send(self, destinations: int, context: object, token: object) -> Sent | Deferred:
        """Stamp a message to a non-empty set of destinations."""

    def _check(self, copy: Copy) -> None:
        """Refuse a stamp that no member of this protocol can have made, with a `PeerError`."""

    def spent(self, copy: Copy) -> bool:
        """Return whether a copy in flight to this process can have no effect, whatever arrives before it.

        Args:
            copy: a copy to this process that has not arrived.
        """
        return False

    def _delivered(self, copy: Copy) -> list[Effect]:
        """Merge the stamp of a copy right after its delivery; the log's half of the receive step."""
        return []

    def _arrived(self, copy: Copy) -> list[Effect]:
        """Handle a protocol message (any kind but the first)."""
        raise PeerError(f"protocol {self.name} has no messages of kind {copy.kind!r}")

    def _deferred(self) -> list[Pending]:
        """Explain each send that is held back."""
        return []

    def _join(self) -> None:
        """Make room for the position that has just been added."""

    def _leave(self, process: int) -> list[Effect]:
        """Forget facts about a process that has left; `gone` names it already."""
        return []

    def _abandon(self, process: int) -> list[Effect]:
        """Stop waiting for a process under this label."""
        return self._followed(self.receiver.abandon(process))

    def _check_state(self) -> None:
        """Refuse a restored state on which a later step could fail, with a `PeerError`."""

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count the elements of a stamp as its paper does.

        Args:
            copy: a copy that this protocol stamped.
        """
        raise NotImplementedError

    @classmethod
    def facts(cls, copy: Copy) -> int | None:
        """Count the pairs (message, destination) of a stamp; None where a stamp has no such pairs.

        Args:
            copy: a copy that this protocol stamped.
        """
        found = cls.dependencies(copy)
        return None if found is None else sum(mask.bit_count() for _, mask in found)

    @classmethod
    def paper_bytes(cls, copy: Copy) -> int:
        """Return the size in the papers' own accounting: 4 bytes a timestamp, 2 bytes a process id.

        Args:
            copy: a copy that this protocol stamped.
        """
        return cls.entry_bytes * cls.entries(copy)

    @classmethod
    def dependencies(cls, copy: Copy) -> list[tuple[MessageId, int]] | None:
        """Return the facts of a stamp in the clear: messages with destination masks; None where it has no facts.

        Args:
            copy: a copy that this protocol stamped.
        """
        return None

    def log_facts(self) -> set[tuple[MessageId, int]] | None:
        """Return the facts in the dependency log as (message, destination); None where there is no such log."""
        return None

    def log_size(self) -> int:
        """Count the elements that the dependency log holds."""
        return 0

    def context(self) -> Context:
        """Return the causal context an application can hold: all that this member has sent and delivered."""
        raise self._without_contexts()

    def context_of(self, copy: Copy) -> Context:
        """Return the context of one delivered message: itself and its causes, nothing else that was delivered.

        Args:
            copy: a copy that this member has delivered.
        """
        raise self._without_contexts()

    def merge(self, *contexts: Context) -> Context:
        """Return the context that contains everything in the given contexts.

        Args:
            contexts: results of `context`, `context_of` or `merge`, of this member.
        """
        raise self._without_contexts()

    def _without_contexts(self) -> MisuseError:
        return MisuseError(f"protocol {self.name} has no explicit contexts; ks, ks-hardware and ech have")

    def _no_context(self, context: object) -> None:
        if context is not None:
            raise MisuseError(f"protocol {self.name} takes no context; ks, ks-hardware and ech do")

    # -- sending and receiving -------------------------------------------------------------------------------------

    def send(
        self,
        destinations: int | Iterable[str],
        *,
        label: str | None = None,
        context: object = None,
        token: object = None,
    ) -> Sent | Deferred:
        """Stamp a message and return a copy for each destination, or `Deferred` if the send must be held back.

        Args:
            destinations: the processes that get the message: names, or a mask over the roster.
            label: which of several independent causal orders the message belongs to; the member's own if not given.
            context: the causes of the message, in place of everything this member has sent and delivered.
            token: what a protocol with serialized sends passes from sender to sender.
        """
        mask = destinations if isinstance(destinations, int) else self.roster.mask(destinations)
        if mask == 0:
            raise MisuseError(f"process {self.roster.name(self.me)} sends to no process; name at least one destination")
        if mask < 0 or mask >> self.size:
            raise MisuseError(f"destinations {mask:#x} reach outside a roster of {self.size}")
        if mask & self.gone:
            raise MisuseError(f"{', '.join(self.roster.members(mask & self.gone))} left; a send cannot name them")
        order = self if label == self.label else self._order(label, MisuseError)
        sent = order._send(mask, context, token)
        self.keep(order)
        return sent

    def receive(self, copy: Copy) -> list[Effect]:
        """Take a copy from the network and return the effects; refuse it with a `PeerError` and change nothing.

        Args:
            copy: the copy, as `decode` returned it.
        """
        if copy.label == self.label:
            self._admit(copy)
            return self._received(copy)
        order = self._order(copy.label, PeerError)
        order._admit(copy)
        self.keep(order)
        return order._received(copy)

    def _received(self, copy: Copy) -> list[Effect]:
        """Take a copy that has been admitted."""
        return self._followed(self.receiver.receive(copy)) if copy.kind == MESSAGE else self._arrived(copy)

    def _followed(self, effects: list[Effect]) -> list[Effect]:
        """Let the log follow each delivery."""
        followed: list[Effect] = []
        for effect in effects:
            followed.append(effect)
            if type(effect) is Deliver:
                followed += self._delivered(effect.copy)
        return followed

    def _admit(self, copy: Copy) -> None:
        """Refuse a copy that cannot be, or that comes too late."""
        self.check(copy)
        if self.receiver.abandoned >> copy.sender & 1 and copy.kind == MESSAGE:
            raise PeerError(f"message {self._name(copy)} came after its sender was abandoned; causal order forbids it")

    def check(self, copy: Copy) -> None:
        """Raise `PeerError` for a copy that no run of this system can contain.

        Args:
            copy: the copy, as `decode` returned it.
        """
        size, sender, destinations = self.size, copy.sender, copy.destinations
        if not (0 <= sender < size and 0 <= copy.source < size):
            raise PeerError(f"a copy of {sender} from {copy.source} names a position outside a roster of {size}")
        if not 0 < copy.count <= (self.count if sender == self.me else COUNT_MAX):
            sent = f"{self.roster.name(self.me)} has sent {self.count}" if sender == self.me else "it is too large"
            raise PeerError(f"there is no message {self._name(copy)}: {sent}; messages count from 1")
        if destinations <= 0 or destinations >> size:
            raise PeerError(f"message {self._name(copy)} is addressed outside a roster of {size}")
        if not destinations & self.bit and copy.kind == MESSAGE:
            addressed, here = ", ".join(self.roster.members(destinations)), self.roster.name(self.me)
            raise PeerError(f"message {self._name(copy)} is addressed to {addressed}; a copy arrived at {here}")
        self._check(copy)
        if copy.destination != self.me:
            raise PeerError(f"a copy of {self._name(copy)} to position {copy.destination} came to position {self.me}")

    def check_state(self) -> None:
        """Refuse a restored state that no run can reach and that a later step could fail on."""
        if self.count > REACHED:
            raise PeerError(f"snapshot of a member that has sent {self.count} messages; at most {REACHED} are accepted")
        if (self.gone and not self.grows) or (self.receiver.abandoned and self.cannot_abandon):
            raise PeerError(f"snapshot without processes that protocol {self.name} cannot do without")
        if (self.gone | self.receiver.abandoned) & self.bit:
            raise PeerError(f"snapshot of {self.roster.name(self.me)} in which it is gone itself")
        for copy in self.receiver.copies():
            if copy.label != self.label or copy.destination != self.me or copy.kind != MESSAGE:
                raise PeerError(f"snapshot holds back {self._name(copy)}, which is not a message to be delivered here")
            self.check(copy)
        self._check_state()

    def beyond(self, what: str, number: int, copy: Copy) -> PeerError:
        """Return the error for a stamp that claims more about a process than can be known.

        Args:
            what: the process whose messages the stamp counts, as the error names it.
            number: the count that is too high.
            copy: the copy with that stamp.
        """
        return PeerError(f"the stamp of {self._name(copy)} speaks of message {number} of {what}")

    def check_known(self, copy: Copy, sender: int, newest: int) -> None:
        """Refuse a stamp that names this process beyond its count, or a message that its own sender sent later.

        Args:
            copy: the copy with the stamp.
            sender: the position whose messages the stamp counts.
            newest: the highest count that it names of them.
        """
        if sender == self.me and newest > self.count:
            raise self.beyond(f"{self.roster.name(sender)}, who has sent {self.count}", newest, copy)
        if sender == copy.sender and newest >= copy.count:
            raise self.beyond("the same sender, which comes later", newest, copy)

    def check_own(self, newest: int) -> None:
        """Refuse a restored state that names this process beyond its count.

        Args:
            newest: the highest count of this process's own messages in the state.
        """
        if newest > self.count:
            raise PeerError(f"snapshot that names message {newest} of a member that has sent {self.count}")

    # -- membership ------------------------------------------------------------------------------------------------

    def trusted(self, processes: Iterable[str]) -> list[Effect]:
        """Take the output of the failure detector; protocols that use none ignore it.

        Args:
            processes: the processes that are trusted now.
        """
        return []

    def join(self, process: str) -> list[Effect]:
        """Add a process to the roster, at the next position.

        Args:
            process: its name, which must be new.
        """
        self._must_grow()
        self.roster = self.roster.joined(process)
        for order in self.orders():
            order.roster = self.roster
            order.size = len(self.roster)
            order.receiver.join(self.roster)
            order._join()
        return []

    def connect(self, process: str) -> list[Effect]:
        """Open a link of the overlay to a process; protocols without an overlay refuse it.

        Args:
            process: the name of the process at the other end.
        """
        raise MisuseError(f"protocol {self.name} has no overlay; pc-broadcast has")

    def leave(self, process: str) -> list[Effect]:
        """Let a process leave: no process sends to it any more, and facts about it are forgotten for good.

        What it sent may still be on its way, so nothing that waits for it is released; `abandon` does that.

        Args:
            process: the name of the process that left.
        """
        self._must_grow()
        position = self._other(process)
        effects: list[Effect] = []
        for order in self.orders():
            order.gone |= 1 << position
            effects += order._leave(position)
        return effects

    def abandon(self, process: str) -> list[Effect]:
        """Give up on a process that is gone for good: wait no longer for messages of it that have not arrived.

        Before each delivery that goes without a cause stands `GoesWithout`. Causes that only a lost message named are
        unknown, so they are not waited for; those of other processes are delivered when they arrive. A copy of the
        abandoned process that arrives later is refused.

        Args:
            process: the name of the process that is gone.
        """
        if self.cannot_abandon:
            raise MisuseError(f"protocol {self.name} cannot abandon {process}: {self.cannot_abandon}")
        position = self._other(process)
        effects = self.leave(process) if self.grows else []
        for order in self.orders():
            if not order.receiver.abandoned >> position & 1:
                effects += order._abandon(position)
        return effects

    def _other(self, process: str) -> int:
        position = self.roster.position(process)
        if position == self.me:
            raise MisuseError(f"{process} is this process itself; one of the others is accepted")
        return position

    def _must_grow(self) -> None:
        if not self.grows:
            raise MisuseError(f"protocol {self.name} needs a fixed membership; no process can join or leave")

    # -- labels ----------------------------------------------------------------------------------------------------

    def accept(self, labels: Iterable[str] | None) -> None:
        """Restrict the labels that sends and copies may have.

        Args:
            labels: the labels that are accepted beside the member's own; None accepts all, which is the default.
        """
        self.labels = None if labels is None else frozenset(labels)

    def orders(self) -> list[Self]:
        """Return the causal orders of this member: its own and those of other labels, by label."""
        return [self, *(self._orders[label] for label in sorted(self._orders))]

    def fresh(self, label: str) -> Self:
        """Return the order of a label in which nothing was sent or received; `keep` makes it part of this member.

        Args:
            label: the label of the new order.
        """
        order = type(self)(self.roster, self.me, label=label, **{o: getattr(self, o) for o in self.options})
        order.gone, order.receiver.abandoned = self.gone, self.receiver.abandoned
        return order

    def keep(self, order: Self) -> None:
        """Make the order of a label part of this member.

        Args:
            order: what `fresh` returned.
        """
        if order is not self and order.label is not None:
            self._orders[order.label] = order

    def _order(self, label: str | None, fault: type[MisuseError | PeerError]) -> Self:
        """Return the order of a label, or a fresh one; refuse a label that is not accepted."""
        if label is None:
            raise fault(f"this member keeps the order of label {self.label!r}; copies and sends need one")
        order = self._orders.get(label)
        if order is not None:
            return order
        if self.labels is not None and label not in self.labels:
            raise fault(f"label {label!r} is not accepted here; {', '.join(sorted(self.labels)) or 'none'} are")
        if len(label.encode()) > wire.MOST_LABEL_BYTES:
            raise fault(f"label {label[:20]!r}... is longer than the {wire.MOST_LABEL_BYTES} bytes accepted")
        return self.fresh(label)

    # -- the state as a value --------------------------------------------------------------------------------------

    def pending(self) -> list[Pending]:
        """Explain every held copy and every deferred send by name."""
        found = []
        for order in self.orders():
            for copy, needs in order.receiver.pending():
                causes = tuple(Cause(self.roster.name(s), c, self.pairwise) for s, c in needs)
                sender = self.roster.name(copy.sender)
                found.append(Pending("copy", name_of(sender, copy.count), sender, causes, label=order.label))
            found += order._deferred()
        return found

    def fork(self) -> Self:
        """Return an independent copy of this member."""
        forked = self.forked()
        forked.receiver = self.receiver.forked()
        forked._orders = {label: order.fork() for label, order in self._orders.items()} if self._orders else {}
        return forked

    def settle(self) -> None:
        """Finish deferred work, so that equal states compare equal; most protocols have none."""

    def state(self, rename: Rename = None) -> Hashable:
        """Return the whole state as a hashable value, for comparing states in an exploration.

        Args:
            rename: the new position of each position; None keeps them.
        """
        self.settle()
        own = (self.count, MASK.freeze(self.gone, rename), self.receiver.freeze(rename), self.freeze(rename))
        others = tuple((label, self._orders[label].state(rename)) for label in sorted(self._orders))
        return (own, others) if others else own

    def snapshot(self) -> bytes:
        """Return the whole state as bytes for `restore`, which begin with protocol, version and roster."""
        return snapshots.write(self)

    @classmethod
    def restore(cls, data: bytes) -> Self:
        """Return the member that `snapshot` described; raise `PeerError` for bytes that are damaged or impossible.

        Args:
            data: what `snapshot` returned.
        """
        return snapshots.read(cls, data)

    # -- the wire --------------------------------------------------------------------------------------------------

    def encode(self, copy: Copy, version: int = wire.WIRE_VERSION) -> bytes:
        """Return the stamp of a copy as bytes.

        Args:
            copy: a copy that `send` returned.
            version: of the wire format; 2 is shorter, for destinations that read it (releases after 0.1.0).
        """
        return wire.encode(type(self), copy, self.roster, version)

    def decode(self, data: bytes, *, source: str | int) -> Copy:
        """Read the stamp of a copy that arrived here.

        Args:
            data: what `encode` returned at the sender.
            source: the name or position of the process that delivered the bytes. The runtime must know it from the
                connection: a stamp names the sender of the message, which may be another process.
        """
        position = source if isinstance(source, int) else self.roster.position(source)
        return wire.decode(type(self), data, self.roster, destination=self.me, source=position)

    def _name(self, copy: Copy) -> str:
        known = 0 <= copy.sender < self.size
        return name_of(self.roster.name(copy.sender) if known else f"position {copy.sender}", copy.count)

    def _sent(self, destinations: int, stamp: Callable[[int], object]) -> Sent:
        """Return the message just counted, with a copy for each destination that carries `stamp(destination)`."""
        copies = copies_of(self.me, self.count, destinations, stamp, self.label)
        return Sent(MessageId(self.me, self.count), destinations, copies, self.label)
