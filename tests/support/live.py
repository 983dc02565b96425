"""A world of processes in memory: real cores, links and journals, a network drawn from a seed, crashes at any boundary.

The application of each process writes what it is handed into a list of its own, the witness. At the end witness,
trace and journal must agree, and the trace must be causal by definition.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from support.recorded import read_events
from thence.core.model.events import Event
from thence.core.model.faults import groups_of
from thence.core.model.order import judge
from thence.core.model.roster import Roster
from thence.errors import ThenceError
from thence.live.core import GIVEN, Core
from thence.live.database import Database, StandardDatabase
from thence.live.inputs import RECEIVE, Receive, Send, Trusted, read_input
from thence.live.journal import Journal, JournalPosition
from thence.live.process import LiveProcess
from thence.live.recovery import recover
from thence.live.session import Session
from thence.live.trace_files import TraceFiles
from thence.protocols import REGISTRY, lookup
from thence.tables.files.source import Quarantined


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
        """Return whether there is a connection between two positions."""
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


MEMORY = "/dev/shm"
SHARED = MEMORY if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 1 << 30 else None
"""in memory where there is such a place, and room in it: kill -9 does not ask for a disk"""


LIVE = sorted(name for name, entry in REGISTRY.items() if set(entry.needs) <= set(GIVEN))
"""every protocol that a live endpoint runs"""


class Expected:
    """Waits for an input to be settled."""

    gone = False

    def __init__(self, promised: list[str]) -> None:
        self.promised = promised

    def settle(self, message: str | None) -> None:
        assert message is not None
        self.promised.append(message)

    def fail(self, error: ThenceError) -> None:
        raise error


@dataclass
class Process:
    """One process: its live process while it runs, and what its application keeps outside."""

    name: str
    live: LiveProcess | None = None
    recorder: TraceFiles | None = None
    witness: list[str] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    promised: list[str] = field(default_factory=list)
    """messages whose send was answered"""


class World:
    """Stations of one protocol."""

    def __init__(
        self,
        folder: Path,
        count: int,
        seed: int,
        *,
        protocol: str = "ks",
        snapshot_every: int = 7,
        process: type[LiveProcess] = LiveProcess,
        options: dict[str, int | str | bool] | None = None,
        window: int = 1 << 20,
        restored: Callable[[Core], None] = lambda core: None,
    ) -> None:
        """`process` and `restored` (called with each core that comes back) are where mutants enter."""
        self.restored = restored
        self.folder, self.protocol, self.snapshot_every = folder, protocol, snapshot_every
        self.process_class, self.options, self.window = process, options or {}, window
        self.roster = Roster.of(count)
        self.chance = Random(seed)
        self.network = MemoryNetwork(self.chance)
        self.now = 0.0
        self.processes = [Process(name) for name in self.roster]
        self.payloads: dict[str, bytes] = {}
        for position in range(count):
            self.start(position)

    def database(self, position: int) -> Database:
        return StandardDatabase(self.folder / f"{self.roster.name(position)}.journal", synchronous="normal")

    def start(self, position: int) -> None:
        process = self.processes[position]
        name = process.name
        process.recorder = TraceFiles(self.folder / f"{name}.jsonl", name)
        journal = Journal(self.database(position), JournalPosition(self.folder / f"{name}.journal.mark"))
        found = recover(
            journal, self.protocol, self.roster.names, name, options=self.options, recorded=process.recorder.last
        )
        process.recorder.write(found.events)
        if found.replayed:
            self.restored(found.core)
        process.live = self.process_class(found.core, journal, snapshot_every=self.snapshot_every, window=self.window)
        process.waiting = []
        if "failure detector" in lookup(self.protocol).needs and found.core.number == 0:
            process.live.ask(Trusted(self.roster.names))
        for delivery in found.core.inbox.values():
            self.hand_over(position, delivery.number, found.core.name(delivery.key), delivery.ref, again=True)

    def hand_over(self, position: int, number: int, message: str, ref: int, *, again: bool = False) -> None:
        process = self.processes[position]
        assert process.live is not None
        body = process.live.journal.payload(ref)
        assert body == self.payloads.setdefault(message, body), f"{message} came with another payload"
        if not again or message not in process.witness:
            process.witness.append(message)
        process.waiting.append(number)

    # -- moves -------------------------------------------------------------------------------------------------------

    def send(self, position: int, destinations: int, payload: bytes, label: str | None = None) -> None:
        process = self.processes[position]
        if process.live is not None:
            process.live.ask(Send(destinations, payload, label), Expected(process.promised))

    def work(self, position: int, stop: str | None = None) -> None:
        """Take one group through; `stop` crashes at a boundary: applied, committed, released."""
        process = self.processes[position]
        live = process.live
        if live is None or (live.idle and stop is None):
            return
        self.now += 1
        live.prepare(self.now)
        if stop == "applied":
            live.journal.rollback()
            return self.crash(position)
        live.commit()
        if stop == "committed":
            return self.crash(position)
        released = live.release()
        assert process.recorder is not None
        process.recorder.write(released.events)
        for delivery in released.delivered:
            self.hand_over(position, delivery.number, live.core.name(delivery.key), delivery.ref)
        if stop == "released":
            self.crash(position)

    def done(self, position: int) -> None:
        process = self.processes[position]
        if process.live is not None and process.waiting:
            process.live.finish(process.waiting.pop(0))

    def crash(self, position: int) -> None:
        process = self.processes[position]
        if process.live is not None:
            self.network.crash(position)
            process.live.journal.rollback()
            process.live.journal.close()
            process.live = None
            assert process.recorder is not None
            process.recorder.close()

    def connect(self, first: int, second: int) -> None:
        one, other = self.processes[first].live, self.processes[second].live
        if first != second and one is not None and other is not None and not self.network.connected(first, second):
            self.network.connect(one, other)

    def move(self, steps: int = 1) -> None:
        for _ in range(steps):
            self.network.step()

    # -- the end -----------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Start whoever is down, connect everybody, and let everything happen that can."""
        for position, process in enumerate(self.processes):
            if process.live is None:
                self.start(position)
        for wire in self.network.wires:
            wire.still.clear()
        self.rest()

    def rest(self) -> None:
        """Connect everybody, and let everything happen that can where bytes move."""
        for _ in range(10_000):
            for first in range(len(self.processes)):
                for second in range(first):
                    self.connect(first, second)
            moved = self.network.step()
            for position, process in enumerate(self.processes):
                assert process.live is not None
                while process.waiting:
                    self.done(position)
                if not process.live.idle:
                    moved = True
                    self.work(position)
            if not moved:
                return
        raise AssertionError("the world does not come to rest")

    def expect_everything(self, sent: list[str]) -> None:
        """Whatever was answered with a name must be in the trace."""
        names = {event.message for event in self.events() if event.kind == "send"}
        assert set(sent) <= names, f"{sorted(set(sent) - names)} were promised and are not in the trace"

    def items_once(self) -> None:
        """Every item of a link is in the journal once, in order."""
        for process in self.processes:
            assert process.live is not None
            last: dict[int, int] = {}
            for kind, data in process.live.journal.database.execute(
                "SELECT kind, data FROM thence_inputs ORDER BY number"
            ):
                if kind == RECEIVE:
                    given = read_input(RECEIVE, data)  # type: ignore[arg-type]
                    assert isinstance(given, Receive)
                    assert given.number > last.get(given.peer, 0), f"item {given.number} came to {process.name} twice"
                    last[given.peer] = given.number

    def events(self, kind: str = "") -> list[Event]:
        """Return the rows of the run, or, with the kind `.hops`, of its protocol messages."""
        found: list[Event] = []
        quarantine: list[Quarantined] = []
        for process in self.processes:
            path = self.folder / f"{process.name}{kind}.jsonl"
            if path.exists() or not kind:
                found += read_events(path, quarantine)
        assert not quarantine
        return sorted(found, key=lambda event: event.order or 0)

    def hops_once(self) -> None:
        """Every protocol message is sent once and received once, later, where it was sent to."""
        hops = self.events(".hops")
        sent: dict[str | None, tuple[str, ...] | None] = {}
        received: set[str | None] = set()
        index: dict[str, int] = {}
        for event in hops:
            assert event.run == "run/hops"
            assert event.index == index.get(event.process, 0) + 1
            index[event.process] = event.index
            if event.kind == "internal":  # whom the process trusts
                continue
            if event.kind == "send":
                assert event.message not in sent
                sent[event.message] = event.destinations
            else:
                assert sent[event.message] == (event.process,)
                assert event.message not in received
                received.add(event.message)
        assert received == sent.keys()

    def check(self) -> list[Event]:
        """Judge the trace, and compare it with the witnesses."""
        events = self.events()
        for process in self.processes:
            assert process.live is not None
            refusals = [link.refusal for link in process.live.links if link.refusal]
            assert not refusals, refusals
            assert not process.live.core.member.pending()
        judged = judge(events, lookup(self.protocol).guarantee)
        assert judged.verdict == "causal", judged
        bad = [*judged.quarantine, *judged.undelivered, *judged.duplicates, *judged.misdelivered]
        assert not bad, judged
        self.items_once()
        self.hops_once()
        self.expect_everything([name for process in self.processes for name in process.promised])
        assert len({event.order for event in events}) == len(events)
        assert causes_first(events)
        for process in self.processes:
            delivered = [e.message for e in events if e.process == process.name and e.kind == "deliver"]
            assert process.witness == delivered, f"{process.name} was handed {process.witness}, not {delivered}"
        return events

    def close(self) -> None:
        for position in range(len(self.processes)):
            self.crash(position)


def needed(core: Core) -> set[int]:
    """Return the inputs whose payloads are needed by what a core has in memory, counted anew."""
    found = {entry.ref for outbox in core.outboxes for entry in outbox.front}
    found |= {ref.number for ref in core.payloads.values()} | {delivery.ref for delivery in core.inbox.values()}
    return found | set(core.deferred.values())


def causes_first(events: list[Event]) -> bool:
    """Return whether, as ordered, every send comes before its deliveries and every process's rows ascend."""
    sent: set[str | None] = set()
    index: dict[str, int] = {}
    for event in events:
        if event.kind == "send":
            sent.add(event.message)
        if event.kind == "deliver" and event.message not in sent:
            return False
        if event.index != index.get(event.process, 0) + 1:
            return False
        index[event.process] = event.index
    return True


def wander(
    world: World, steps: int, *, sends: int = 30, stills: bool = True, labels: Sequence[str | None] = (None,)
) -> None:
    """Take random steps: sends, groups, crashes at every boundary, cuts, restarts, moves."""
    chance, size = world.chance, len(world.processes)
    sent = 0
    for _ in range(steps):
        position = chance.randrange(size)
        what = chance.random()
        if what < 0.15 and sent < sends:
            mask = chance.randrange(1, 1 << size)
            for group in groups_of(str(world.options.get("groups", "")), world.roster):
                mask |= group if mask & group else 0
            label = chance.choice(labels) if len(labels) > 1 else labels[0]
            world.send(position, mask, b"%d" % sent * chance.choice((1, 1, 1100)), label)
            sent += 1
        elif what < 0.45:
            world.work(position)
        elif what < 0.50:
            world.work(position, chance.choice(("applied", "committed", "released")))
        elif what < 0.55 and world.processes[position].live is None:
            world.start(position)
        elif what < 0.60:
            world.done(position)
        elif what < 0.62 and world.network.wires:
            wire = chance.choice(world.network.wires)
            world.network.cut(lambda each: each is wire)  # noqa: B023
        elif what < 0.63 and stills and world.network.wires:
            chance.choice(world.network.wires).still ^= {chance.randrange(2)}
        elif what < 0.75:
            world.connect(position, chance.randrange(size))
        else:
            world.move(chance.randrange(1, 6))
