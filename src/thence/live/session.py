"""One connection: reads and writes frames, and checks their order.

Invariant: no item is accepted before both ends have said hello and agree; an unusable frame ends the connection with
a sentence that the peer receives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from thence.errors import PeerError
from thence.live.changes import Asker, read_question
from thence.live.frames import (
    ACK,
    ANSWER,
    ASK,
    BEAT,
    BYE,
    DATA,
    HELLO,
    HELLO_LIMIT,
    REFUSED,
    Framer,
    Hello,
    ack_frame,
    data_frame,
    data_head,
    frame,
    hello_frame,
    read_ack,
    read_data,
    read_hello,
)
from thence.live.link import LinkRefused

if TYPE_CHECKING:
    from thence.live.process import LiveProcess

LONG_BYTES = 1 << 18
"""payloads above this are not copied into one block with other frames: that takes 3 us here and 85 us for 4 MB"""
TAKEN = f"{DATA} (item), {ACK} (acknowledgement), {REFUSED} (refusal), {BEAT} (heartbeat) and {BYE} (goodbye)"


class Channel(Protocol):
    """One connection, as a transport gives it."""

    def write(self, data: bytes) -> None:
        """Write bytes to the network."""

    def close(self) -> None:
        """End the connection, after what was written."""


class Carrier(Protocol):
    """The carrier of one link's items, as a process uses it: a connection or a broker."""

    peer: int | None
    open: bool

    def send(self, number: int, head: bytes, body: bytes) -> None:
        """Add an item to what leaves with the next `flush`."""

    def acknowledge(self, received: int, credit: int) -> None:
        """Announce that items up to this number are committed, and how many bytes may come in all."""

    def flush(self) -> None:
        """Write the added frames to the network."""

    def refuse(self, error: PeerError) -> None:
        """Reject an unusable item, and accept no more."""

    def lost(self, reason: str) -> None:
        """Note that it has ended."""

    def goodbye(self) -> None:
        """Announce that this process stops."""

    def close(self) -> None:
        """End, after what was written."""


class Session:
    """One connection between two processes, from handshake to end."""

    def __init__(self, process: LiveProcess, channel: Channel, peer: int | None, proven: str | None) -> None:
        """Take the peer that was dialled (None: it dialled), and the name its certificate proves (None: no TLS)."""
        self.process, self.channel, self.peer, self.proven = process, channel, peer, proven
        self.framer = Framer(HELLO_LIMIT)
        self.ours: Hello | None = None
        self.open = False
        self.closed = False
        self._out: list[bytes] = []
        """frames that leave together: one call of the system, and with TLS one record, for all of a group"""
        self._long = False
        """whether one of them is too long to be copied into one block with the others"""
        if peer is not None:
            self._greet(peer)

    def _greet(self, peer: int) -> None:
        self.ours = self.process.hello(peer)
        self.channel.write(hello_frame(self.ours))

    def feed(self, data: bytes) -> None:
        """Take bytes from the network; an unusable frame ends the connection with a sentence."""
        try:
            for kind, body in self.framer.feed(data):
                if self.closed:
                    return
                self._frame(kind, body)
        except PeerError as error:
            self.refuse(error)

    def _frame(self, kind: int, found: bytes | memoryview) -> None:
        if kind == DATA and self.open:
            self.process.item(self, *read_data(found))
            return
        body = bytes(found)
        if kind == REFUSED:
            self.process.refused_by(self, body.decode("utf-8", "replace")[:500])
        elif kind == ASK and not self.open and self.peer is None:
            Asker(self.process, self._answer).ask(read_question(self.proven, body, self.process))
        elif not self.open:
            if kind != HELLO:
                raise PeerError(f"a frame of kind {kind} came first; a hello (1) is expected")
            self._met(read_hello(body))
        elif kind == ACK:
            self.process.acknowledged(self, *read_ack(body))
        elif kind == BYE:
            self.lost("the peer has stopped")
            self.channel.close()
        elif kind != BEAT:
            raise PeerError(f"a frame of kind {kind}; an open link takes {TAKEN}")

    def _answer(self, answer: bytes) -> None:
        self.channel.write(frame(ANSWER, answer))
        self.channel.close()

    def _met(self, theirs: Hello) -> None:
        if self.proven is not None and theirs.name != self.proven:
            raise LinkRefused(f"the certificate is of {self.proven}, but the connection says it is {theirs.name}")
        roster = self.process.core.roster
        if theirs.name not in roster:
            raise LinkRefused(f"{theirs.name} is not among the processes here: {', '.join(roster.names)}")
        peer = roster.position(theirs.name)
        if self.peer is not None and peer != self.peer:
            raise LinkRefused(f"{roster.name(self.peer)} was dialled, but {theirs.name} answered")
        dialled = self.peer is not None
        self.peer = peer
        if not dialled:
            self.process.expect_dialler(self)
            self.process.replace(self)
            self._greet(peer)
        assert self.ours is not None
        self.process.meet(self, self.ours, theirs)
        self.framer.limit = self.process.frame_limit
        limits = (
            f"{self.ours.payload_bytes} at {self.ours.name} and {theirs.payload_bytes or 'unknown'} at {theirs.name}"
        )
        self.framer.advice = f": limits.payload_bytes is {limits}; set the same in all processes"
        self.open = True
        self.process.pump(peer)

    def send(self, number: int, head: bytes, body: bytes) -> None:
        """Add an item to what leaves with the next `flush`."""
        if len(body) > LONG_BYTES:
            self._out += (data_head(number, head, len(body)), body)
            self._long = True
        else:
            self._out.append(data_frame(number, head, body))

    def acknowledge(self, received: int, credit: int) -> None:
        """Add an acknowledgement: the last item written down, and the bytes that may be sent in all."""
        self._out.append(ack_frame(received, credit))

    def flush(self) -> None:
        """Write the added frames to the network."""
        if self._out:
            out, self._out = self._out, []
            if self._long:
                self._long = False
                for part in out:
                    self.channel.write(part)
            else:
                self.channel.write(b"".join(out))

    def goodbye(self) -> None:
        """Announce that this process stops."""
        self.channel.write(frame(BYE))

    def close(self) -> None:
        """End the connection, after what was written."""
        self.channel.close()

    def refuse(self, error: PeerError) -> None:
        """End the connection and tell the peer why."""
        self.flush()
        self.process.refuse(self, error)
        self.channel.write(frame(REFUSED, str(error).encode()[:1000]))
        self.lost(str(error))
        self.channel.close()

    def lost(self, reason: str) -> None:
        """Note that the connection has ended."""
        if not self.closed:
            self.closed, self.open = True, False
            self.process.lost(self, reason)
