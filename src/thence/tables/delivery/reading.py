"""Reads the causes of a row from its stamp, clock or list of causes, or gives the reason why it is unusable.

*Invariant.* A reading never raises because of a row's content: it returns a `Read` or a sentence,
and the row is quarantined with that sentence. Stamps are decoded by the registry's protocol under a known roster;
the first stamp of a key settles its protocol, since numbers of two protocols cannot be compared.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from thence.core.model.message import MESSAGE, Cause, Copy
from thence.core.model.plain import Field
from thence.core.model.roster import HASH_BYTES, Roster
from thence.core.protocols.receiver import ClockMember
from thence.core.protocols.registry import ProtocolEntry, by_code, lookup
from thence.core.protocols.wire import decode
from thence.errors import Argument, MisuseError, PeerError
from thence.tables.contract.columns import By
from thence.tables.delivery.reading_cy import read_clock, read_explicit

BYS: tuple[By, ...] = ("stamp", "clock", "depends_on")

Rosters = Roster | Iterable[str] | Iterable[Roster] | None


Read = tuple[str | None, Hashable, int, list[Hashable], list[int] | None, Copy | None]
"""What a row says of itself: its causal order, source and number, the sources and numbers it needs (None: all are 1),
and the copy itself where the protocol has a rule of its own.
"""


class Reading:
    """Options for reading the rows of one key; `rosters` are those that stamps may have been written under."""

    def __init__(
        self, by: By, rosters: tuple[Roster, ...], protocol: str | None = None, separator: str | None = None
    ) -> None:
        """Start with the protocol open, or settled as a snapshot says; `separator` parts a text of several causes."""
        self.by, self.rosters, self.separator = by, rosters, separator
        if separator is not None and (by != "depends_on" or not separator):
            raise MisuseError(
                Argument("separator"), " goes with ", Argument("by", "depends_on"), ", and is one sign or more"
            )
        self.entry: ProtocolEntry | None = None if protocol is None else lookup(protocol)
        self.dense = by != "stamp" or (self.entry is not None and self.entry.protocol.pairwise)
        self.roster: Roster | None = max(rosters, key=len) if len(rosters) == 1 else None

    @property
    def protocol(self) -> str | None:
        """The protocol of the stamps read so far."""
        return None if self.entry is None else self.entry.name

    @property
    def shared(self) -> bool:
        """Whether the shared rule decides."""
        return self.entry is None or issubclass(self.entry.protocol, ClockMember)

    def read(self, message: Field, sender: Field, destination: Field, cause: Field) -> Read | str:
        """Return the causes of one row, or why it is unusable."""
        if self.by == "stamp":
            return self._stamp(sender, destination, cause)
        if self.by == "clock":
            return read_clock(sender, cause)
        return read_explicit(message, cause, self.separator)

    def name(self, source: Hashable, number: int) -> str:
        """Return the name of a cause as users know it."""
        if self.by == "depends_on":
            return str(source)
        if self.by == "clock":
            return str(Cause(str(source), number, pairwise=True))
        assert isinstance(source, int)
        assert self.roster is not None
        return str(Cause(self.roster.name(source), number, pairwise=self.dense))

    def _stamp(self, sender: Field, destination: Field, data: Field) -> Read | str:
        if not isinstance(data, bytes | bytearray | memoryview):
            return "no stamp" if data is None else f"the stamp is a {type(data).__name__}; bytes are accepted"
        data = bytes(data)
        try:
            entry = by_code(data)
            roster = self._roster(data)
            if destination not in roster:
                return f"destination {destination!r} is not in the roster of its stamp"
            copy = decode(entry.protocol, data, roster, destination=roster.position(destination))
        except PeerError as error:
            return str(error)
        if not entry.receive_only:
            return f"protocol {entry.name} cannot be delivered at a destination that never sends"
        if self.entry is not None and entry is not self.entry:
            return f"stamp of protocol {entry.name}, but this destination's stamps are of {self.entry.name}"
        if copy.kind != MESSAGE:
            return f"a {copy.kind} of protocol {entry.name}, nothing to deliver"
        if not copy.destinations >> copy.destination & 1:
            return f"it is addressed to {', '.join(roster.members(copy.destinations))}, not to {destination}"
        if sender is not None and sender != roster.name(copy.sender):
            return f"the row names sender {sender!r}, its stamp {roster.name(copy.sender)!r}"
        if copy.count < 1:
            return f"the stamp has number {copy.count}; messages count from 1"
        self.entry = entry
        self.dense = entry.protocol.pairwise
        self.roster = roster if self.roster is None or len(roster) > len(self.roster) else self.roster
        protocol = entry.protocol
        if not issubclass(protocol, ClockMember):
            return copy.label, copy.sender, copy.count, [], None, copy
        me = copy.destination
        try:
            number, needs = protocol.gives(copy, me), protocol.needs(copy, me)
        except IndexError:
            return f"the stamp was written before {destination} joined"
        if number >> 63:
            return f"the stamp has number {number}; numbers below 2**63 are accepted"
        return copy.label, copy.sender, number, [source for source, _ in needs], [count for _, count in needs], None

    def _roster(self, data: bytes) -> Roster:
        digest = data[2 : 2 + HASH_BYTES]
        for roster in self.rosters:
            if roster.hash == digest:
                return roster
        for roster in self.rosters:
            if any(earlier.hash == digest for earlier in roster.lineage()):
                return roster
        known = ", ".join(roster.hash.hex() for roster in self.rosters)
        raise PeerError(f"stamp under roster {digest.hex()}, which is unknown here; known: {known}")


def rosters_of(by: By, roster: Rosters) -> tuple[Roster, ...]:
    """Return the rosters that a caller named: one, several, or one as a list of names."""
    if by not in BYS:
        raise MisuseError(Argument("by", by), f"; one of {', '.join(BYS)} is accepted")
    if by != "stamp":
        if roster is not None:
            raise MisuseError(
                Argument("roster"), " goes with ", Argument("by", "stamp"), "; ", Argument("by", by),
                " names its processes itself",
            )  # fmt: skip
        return ()
    if roster is None:
        raise MisuseError(
            Argument("by", "stamp"), " needs ", Argument("roster"), ": the names of the processes in order of position"
        )
    if isinstance(roster, Roster):
        return (roster,)
    items = list(roster)
    several = [item for item in items if isinstance(item, Roster)]
    if several and len(several) == len(items):
        return tuple(several)
    return (Roster([str(item) for item in items]),)
