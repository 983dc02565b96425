"""One end of the link to one peer: numbers, acknowledgements, credit, and the handshake of a connection.

Invariant: every item is written down by the other end exactly once and in order, over any number of connections: an
item whose number was seen is passed over, one that leaves a gap is refused. "Acknowledged" means written to the
journal. What is not committed here is neither sent nor acknowledged.

An end that is behind what the other has seen of it has lost its memory, and is refused with a sentence: a journal with
another identity, fewer items sent than the other has received, fewer received than it has acknowledged.

Credit counts bytes of items over one connection. The receiver grants as many as its window beyond what it has written
down; an item that does not fit goes alone. `within` is the whole rule: the sender asks it before an item leaves, the
receiver when it comes, and the receiver knows no less of what it has granted and written down than the sender does. So
honest peers never refuse each other, and no more than a window, or one item, is here and not written down.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import TYPE_CHECKING

from thence.errors import PeerError
from thence.live.frames import BEATS_FROM, BITS_FROM, WIRE_VERSIONS, Hello
from thence.live.logs import printable
from thence.live.outbox import Outbox, OutboxItem

if TYPE_CHECKING:
    from thence.live.core import Core

WINDOW_BYTES = 1 << 20


def within(before: int, size: int, credit: int, written: int) -> bool:
    """Return whether an item may travel after `before` bytes: it fits the credit, or goes alone.

    Alone means that all items before it are written down, and some credit is left: without credit nothing is sent.
    """
    return before + size <= credit or (before <= written and before < credit)


def grown(here: Sequence[str], other: Sequence[str], joined: Container[str]) -> bool:
    """Return whether two rosters differ by processes that join at run time only, which one end knows of already.

    Each end answers for the names that it has more.
    """
    common = min(len(here), len(other))
    surplus = here[common:]
    return here[:common] == other[:common] and all(name in joined for name in surplus)


def terms(core: Core) -> tuple[list[str], str, str]:
    """Return roster, protocol and its options: what both ends of a link must have in common."""
    member = core.member
    return list(core.roster), member.name, repr([(name, getattr(member, name)) for name in member.options])


class LinkRefused(PeerError):
    """A connection that cannot be; `forgetful` names the process that lost its memory."""

    def __init__(self, text: str, forgetful: str | None = None) -> None:
        super().__init__(text)
        self.forgetful = forgetful


class Link:
    """State of the exchange with one peer: sent, acknowledged and received items, and credit."""

    def __init__(
        self, name: str, outbox: Outbox, received: int, identity: str | None, *, window: int = WINDOW_BYTES
    ) -> None:
        """Take the state in the journal, all of which is committed."""
        self.name, self.outbox, self.identity, self.window = name, outbox, identity, window
        self.durable = outbox.sent
        """number of the last item made that is committed, and may leave"""
        self.received = received
        """number of the last item of the peer that is committed here"""
        self.arrived = received
        """number of the last item that came, committed or not"""
        self.left = outbox.sent
        """number of the last item that may have left, over this connection or an earlier one, in this life or before"""
        self.open = False
        self.beats = False
        """whether the peer sends heartbeats, so that its silence can be detected"""
        self.in_bits = False
        """whether both ends read stamps of wire version 2"""
        self.payload_limit = 0
        """the longest payload that the peer accepts, as it said last; 0: it did not"""
        self.refusal: str | None = None
        """why the peer is refused, or refuses"""
        self._start()

    def _start(self) -> None:
        self.next = 0
        """number of the next item to hand to the connection"""
        self.spent = self.allowed = 0
        self.heard = self.written = self.granted = 0
        """bytes of items that came over this connection, of those committed, and that the peer may send in all"""

    # -- handshake ---------------------------------------------------------------------------------------------------

    def greet(
        self, me: str, identity: str, roster: list[str], protocol: str, options: str,
        versions: tuple[int, int] = WIRE_VERSIONS,
    ) -> Hello:  # fmt: skip
        """Return the first frame of a new connection."""
        self._start()
        self.granted = self.window
        return Hello(me, identity, roster, protocol, options, self.durable, self.received, self.granted, versions)

    def meet(self, ours: Hello, theirs: Hello, joined: Container[str] = ()) -> None:
        """Take the peer's first frame: open the link or raise `LinkRefused`; `joined`: processes added at run time."""
        self._same_terms(ours, theirs, joined)
        self._same_memory(ours, theirs)
        self.identity = theirs.identity
        self.outbox.acknowledge(theirs.received)
        self.next, self.allowed = theirs.received + 1, theirs.credit
        self.open, self.refusal = True, None
        self.payload_limit = theirs.payload_bytes
        self.beats = theirs.versions[1] >= BEATS_FROM
        self.in_bits = min(ours.versions[1], theirs.versions[1]) >= BITS_FROM

    def _same_terms(self, ours: Hello, theirs: Hello, joined: Container[str]) -> None:
        old, new = ours.versions
        if theirs.versions[0] > new or theirs.versions[1] < old:
            raise LinkRefused(
                f"{theirs.name} speaks versions {theirs.versions[0]} to {theirs.versions[1]} of the wire format, "
                f"{ours.name} speaks {old} to {new}"
            )
        for what in ("protocol", "options", "roster"):
            here, other = getattr(ours, what), getattr(theirs, what)
            if here != other and not (what == "roster" and grown(here, other, joined)):
                raise LinkRefused(f"{what} differs: {ours.name} has {here}, {theirs.name} has {other}")

    def check_identity(self, identity: str) -> None:
        """Refuse a peer that comes with another journal than before."""
        if self.identity is not None and identity != self.identity:
            raise LinkRefused(
                f"{self.name} comes with another journal than before ({printable(identity[:8])}, not "
                f"{self.identity[:8]}): it has lost its memory",
                self.name,
            )

    def check_received(self, received: int, me: str) -> None:
        """Refuse a peer that has received more than this process knows of: then it is this one that has forgotten."""
        if received > self.durable:
            raise LinkRefused(
                f"{self.name} has received {received} items of {me}, which knows of {self.durable}: "
                f"{me} has lost its memory",
                me,
            )

    def _same_memory(self, ours: Hello, theirs: Hello) -> None:
        self.check_identity(theirs.identity)
        if theirs.sent < self.received:
            raise LinkRefused(
                f"{theirs.name} knows of {theirs.sent} items sent to {ours.name}, which has received {self.received}: "
                f"{theirs.name} has lost its memory",
                theirs.name,
            )
        if theirs.received < self.outbox.acked:
            raise LinkRefused(
                f"{theirs.name} knows of {theirs.received} items of {ours.name} and has acknowledged "
                f"{self.outbox.acked}: {theirs.name} has lost its memory",
                theirs.name,
            )
        self.check_received(theirs.received, ours.name)

    def close(self) -> None:
        """Note that the connection is gone."""
        self.open = False

    # -- items -------------------------------------------------------------------------------------------------------

    def accept(self, number: int, size: int) -> bool:
        """Take the number of an item that came; return whether it is new."""
        before, self.heard = self.heard, self.heard + size
        if not within(before, size, self.granted, self.written):
            raise PeerError(f"{self.name} sends more than its credit of {self.granted} bytes")
        if number <= self.arrived:
            self.written += size
            return False
        if number != self.arrived + 1:
            raise PeerError(f"item {number} of {self.name} came after item {self.arrived}")
        self.arrived = number
        return True

    def wrote(self, number: int, size: int) -> None:
        """Note that items up to this number, of this size in all, are committed here."""
        self.received = number
        self.written += size

    def grant(self) -> int:
        """Return how many bytes the peer may send in all over this connection."""
        self.granted = max(self.granted, self.written + self.window)
        return self.granted

    @property
    def owes_credit(self) -> bool:
        """Whether the peer has used up half of what it was granted."""
        return self.written + self.window - self.granted >= self.window // 2

    def acknowledged(self, number: int, credit: int) -> None:
        """Take an acknowledgement of items that the peer has written down."""
        if number > self.left:
            raise PeerError(f"{self.name} acknowledges item {number}; the last one sent to it is {self.left}")
        self.next = max(self.next, number + 1)  # written down since its hello, from an earlier connection
        self.outbox.acknowledge(number)
        self.allowed = max(self.allowed, credit)

    def ready(self) -> Iterator[OutboxItem]:
        """Yield the items that come next and are committed; each must be taken before the one after it."""
        if not self.open:
            return
        for entry in self.outbox.after(self.next - 1):
            if entry.number > self.durable:
                return
            yield entry

    def take(self, entry: OutboxItem, size: int) -> bool:
        """Count an item as gone, if the credit allows."""
        all_written = self.next - 1 <= self.outbox.acked
        if not within(self.spent, size, self.allowed, self.spent if all_written else -1):
            return False
        self.next, self.left = entry.number + 1, max(self.left, entry.number)
        self.spent += size
        return True
