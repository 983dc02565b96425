"""State of a JetStream transport for one peer: items being published, and items received from it.

Invariant: at most `WINDOW_MESSAGES` items of a link are published and not acknowledged, all others before them are
stored. So no more items can come before one that is missing, and those wait here, unacknowledged.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import TYPE_CHECKING

from thence.errors import PeerError
from thence.live.link import LinkRefused, grown, terms
from thence.live.logs import printable

if TYPE_CHECKING:
    from nats.aio.msg import Msg

    from thence.live.jetstream import JetStreamTransport

WINDOW_MESSAGES = 256
RESEND = 2.0
"""seconds without any acknowledgement after which items are published again"""
GAP = 30.0
"""seconds after which a missing item, with later ones here, is reported"""
UNLIMITED = 1 << 62


class EndedError(OSError):
    """The client was closed meanwhile."""


class JetStreamSession:
    """One peer. The process uses it like a connection."""

    def __init__(self, transport: JetStreamTransport, peer: int) -> None:
        self._transport = transport
        self.peer: int | None = peer
        self._peer = peer
        self._link = transport.process.links[peer]
        self.open = self.closed = False
        self.task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._waiting: deque[tuple[int, bytes]] = deque()
        """items that were accepted and not published"""
        self._published: deque[tuple[int, int]] = deque()
        """numbers and sizes of items that were published and not acknowledged, in order"""
        self._confirmed: set[int] = set()
        self._stored_bytes = 0
        self._acks: deque[Msg] = deque()
        self._taken: dict[int, list[Msg]] = {}
        """messages of items that the process has and has not committed"""
        self._early: dict[int, Msg] = {}
        """items that came before one that is missing"""
        self._progress = self._gap_since = 0.0
        self._differs = False
        """whether what the peer said of itself last was refused"""

    # -- the connection ----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Open the link: everything that no server has acknowledged is published, again if necessary."""
        loop = asyncio.get_running_loop()
        if self.task is None:
            self.task = loop.create_task(self._run(), name=f"thence-publish-{self._link.name}")
        link, process = self._link, self._transport.process
        if link.outbox.closed:
            return
        self._restart()
        link.open, link.refusal, link.in_bits = True, None, True  # every release with this transport reads version 2
        process.agree(self._peer)
        process.sessions[self._peer] = self
        self.open, self.closed = True, False
        process.pump(self._peer)

    def _restart(self) -> None:
        link = self._link
        self._waiting.clear()
        self._published.clear()
        self._confirmed.clear()
        self._stored_bytes = 0
        self._progress = asyncio.get_running_loop().time()
        link.next, link.spent = link.outbox.acked + 1, 0
        link.allowed, link.granted = link.window, UNLIMITED

    def lost(self, reason: str) -> None:
        """Close the link until the server is there again."""
        if self.open:
            self.open, self.closed = False, True
            self._link.open = False
            self._transport.process.sessions.pop(self._peer, None)
            self._transport.process.notice("lost", self._link.name, reason)

    def close(self) -> None:
        """Stop: the peer was given up."""
        self.lost("it was given up")

    def goodbye(self) -> None:
        """Send nothing: the heartbeats stop."""

    def refuse(self, error: PeerError) -> None:
        """Reject the waiting items; the server delivers them again."""
        self._transport.process.refuse(self, error)
        self._taken.clear()
        self._early.clear()

    # -- items to the server -----------------------------------------------------------------------------------------

    def send(self, number: int, head: bytes, body: bytes) -> None:
        """Add an item to what is published."""
        self._waiting.append((number, head + body))

    def acknowledge(self, received: int, credit: int) -> None:
        """Acknowledge to the server the items that are committed."""
        for number in [each for each in self._taken if each <= received]:
            self._acks.extend(self._taken.pop(number))

    def flush(self) -> None:
        """Wake the task that sends."""
        if self._waiting or self._acks:
            self._news.set()

    async def _run(self) -> None:
        from nats.errors import Error

        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._publish_all()
            except (Error, OSError):
                await asyncio.sleep(0.1)  # `retry` and `begin` publish again; acknowledgements that were not sent wait
            except Exception as error:
                self._transport.process.broken(error)
                return

    async def _publish_all(self) -> None:
        transport = self._transport
        while self._acks and (client := transport.client) is not None:
            await client.publish(self._acks[0].reply, b"+ACK")
            self._acks.popleft()
        names, me = transport.names, transport.config.name
        subject = names.item(me, self._link.name)
        inbox, identity = f"{names.inbox(me)}.ack.{self.peer}", transport.process.journal.identity
        while self.open and self._waiting and len(self._published) < WINDOW_MESSAGES:
            if (client := transport.client) is None:
                return
            number, item = self._waiting.popleft()
            self._published.append((number, len(item)))
            name = f"{identity}.{names.token(self._link.name)}.{number}"
            await client.publish(subject, item, reply=f"{inbox}.{number}", headers={"Nats-Msg-Id": name})

    def stored(self, number: int) -> None:
        """Note that the server has an item; the process hears of it when it has all before it."""
        if not self.open or not self._published or number < self._published[0][0]:
            return
        self._confirmed.add(number)
        self._progress = asyncio.get_running_loop().time()
        last = 0
        while self._published and self._published[0][0] in self._confirmed:
            last, size = self._published.popleft()
            self._confirmed.discard(last)
            self._stored_bytes += size
        if last:
            process = self._transport.process
            process.acknowledged(self, last, self._stored_bytes + self._link.window)
            process.wake()
            self._news.set()

    def retry(self) -> None:
        """Publish again if the server acknowledges nothing; report an item that is missing for long."""
        now = asyncio.get_running_loop().time()
        if self.open and self._published and now - self._progress > RESEND:
            self._restart()
            self._transport.process.pump(self._peer)
        if self._acks or self._waiting:
            self._news.set()
        if not self._early:
            self._gap_since = now
        elif now - self._gap_since > GAP:
            missing = self._link.arrived + 1
            reason = (
                f"item {missing} is missing in stream {self._transport.nats.stream}, and later ones are there: a "
                f"server has forgotten it (sync_interval is {self._transport.nats.sync_interval}), or it was removed"
            )
            self._link.refusal = reason
            self._transport.warnings.say("missing", self._link.name, f"{self._link.name}: {reason}", reason=reason)

    async def drain(self) -> None:
        """Wait briefly until the acknowledgements of committed items have left."""
        self._news.set()
        for _ in range(50):
            if not self._acks:
                return
            await asyncio.sleep(0.01)

    # -- items from the server ---------------------------------------------------------------------------------------

    def arrived(self, message: Msg) -> None:
        """Take an item, now or when those before it are here."""
        number, identity = _item_id(message, self._link.name)
        link, process = self._link, self._transport.process
        if link.outbox.closed:
            raise LinkRefused(f"{link.name} was given up by {self._transport.config.name}")
        self._acquaint(identity)
        if number <= link.received:
            self._acks.append(message)
            self._news.set()
        elif number <= link.arrived:
            self._taken.setdefault(number, []).append(message)
        elif number > link.arrived + 1:
            if number > link.arrived + 2 * WINDOW_MESSAGES:
                raise PeerError(f"item {number} of {link.name} came after item {link.arrived}")
            self._early[number] = message
        elif process.may_take(self._peer):
            self._take(number, message)
            while (following := self._early.pop(link.arrived + 1, None)) is not None:
                self._take(link.arrived + 1, following)

    def _take(self, number: int, message: Msg) -> None:
        self._taken.setdefault(number, []).append(message)
        self._transport.process.item(self, number, message.data)

    def _acquaint(self, identity: str) -> None:
        link = self._link
        if link.identity is None:
            link.identity = identity
            self._transport.process.acquaint(link.name, identity)
        link.check_identity(identity)

    def compare(self, data: bytes, *, earlier: bool = False) -> None:
        """Compare the state that a peer published with what this process knows.

        What it left `earlier` may be from before processes joined.
        """
        link, process, me = self._link, self._transport.process, self._transport.config.name
        try:
            state = json.loads(data)
            received, identity = state["received"].get(me, 0), str(state["identity"])
            theirs = {key: state[key] for key in ("protocol", "options", "roster")}
        except (ValueError, KeyError, TypeError, AttributeError):
            self.refuse(PeerError(f"{link.name} sent a description of itself that cannot be read"))
            return
        try:
            for what, here in zip(("roster", "protocol", "options"), terms(process.core), strict=True):
                if theirs[what] != here and not (what == "roster" and self._grown(theirs[what], earlier)):
                    raise LinkRefused(f"{what} differs: {me} has {here}, {link.name} has {theirs[what]!r:.200}")
            if isinstance(received, int):
                link.check_received(received, me)
            self._acquaint(identity)
        except PeerError as error:
            self._differs = True
            self.refuse(error)
        else:
            if self._differs:
                self._differs, link.refusal = False, None

    def _grown(self, theirs: object, earlier: bool) -> bool:
        """Return whether the rosters differ only by processes that have joined."""
        core = self._transport.process.core
        if not isinstance(theirs, list):
            return False
        here = list(core.roster)
        return grown(here, theirs, here if earlier else core.membership.joined())


def _item_id(message: Msg, sender: str) -> tuple[int, str]:
    text = (message.headers or {}).get("Nats-Msg-Id", "")
    identity, _, rest = text.partition(".")
    number = rest.rpartition(".")[2]
    if len(identity) != 32 or not number.isdecimal() or not 0 < int(number) < 1 << 62:
        raise PeerError(
            f"an item of {sender} with the id {printable(text[:60])!r}; journal.destination.number is expected"
        )
    return int(number), identity
