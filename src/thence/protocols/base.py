"""The contract: a member is one process's end of a protocol, a state machine without I/O, time or chance.

A member has two parts. The **receiver** holds the delivery rule, the delivered clock and the held copies; a destination
that never sends runs it alone. Around it the member keeps its dependency log and stamps what it sends. Everything a
member does is told to the driver as effects.

What a protocol writes: a subclass of `Member` with `kinds` (the shape of the stamp for each kind of copy), `fields`
(the shape of its own state), `_send`, and `_delivered` (what a delivery adds to its log); and a `Receiver`, nearly
always the shared one in `receiver.py`. Forks, canonical states, snapshots, labels and the wire format follow from
those.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, ClassVar, Self

from thence.errors import MisuseError, PeerError
from thence.model.codec import (
    BOOL,
    INT,
    MASK,
    PROCESS,
    TEXT,
    Fielded,
    Reader,
    Record,
    Rename,
    Shape,
    put_varint,
)
from thence.model.message import MESSAGE, Cause, Copy, MessageId
from thence.model.roster import HASH_BYTES, Roster, positions
from thence.protocols.effects import (
    Deferred,
    Deliver,
    Duplicate,
    Effect,
    Hold,
    Pending,
    Sent,
    Transmit,
    name_of,
)

WIRE_VERSION = 1
SNAPSHOT_VERSION = 1
SNAPSHOT_MAGIC = b"thence-m"

__all__ = [
    "CopyShape",
    "Deferred",
    "Deliver",
    "Duplicate",
    "Effect",
    "Hold",
    "Member",
    "Pending",
    "Receiver",
    "Sent",
    "Transmit",
]


class CopyShape(Shape):
    """A whole copy inside a snapshot or a state: a held one, or one that waits to be sent."""

    def __init__(self, kinds: dict[str, Shape]) -> None:
        """Take the shape of the stamp for each kind of copy of the protocol."""
        self.kinds = kinds
        self.names = tuple(kinds)

    def write(self, value: Any, out: bytearray, size: int) -> None:
        """Write the fields and the stamp."""
        copy: Copy = value
        out.append(self.names.index(copy.kind) << 1 | (copy.label is not None))
        if copy.label is not None:
            TEXT.write(copy.label, out, size)
        for number in (copy.sender, copy.count, copy.source, copy.destination):
            put_varint(out, number)
        MASK.write(copy.destinations, out, size)
        self.kinds[copy.kind].write(copy.stamp, out, size)

    def read(self, reader: Reader) -> Copy:
        """Read a copy."""
        kind, label = read_kind(reader, self.names)
        sender, count = PROCESS.read(reader), reader.varint()
        source, destination = PROCESS.read(reader), PROCESS.read(reader)
        destinations = MASK.read(reader)
        return Copy(sender, count, destinations, source, destination, self.kinds[kind].read(reader), label, kind)

    def freeze(self, value: Any, rename: Rename) -> Hashable:
        """Freeze every field."""
        copy: Copy = value
        return (
            copy.kind,
            copy.label,
            PROCESS.freeze(copy.sender, rename),
            copy.count,
            MASK.freeze(copy.destinations, rename),
            PROCESS.freeze(copy.source, rename),
            PROCESS.freeze(copy.destination, rename),
            self.kinds[copy.kind].freeze(copy.stamp, rename),
        )


def read_kind(reader: Reader, names: Sequence[str]) -> tuple[str, str | None]:
    """Read the byte that holds the kind of a copy and whether a label follows, and the label."""
    head = reader.varint()
    if head >> 1 >= len(names):
        raise PeerError(f"kind {head >> 1} at byte {reader.at} is unknown; {len(names)} kinds are: {', '.join(names)}")
    return names[head >> 1], TEXT.read(reader) if head & 1 else None


class Receiver(Fielded, abc.ABC):
    """The delivery rule, what has been delivered, and the copies that are held."""

    def __init__(self, roster: Roster, me: int) -> None:
        """Start empty, for the process at position `me`."""
        self.roster, self.size, self.me = roster, len(roster), me

    @abc.abstractmethod
    def receive(self, copy: Copy) -> list[Effect]:
        """Take an arrival; return `Deliver` for it and for whatever it sets free, or `Hold`, or `Duplicate`."""

    @abc.abstractmethod
    def pending(self) -> list[tuple[Copy, list[tuple[int, int]]]]:
        """Return each held copy with the (sender, count) pairs it still waits for."""

    def join(self, roster: Roster) -> None:
        """Grow by one position."""
        self.roster, self.size = roster, len(roster)


class Member(Fielded, abc.ABC):
    """One process's end of a protocol; see the module text for what a subclass writes."""

    name: ClassVar[str]
    """the registry's name"""
    code: ClassVar[int]
    """the number that stands for the protocol on the wire; never reused"""
    kinds: ClassVar[dict[str, Shape]]
    """shape of the stamp for each kind of copy; the first is the message itself"""
    pairwise: ClassVar[bool] = False
    """whether causes are numbered per pair of processes"""
    options: ClassVar[tuple[str, ...]] = ()
    """names of integer or text options that the constructor takes and a snapshot keeps"""
    receiver: Receiver

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None) -> None:
        """Take the roster, one's own name or position, and the label of the order this member keeps."""
        self.roster = roster
        self.me = process if isinstance(process, int) else roster.position(process)
        self.bit = 1 << self.me
        self.size = len(roster)
        self.label = label
        self.gone = 0
        self.count = 0
        self._orders: dict[str, Self] = {}

    # -- what a protocol writes ------------------------------------------------------------------------------------

    @abc.abstractmethod
    def _send(self, destinations: int, context: Any, token: Any) -> Sent | Deferred:
        """Stamp a message to a non-empty set."""

    def _delivered(self, copy: Copy) -> list[Effect]:
        """Take over what the stamp of a copy says, right after its delivery; the log's half of the receive step."""
        return []

    def _check(self, copy: Copy) -> None:
        """Refuse a stamp that no member of this protocol can have made, with a `PeerError`."""

    def _arrived(self, copy: Copy) -> list[Effect]:
        """Handle a protocol message (any kind but the first)."""
        raise PeerError(f"protocol {self.name} has no messages of kind {copy.kind!r}")

    def _no_context(self, context: Any) -> None:
        if context is not None:
            raise MisuseError(f"protocol {self.name} takes no context; ks and ks-hardware do")

    def _deferred(self) -> list[Pending]:
        """Explain each send that is held back."""
        return []

    def _join(self) -> None:
        """Make room for the position that has just been added."""
        raise MisuseError(f"protocol {self.name} needs a fixed membership; nobody can join or leave")

    def _leave(self, process: int) -> list[Effect]:
        """Forget a process that has left."""
        raise MisuseError(f"protocol {self.name} needs a fixed membership; nobody can join or leave")

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count the elements of a stamp as its paper does."""
        raise NotImplementedError

    @classmethod
    def facts(cls, copy: Copy) -> int | None:
        """Count the pairs (message, destination) of a stamp; None where a stamp has none."""
        return None

    @classmethod
    def paper_bytes(cls, copy: Copy) -> int:
        """Return the size in the papers' own accounting: 4 bytes a time-stamp, 2 bytes a process id."""
        return 4 * cls.entries(copy)

    @classmethod
    def dependencies(cls, copy: Copy) -> list[tuple[MessageId, int]] | None:
        """Return the facts of a stamp in the clear: messages with destination masks; None where it has none."""
        return None

    def log_facts(self) -> set[tuple[MessageId, int]] | None:
        """Return the facts in the dependency log as (message, destination); None where there is no such log."""
        return None

    def log_size(self) -> int:
        """Count the elements that the dependency log holds."""
        return 0

    def context(self) -> Any:
        """Return the causal context an application can hold: all that this member has sent and delivered."""
        raise MisuseError(f"protocol {self.name} has no explicit contexts; ks and ks-hardware have")

    def context_of(self, copy: Copy) -> Any:
        """Return the context of one delivered message: itself and its causes, nothing else that was delivered."""
        raise MisuseError(f"protocol {self.name} has no explicit contexts; ks and ks-hardware have")

    def merge(self, *contexts: Any) -> Any:
        """Merge contexts into one."""
        raise MisuseError(f"protocol {self.name} has no explicit contexts; ks and ks-hardware have")

    # -- the contract ----------------------------------------------------------------------------------------------

    def send(
        self,
        destinations: int | Iterable[str],
        *,
        label: str | None = None,
        context: Any = None,
        token: Any = None,
    ) -> Sent | Deferred:
        """Send to a set of processes (names, or a mask over the roster).

        `label` picks one of several independent causal orders. `context` replaces what this member has delivered as the
        causes of the message. `token` is what serialized protocols hand from sender to sender.
        """
        mask = destinations if isinstance(destinations, int) else self.roster.mask(destinations)
        if mask == 0:
            raise MisuseError(f"process {self.roster.name(self.me)} sends to nobody; name at least one destination")
        if mask < 0 or mask >> self.size:
            raise MisuseError(f"destinations {mask:#x} reach outside a roster of {self.size}")
        if mask & self.gone:
            raise MisuseError(f"{', '.join(self.roster.members(mask & self.gone))} left; a send cannot name them")
        return self._order(label)._send(mask, context, token)

    def receive(self, copy: Copy) -> list[Effect]:
        """Take a copy from the network."""
        order = self if copy.label == self.label else self._order(copy.label)
        if copy.kind != MESSAGE:
            return order._arrived(copy)
        if not copy.destinations & self.bit:
            addressed, here = ", ".join(self.roster.members(copy.destinations)), self.roster.name(self.me)
            raise PeerError(f"message {order._name(copy)} is addressed to {addressed}; a copy arrived at {here}")
        order._check(copy)
        effects: list[Effect] = []
        for effect in order.receiver.receive(copy):
            effects.append(effect)
            if type(effect) is Deliver:
                effects += order._delivered(effect.copy)
        return effects

    def trusted(self, processes: Iterable[str]) -> list[Effect]:
        """Take the failure detector's word on who is trusted; protocols without one have no use for it."""
        return []

    def join(self, process: str) -> list[Effect]:
        """Let a process join: it gets the next position."""
        self._fixed_check()
        self.roster = self.roster.joined(process)
        for order in self._all_orders():
            order.roster = self.roster
            order.size = len(self.roster)
            order.receiver.join(self.roster)
            order._join()
        return []

    def leave(self, process: str) -> list[Effect]:
        """Let a process leave: nobody sends to it any more, and facts about it are forgotten."""
        self._fixed_check()
        position = self.roster.position(process)
        effects: list[Effect] = []
        for order in self._all_orders():
            order.gone |= 1 << position
            effects += order._leave(position)
        return effects

    def _all_orders(self) -> list[Self]:
        return [self, *(self._orders[label] for label in sorted(self._orders))]

    def _fixed_check(self) -> None:
        if type(self)._join is Member._join:
            Member._join(self)

    def pending(self) -> list[Pending]:
        """Explain every held copy and every deferred send by name."""
        found = []
        for order in self._all_orders():
            for copy, needs in order.receiver.pending():
                causes = tuple(Cause(self.roster.name(s), c, self.pairwise) for s, c in needs)
                sender = self.roster.name(copy.sender)
                found.append(Pending("copy", name_of(sender, copy.count), sender, causes, label=order.label))
            found += order._deferred()
        return found

    def fork(self) -> Self:
        """Return a twin in the same state that goes its own way."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.receiver = _fork_receiver(self.receiver)
        self.fork_into(twin)
        if self._orders:
            twin._orders = {label: order.fork() for label, order in self._orders.items()}
        else:
            twin._orders = {}
        return twin

    def state(self, rename: Rename = None) -> Hashable:
        """Return the whole state as a hashable value, with positions renamed if asked."""
        mine = (self.count, MASK.freeze(self.gone, rename), self.receiver.freeze(rename), self.freeze(rename))
        if not self._orders:
            return mine
        return (mine, tuple((label, self._orders[label].state(rename)) for label in sorted(self._orders)))

    def snapshot(self) -> bytes:
        """Return the whole state as bytes that `restore` reads: protocol, version and roster stand in front."""
        out = bytearray(SNAPSHOT_MAGIC)
        out.append(SNAPSHOT_VERSION)
        TEXT.write(self.name, out, 0)
        put_varint(out, self.size)
        for process in self.roster:
            TEXT.write(process, out, 0)
        put_varint(out, self.me)
        for option in self.options:
            TEXT.write(repr(getattr(self, option)), out, 0)
        orders = self._all_orders()
        put_varint(out, len(orders))
        for order in orders:
            BOOL.write(order.label is not None, out, 0)
            if order.label is not None:
                TEXT.write(order.label, out, 0)
            put_varint(out, order.count)
            MASK.write(order.gone, out, self.size)
            order.receiver.dump(out, self.size)
            order.dump(out, self.size)
        return bytes(out)

    @classmethod
    def restore(cls, data: bytes) -> Self:
        """Return the member that `snapshot` described, or say what is wrong with the bytes."""
        if data[: len(SNAPSHOT_MAGIC)] != SNAPSHOT_MAGIC:
            raise PeerError(f"not a snapshot: starts with {data[:8]!r}, expected {SNAPSHOT_MAGIC!r}")
        reader = Reader(data, 0)
        reader.at = len(SNAPSHOT_MAGIC)
        version = reader.varint()
        if version != SNAPSHOT_VERSION:
            raise PeerError(f"snapshot version {version}; this release reads version {SNAPSHOT_VERSION}")
        name = TEXT.read(reader)
        if name != cls.name:
            raise PeerError(f"snapshot of protocol {name!r}, expected {cls.name!r}")
        try:
            roster = Roster([TEXT.read(reader) for _ in range(reader.length())])
        except MisuseError as error:
            raise PeerError(f"snapshot with a bad roster: {error}") from None
        reader.size = len(roster)
        me = PROCESS.read(reader)
        options = {option: _literal(TEXT.read(reader)) for option in cls.options}
        try:
            root = cls(roster, me, **options)
        except MisuseError as error:
            raise PeerError(f"snapshot with bad options: {error}") from None
        for place in range(reader.length()):
            label = TEXT.read(reader) if BOOL.read(reader) else None
            order = root if place == 0 else root._order(label)
            order.label = label
            order.count = INT.read(reader)
            order.gone = MASK.read(reader)
            order.receiver.load(reader)
            order.load(reader)
        reader.done()
        return root

    def _order(self, label: str | None) -> Self:
        if label == self.label:
            return self
        if label is None:
            raise MisuseError(f"this member keeps the order of label {self.label!r} only")
        order = self._orders.get(label)
        if order is None:
            order = type(self)(self.roster, self.me, label=label, **{o: getattr(self, o) for o in self.options})
            order.gone = self.gone
            self._orders[label] = order
        return order

    # -- the wire --------------------------------------------------------------------------------------------------

    def encode(self, copy: Copy) -> bytes:
        """Return the stamp of a copy on the wire; its length is what every table here calls bytes."""
        return encode(type(self), copy, self.roster)

    def decode(self, data: bytes, *, source: int | None = None) -> Copy:
        """Read the stamp of a copy that arrived here."""
        return decode(type(self), data, self.roster, destination=self.me, source=source)

    def _name(self, copy: Copy) -> str:
        return name_of(self.roster.name(copy.sender), copy.count)

    def _copies(self, destinations: int, stamp: Callable[[int], Any]) -> tuple[Copy, ...]:
        me, count, label = self.me, self.count, self.label
        return tuple(Copy(me, count, destinations, me, d, stamp(d), label) for d in positions(destinations))


def _fork_receiver(receiver: Receiver) -> Receiver:
    twin = object.__new__(type(receiver))
    twin.__dict__.update(receiver.__dict__)
    receiver.fork_into(twin)
    return twin


def _literal(text: str) -> Any:
    if text.lstrip("-").isdigit():
        return int(text)
    if text in ("True", "False", "None"):
        return {"True": True, "False": False, "None": None}[text]
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1]
    raise PeerError(f"snapshot option {text!r} is neither a number, a flag nor a quoted text")


def encode(protocol: type[Member], copy: Copy, roster: Roster) -> bytes:
    """Write version, protocol, roster hash, kind and label, sender, count, destinations, control information."""
    out = bytearray((WIRE_VERSION, protocol.code))
    out += roster.hash
    names = tuple(protocol.kinds)
    out.append(names.index(copy.kind) << 1 | (copy.label is not None))
    if copy.label is not None:
        TEXT.write(copy.label, out, 0)
    size = len(roster)
    put_varint(out, copy.sender)
    put_varint(out, copy.count)
    MASK.write(copy.destinations, out, size)
    protocol.kinds[copy.kind].write(copy.stamp, out, size)
    return bytes(out)


def decode(protocol: type[Member], data: bytes, roster: Roster, *, destination: int, source: int | None = None) -> Copy:
    """Read what `encode` wrote; anything else is a `PeerError` that says what was found."""
    if len(data) < 2 + HASH_BYTES:
        raise PeerError(f"a stamp of {len(data)} bytes is too short; the header alone has {2 + HASH_BYTES}")
    if data[0] != WIRE_VERSION:
        raise PeerError(f"stamp version {data[0]}; this release reads version {WIRE_VERSION}")
    if data[1] != protocol.code:
        raise PeerError(f"stamp of protocol number {data[1]}, expected {protocol.code} ({protocol.name})")
    known = known_roster(roster, data[2 : 2 + HASH_BYTES], grows=protocol._join is not Member._join)
    reader = Reader(data, len(known))
    reader.at = 2 + HASH_BYTES
    kind, label = read_kind(reader, tuple(protocol.kinds))
    sender, count, destinations = PROCESS.read(reader), reader.varint(), MASK.read(reader)
    stamp = protocol.kinds[kind].read(reader)
    reader.done()
    return Copy(sender, count, destinations, sender if source is None else source, destination, stamp, label, kind)


def known_roster(roster: Roster, digest: bytes, *, grows: bool = True) -> Roster:
    """Return the roster of this lineage with that hash; one that cannot grow is its whole lineage."""
    if roster.hash == digest:
        return roster
    for earlier in roster.lineage() if grows else ():
        if earlier.hash == digest:
            return earlier
    raise PeerError(
        f"stamp under roster {digest.hex()}, which is unknown here; known is {roster.hash.hex()} "
        f"({', '.join(roster.names[:8])}{', ...' if len(roster) > 8 else ''}){' and what it grew from' * grows}"
    )


PAIR = Record(PROCESS, INT)
"""(sender, count)"""
