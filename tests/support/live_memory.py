"""A network in memory: deterministic, seeded, adversarial. It carries processes of one process to and fro.

Law. What happens next is drawn from the seed: which direction of which connection moves, and how many bytes. A
connection keeps its bytes in order and loses all that are on their way when it is cut; one direction can stand still
while the other moves. Nothing is altered, doubled or reordered within a connection, as with TCP.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from thence.live.process import LiveProcess
from thence.live.session import Session


class MemoryChannel:
    """One end of a connection in memory."""

    def __init__(self, wire: Wire) -> None:
        """Belong to a wire."""
        self.wire = wire
        self.buffer = bytearray()
        self.ended = False

    def write(self, data: bytes) -> None:
        """Put bytes on their way."""
        if not self.ended:
            self.buffer += data

    def close(self) -> None:
        """End the connection after what is on its way."""
        self.ended = True


class Wire:
    """A connection between two processes."""

    def __init__(self, first: int, second: int) -> None:
        """Take the positions of the one that dials and the one that is dialled."""
        self.ends = (first, second)
        self.channels = (MemoryChannel(self), MemoryChannel(self))
        self.sessions: list[Session] = []
        self.still: set[int] = set()
        """ends whose bytes do not move"""
        self.gone = False


class MemoryNetwork:
    """Connections between processes, moved one step at a time."""

    def __init__(self, seed: int | Random) -> None:
        """Take the seed, or a source of chance."""
        self.chance = seed if isinstance(seed, Random) else Random(seed)
        self.wires: list[Wire] = []

    def connect(self, first: LiveProcess, second: LiveProcess) -> None:
        """Let the process with the lower position dial the other."""
        dials, waits = sorted((first, second), key=lambda process: process.core.me)
        wire = Wire(dials.core.me, waits.core.me)
        self.wires.append(wire)
        wire.sessions.append(dials.connect(wire.channels[0], waits.core.me))
        wire.sessions.append(waits.connect(wire.channels[1], None))

    def connected(self, first: int, second: int) -> bool:
        """Tell whether there is a connection between two positions."""
        return any(sorted((first, second)) == sorted(wire.ends) for wire in self.wires)

    def cut(self, wanted: Callable[[Wire], bool]) -> None:
        """Cut connections; what is on its way is lost."""
        for wire in [wire for wire in self.wires if wanted(wire)]:
            self._end(wire)

    def crash(self, position: int) -> None:
        """Cut all connections of a process, and let only the other ends hear of it."""
        for wire in [wire for wire in self.wires if position in wire.ends]:
            self.wires.remove(wire)
            wire.gone = True
            wire.sessions[1 - wire.ends.index(position)].lost("the peer is gone")

    def step(self) -> bool:
        """Move some bytes of one connection; return whether there were any to move."""
        moving = [
            (wire, end)
            for wire in self.wires
            for end in (0, 1)
            if (wire.channels[end].buffer or wire.channels[end].ended) and end not in wire.still
        ]
        if not moving:
            return False
        wire, end = self.chance.choice(moving)
        channel = wire.channels[end]
        if channel.buffer:
            count = self.chance.choice((len(channel.buffer), self.chance.randint(1, len(channel.buffer))))
            data = bytes(channel.buffer[:count])
            del channel.buffer[:count]
            wire.sessions[1 - end].feed(data)
        else:
            self._end(wire)
        return True

    def _end(self, wire: Wire) -> None:
        if not wire.gone:
            wire.gone = True
            self.wires.remove(wire)
            for session in wire.sessions:
                session.lost("the connection was cut")
