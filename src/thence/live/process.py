"""Core, links and journal of one process, without tasks, clocks or sockets: an endpoint without its driver.

Invariant: inputs wait in a queue; `prepare` applies a group of them and writes their rows, `commit` puts them on disk,
and `release` lets out what they set free: frames, acknowledgements, deliveries, rows of the trace, answers to the
application. Nothing leaves before its row is committed. Whatever goes wrong while writing ends the process: memory may
then be ahead of the disk, and only a restart from the journal is safe.

Time comes in as an argument, connections as channels, so that a test can drive this very code through every crash.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from thence.core.model.events import Event
from thence.errors import MisuseError, PeerError
from thence.live.core import HELD_LIMIT, Core
from thence.live.database import JournalError
from thence.live.frames import WIRE_VERSIONS, Hello
from thence.live.group import InputGroup, InputResult, QueuedInput, Released, Waiter
from thence.live.inputs import Abandon, Agreed, Done, Input, Receive, size_of
from thence.live.journal import Journal
from thence.live.link import Link, LinkRefused, terms
from thence.live.logs import printable
from thence.live.outbox import LIMIT_ITEMS, OutboxItem
from thence.live.payloads import Payloads
from thence.live.session import Carrier, Channel, Session
from thence.live.snapshots import Snapshots

SNAPSHOT_EVERY = 2000
GROUP_INPUTS = 512
GROUP_BYTES = 1 << 22
INBOX_LIMIT = 100_000
SMALLEST_ITEM = 20  # bytes of the shortest copy: a window of them may come after the last credit was granted


class LiveProcess:
    """One process: the protocol's core, its links to peers, and its journal."""

    def __init__(
        self,
        core: Core,
        journal: Journal,
        *,
        frame_limit: int = 1 << 21,
        payload_limit: int = 0,
        window: int = 1 << 20,
        snapshot_every: int = SNAPSHOT_EVERY,
        journal_limit: int = 1 << 34,
    ) -> None:
        """Take the core and the journal that `recover` returned, and the limits."""
        self.core, self.journal = core, journal
        self.frame_limit, self.snapshot_every, self.journal_limit = frame_limit, snapshot_every, journal_limit
        self.payload_limit = payload_limit
        """the longest payload that is accepted here, as peers hear it; 0 says nothing"""
        self.queue: deque[QueuedInput] = deque()
        self.done: list[tuple[int, Waiter | None]] = []
        self.versions = WIRE_VERSIONS
        """of the format of connections, the oldest and the newest that are spoken here"""
        self.forgetful: str | None = None
        """why this process must stop: a peer has more of its items than its own journal"""
        self.wake: Callable[[], None] = lambda: None
        """called when there is something to prepare"""
        self.broken: Callable[[BaseException], object] = lambda error: None
        """called with an exception that nothing expected, in whatever task of the endpoint"""
        self.notice: Callable[[str, str, str | None], None] = lambda event, peer, reason: None
        """called with what became of a connection (connected, lost, refused, refuses), the peer's name, and why"""
        self.record: Callable[[list[Event]], None] = lambda events: None
        """called with the rows of the trace of a committed group, before anything else of it leaves"""
        self.sync: Callable[[], None] = lambda: None
        """called before inputs are pruned: what was recorded of them must be on disk"""
        self.attempts = journal.attempts()
        """how often deliveries were tried that are not done, as far as the journal knows"""
        self._tried: list[tuple[int, int, Waiter]] = []
        self._met: list[tuple[str, str]] = []
        self._acked: set[int] = set()
        self.group: InputGroup | None = None
        self._tickets: dict[tuple[str | None, int], Waiter] = {}
        self._snapshots, self._payloads = Snapshots(core, journal), Payloads()
        self._snapshot_at, self._window = core.number, window
        self.full = False
        """whether the journal is larger than it may be"""
        self.intake = True
        """whether items are taken; what is not taken will come again"""
        self._checkpoint = False
        self.sessions: dict[int, Carrier] = {}
        core.held_most = 2 * HELD_LIMIT + len(core.roster) * window // SMALLEST_ITEM
        self.grew: Callable[[int], None] = lambda position: None
        """called with the position of a process that has joined"""
        self.links: list[Link] = []
        while len(self.links) < len(core.roster):
            self._grow()
        self._to_self()

    def _grow(self) -> None:
        """Make the link to the next process of the roster."""
        core, position = self.core, len(self.links)
        name = core.roster.name(position)
        identity = self.journal.peers().get(name, (None, 0))[0]
        link = Link(name, core.outboxes[position], core.received[position], identity, window=self._window)
        if self.group is not None:
            link.durable = link.left = 0  # what this group has made for it is not committed yet
        self.links.append(link)
        self.grew(position)

    # -- connections -------------------------------------------------------------------------------------------------

    def connect(self, channel: Channel, peer: int | None, proven: str | None = None) -> Session:
        """Begin with a connection: one that was dialled to `peer`, or one that came (None)."""
        session = Session(self, channel, peer, proven)
        if peer is not None:
            self.replace(session)
        return session

    def replace(self, session: Session) -> None:
        """Let a new connection to a peer take the place of an earlier one."""
        assert session.peer is not None
        earlier = self.sessions.get(session.peer)
        if earlier is not None and earlier is not session:
            earlier.lost("another connection took its place")
            earlier.close()
        self.sessions[session.peer] = session

    def expect_dialler(self, session: Session) -> None:
        """Reject a connection from a peer that this process dials, or from itself."""
        assert session.peer is not None
        if session.peer >= self.core.me:
            names = self.core.roster.names
            raise LinkRefused(f"{names[session.peer]} waits to be dialled by {names[self.core.me]}, and does not dial")

    def hello(self, peer: int) -> Hello:
        """Return the first words to a peer."""
        me = self.core.roster.name(self.core.me)
        greeting = self.links[peer].greet(me, self.journal.identity, *terms(self.core), self.versions)
        return replace(greeting, payload_bytes=self.payload_limit)

    def meet(self, session: Session, ours: Hello, theirs: Hello) -> None:
        """Open the link, or refuse it."""
        assert session.peer is not None
        link = self.links[session.peer]
        new = link.identity is None
        if link.outbox.closed:
            raise LinkRefused(f"{link.name} was given up by {ours.name}")
        link.meet(ours, theirs, self.core.membership.joined())
        self.notice("connected", link.name, None)
        if 0 < theirs.payload_bytes < ours.payload_bytes:
            here = f"limits.payload_bytes is {theirs.payload_bytes} there and {ours.payload_bytes} at {ours.name}"
            self.notice("refuses", link.name, f"larger payloads: {here}; set the same in all processes")
        self.agree(session.peer)
        if new:
            self.acquaint(link.name, theirs.identity)

    def agree(self, peer: int) -> None:
        """Record the wire version of stamps for a peer from now on."""
        in_bits = self.links[peer].in_bits
        if self.core.stamps.differs(peer, in_bits):
            self.ask(Agreed(peer, in_bits))

    def acquaint(self, name: str, identity: str) -> None:
        """Record the identity of a peer's journal."""
        self._met.append((name, identity))
        self.wake()

    def refuse(self, session: Carrier, error: PeerError) -> None:
        """Remember why a peer is refused; stop if it is this process that has lost its memory."""
        if session.peer is not None:
            self.links[session.peer].refusal = printable(str(error))
        self.notice("refused", self._name(session), str(error))
        if isinstance(error, LinkRefused) and error.forgetful == self.core.roster.name(self.core.me):
            self.forgetful = str(error)
            self.wake()

    def refused_by(self, session: Session, reason: str) -> None:
        """Remember why a peer refuses."""
        reason = printable(reason)
        if session.peer is not None:
            self.links[session.peer].refusal = f"{self.links[session.peer].name} refuses: {reason}"
        self.notice("refuses", self._name(session), reason)
        session.lost(reason)
        session.close()

    def lost(self, session: Session, reason: str) -> None:
        """Close the link of a connection that has ended."""
        if session.peer is not None and self.sessions.get(session.peer) is session:
            del self.sessions[session.peer]
            if self.links[session.peer].open:
                self.notice("lost", self._name(session), reason)
            self.links[session.peer].close()

    def _name(self, session: Carrier) -> str:
        return "an unknown peer" if session.peer is None else self.links[session.peer].name

    def item(self, session: Carrier, number: int, item: bytes) -> None:
        """Take an item from a peer into the queue, if it is new."""
        assert session.peer is not None
        if not self.intake:
            return
        link = self.links[session.peer]
        if link.accept(number, len(item)):
            self.queue.append(QueuedInput(Receive(session.peer, number, item)))
            self.wake()
        elif number <= link.received:
            self._acknowledge(session.peer)  # the peer may not know this yet, and may wait for the credit
            session.flush()

    def acknowledged(self, session: Carrier, number: int, credit: int) -> None:
        """Take an acknowledgement, and send what the credit allows."""
        assert session.peer is not None
        self.links[session.peer].acknowledged(number, credit)
        self._acked.add(session.peer)
        self.pump(session.peer)

    def pump(self, peer: int) -> None:
        """Pass the items that may leave to the connection."""
        session, link = self.sessions.get(peer), self.links[peer]
        if session is not None and session.open:
            self._fill(session, link, peer)
            session.flush()

    def _fill(self, session: Carrier, link: Link, peer: int) -> None:
        if link.outbox.wants_refill:
            first = link.outbox.spilled_from
            link.outbox.refill(self.journal.spilled(peer, first, LIMIT_ITEMS // 2))
        for entry in link.ready():
            head, body = self.core.stamps.readable(entry.head, link.in_bits), self._body(entry)
            if not link.take(entry, len(head) + len(body)):
                link.outbox.remember(entry, body)
                break
            session.send(entry.number, head, body)

    def _body(self, entry: OutboxItem) -> bytes:
        """Return the payload of an item that leaves, from memory if it is there."""
        body = self._payloads.get(entry.ref) if entry.body is None else entry.body
        return self.journal.payload(entry.ref) if body is None else body

    # -- groups of inputs --------------------------------------------------------------------------------------------

    def ask(self, given: Input, waiter: Waiter | None = None) -> None:
        """Put an input of this process into the queue."""
        self.queue.append(QueuedInput(given, waiter))
        self.wake()

    def finish(self, delivery: int, waiter: Waiter | None = None) -> None:
        """Note that the application is done with a delivery; all of a group share one row."""
        self.done.append((delivery, waiter))
        self.wake()

    def tried(self, delivery: int, attempts: int, waiter: Waiter) -> None:
        """Note how often the application has tried a delivery."""
        self._tried.append((delivery, attempts, waiter))
        self.wake()

    @property
    def idle(self) -> bool:
        """Whether there is nothing to prepare."""
        return not (self.queue or self.done or self._met or self._tried)

    def prepare(self, now: float) -> None:
        """Apply the next group of inputs and write their rows; `commit` must follow."""
        self.journal.begin()
        self.open_group()
        with self._ends_on_failure():
            self._apply_group(now)
        self.close_group()

    def open_group(self) -> None:
        """Begin a group of inputs; the journal has begun to write."""
        self.group = InputGroup()

    def apply_own(self, given: Input, now: float) -> None:
        """Add a checked input of this process to the open group; if it fails now, the process ends."""
        with self._ends_on_failure():
            self._take(QueuedInput(given), self.core.apply(given, now))

    def close_group(self) -> None:
        """Write the remaining rows of the group; `commit` must follow."""
        with self._ends_on_failure():
            self._note_peers()
            if self.core.number - self._snapshot_at >= self.snapshot_every:
                self.snapshot()

    def _seal(self) -> None:
        """Write the rows of the applied inputs to SQLite."""
        assert self.group is not None
        for step in self.group.unsealed:
            self.journal.append(self.core.seal(step))
        self.group.unsealed.clear()
        self.journal.flush()

    @contextmanager
    def _ends_on_failure(self) -> Iterator[None]:
        try:
            yield
        except JournalError as error:
            self.journal.failed = self.journal.failed or str(error)
            raise

    def _apply_group(self, now: float) -> None:
        size = 0
        for _ in range(GROUP_INPUTS):
            if not self.queue or size > GROUP_BYTES:
                break
            size += self._apply(self.queue.popleft(), now)
        done = [(number, waiter) for number, waiter in self.done if waiter is None or not waiter.gone]
        self.done = []
        if done:
            self._apply(QueuedInput(Done(tuple(number for number, _ in done))), now)
            assert self.group is not None
            self.group.settled += [(waiter, None) for _, waiter in done if waiter is not None]

    def _apply(self, asked: QueuedInput, now: float) -> int:
        """Apply one input and write its row; return the bytes it takes."""
        if asked.waiter is not None and asked.waiter.gone:
            return 0
        try:
            step = self.core.apply(asked.given, now)
        except (MisuseError, PeerError) as error:
            self._refuse_input(asked, error)
            return 0
        return self._take(asked, step)

    def _take(self, asked: QueuedInput, step: InputResult) -> int:
        """Write the row of an input that was applied; return the bytes it takes."""
        core, given, group = self.core, asked.given, self.group
        assert group is not None
        group.unsealed.append(step)
        size = size_of(given)
        group.bytes += size
        for peer, entry, spill in step.sent:
            if spill:
                self.journal.spill(peer, entry)
        if type(given) is Receive:
            group.wrote[given.peer] = group.wrote.get(given.peer, 0) + len(given.item)
        elif type(given) is Abandon:
            group.abandoned.append(core.roster.position(given.process))
        elif step.done:
            self._snapshots.done(step.done)
            for delivery in step.done:
                if self.attempts.pop(delivery.number, None):
                    self.journal.tried(delivery.number, 0)
        bodies, left = self._payloads.of(step, keep=core.relays)
        group.released.bodies.update(bodies)
        if left is not None and step.number in core.kept:
            self._payloads.put(step.number, left)
        while len(self.links) < len(core.roster):
            self._grow()
        released = group.released
        released.delivered += step.delivered
        released.events += step.events
        released.without += step.without
        for ticket, message in step.released:
            waiter = self._tickets.pop(ticket, None)
            if waiter is not None:
                group.settled.append((waiter, message))
        if asked.waiter is not None:
            if step.ticket is not None:
                self._tickets[step.ticket] = asked.waiter
            else:
                group.settled.append((asked.waiter, step.message))
        return size

    def _refuse_input(self, asked: QueuedInput, error: MisuseError | PeerError) -> None:
        given = asked.given
        if type(given) is not Receive:
            if asked.waiter is not None:
                asked.waiter.fail(error)
            return
        peer = given.peer
        self.queue = deque(a for a in self.queue if not (type(a.given) is Receive and a.given.peer == peer))
        self.links[peer].arrived = self.core.received[peer]
        session = self.sessions.get(peer)
        if session is not None and isinstance(error, PeerError):
            session.refuse(error)

    def _note_peers(self) -> None:
        assert self.group is not None
        for peer in sorted(self._acked):
            self.journal.acknowledged(peer, self.links[peer].name, self.links[peer].outbox.acked)
        self._acked.clear()
        for name, identity in self._met:
            self.journal.acquainted(name, identity)
        self._met.clear()
        for delivery, attempts, waiter in self._tried:
            if delivery in self.core.inbox:
                self.attempts[delivery] = attempts
                self.journal.tried(delivery, attempts)
            self.group.settled.append((waiter, None))
        self._tried.clear()

    def snapshot(self) -> None:
        """Write a snapshot into the open group, and prune."""
        self._seal()  # a snapshot says what the last input of its rows has set free
        self.sync()
        self._snapshots.take()
        self._snapshot_at = self.core.number
        self._checkpoint = True
        self.full = self.journal.bytes() > self.journal_limit

    def commit(self) -> None:
        """Put the group on disk. May run in another thread, as long as nothing else of the journal does meanwhile."""
        with self._ends_on_failure():
            self._seal()
        self.journal.commit(self.core.number)
        if self._checkpoint:
            self._checkpoint = False
            self.journal.checkpoint()

    def release(self) -> Released:
        """Release the effects of the committed group."""
        group, self.group = self.group, None
        assert group is not None
        self.record(group.released.events)
        for position, link in enumerate(self.links):
            link.durable = link.outbox.sent
            if position in group.wrote:
                link.wrote(self.core.received[position], group.wrote[position])
                self._acknowledge(position)
            elif link.open and link.owes_credit:
                self._acknowledge(position)
            session = self.sessions.get(position)
            if session is not None and session.open:
                if link.next <= link.durable:
                    self._fill(session, link, position)
                session.flush()
        for peer in group.abandoned:
            if peer in self.sessions:
                self.sessions[peer].close()
        self._to_self()
        for waiter, message in group.settled:
            waiter.settle(message)
        return group.released

    def _acknowledge(self, peer: int) -> None:
        session, link = self.sessions.get(peer), self.links[peer]
        if session is not None and session.open:
            credit = link.grant() if self.may_take(peer) else link.granted
            session.acknowledge(link.received, credit)

    def may_take(self, peer: int) -> bool:
        """Return whether a peer may send more: inbox and journal have room, or a message held here waits for it."""
        if self.core.held >= HELD_LIMIT and not self.core.awaited() >> peer & 1:
            return False
        return len(self.core.inbox) < INBOX_LIMIT and not self.full

    def _to_self(self) -> None:
        """Let copies for this process itself travel like any other: out of the outbox, through the journal, in."""
        me = self.core.me
        link = self.links[me]
        if link.outbox.acked < link.received:
            link.outbox.acknowledge(link.received)
            self._acked.add(me)
        if link.outbox.wants_refill:
            link.outbox.refill(self.journal.spilled(me, link.outbox.spilled_from, LIMIT_ITEMS // 2))
        for entry in list(link.outbox.after(link.arrived)):
            if entry.number <= link.durable:
                link.arrived = entry.number
                self.queue.append(QueuedInput(Receive(me, entry.number, entry.head + self._body(entry))))
        if self.queue:
            self.wake()
