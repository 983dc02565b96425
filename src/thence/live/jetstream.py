"""NATS JetStream as a transport: a stream keeps every item until its destination has committed it.

Invariant: an item is published with its own id (`Nats-Msg-Id`: the sender's journal, the destination, the number), and
counts as acknowledged when the server has acknowledged it. The destination reads with a durable pull consumer and
acknowledges an item once the journal has committed it. Items of a link are taken in the order of their numbers, each
once: the server removes duplicates only within a window of time, so the receiver does it itself.

The subject of an item names its sender: a member's user may publish only on subjects of its own name
(`nats_server.py`).

Every member publishes its identity and progress twice a second, and keeps the latest in a second stream. From these
a process learns which peers are alive, and whether its own journal has lost something.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from thence.errors import MisuseError, PeerError, ThenceError
from thence.live.config import Config
from thence.live.jetstream_ask import JetStreamAnswers
from thence.live.jetstream_link import EndedError, JetStreamSession
from thence.live.link import terms
from thence.live.logs import Warnings, log
from thence.live.nats_server import (
    ANY,
    ITEM_ROOM,
    Subjects,
    check_stream,
    connection_settings,
    declared_interval,
    read_password,
    stream_settings,
)
from thence.live.process import LiveProcess
from thence.live.tls import Contexts, tls_problem

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.js import JetStreamContext

ACK_WAIT = 2.0
"""seconds after which the server delivers an item again that was not acknowledged"""
PAUSE = 0.2
FETCHED_AT_ONCE = 256
STATE_EVERY = 2.0
CANCEL_AGAIN = 0.5


class JetStreamTransport:
    """One member's connection to the servers."""

    def __init__(self, config: Config, process: LiveProcess, warnings: Warnings) -> None:
        """Take the configuration; read the certificates and the password."""
        assert config.nats is not None
        try:
            import nats  # noqa: F401
        except ImportError:
            raise MisuseError("a table nats needs the package nats-py: pip install 'thence[nats]'") from None
        self.config, self.nats, self.process, self.warnings = config, config.nats, process, warnings
        self.names = Subjects(self.nats.stream)
        self.last_heard: dict[int, float] = {}
        self.client: Client | None = None
        self._contexts = None if config.tls is None else Contexts(config.tls, warnings)
        self._password = read_password(self.nats)
        self._tasks: list[asyncio.Task[None]] = []
        self._sessions = {
            peer: JetStreamSession(self, peer) for peer in range(len(process.core.roster)) if peer != process.core.me
        }
        self._answers = JetStreamAnswers(self)
        self._state, self._stated = b"", 0.0
        self._beating: asyncio.Task[None] | None = None
        self._declared = False
        """whether streams and consumer are there; after that the client connects again by itself"""

    # -- start and stop ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to connect; unreachable servers are not an error."""
        self.process.grew = self._grew
        self._begin(self._run(), "thence-jetstream")

    def _begin(self, work: Coroutine[None, None, None], name: str) -> None:
        """Start a task; errors that the network did not cause end the endpoint."""

        async def watched() -> None:
            try:
                await work
            except Exception as error:
                self.process.broken(error)

        self._tasks.append(asyncio.get_running_loop().create_task(watched(), name=name))

    def _grew(self, peer: int) -> None:
        """Add a process that has joined to the peers."""
        self._sessions[peer] = session = JetStreamSession(self, peer)
        if self._declared and self.client is not None and self.client.is_connected:
            session.begin()

    async def _run(self) -> None:
        from nats.errors import Error

        while True:
            try:
                async with asyncio.timeout(self.config.limits.handshake_seconds):  # its client may wait forever
                    await self._connect()
                await self._declare()
                await self._compare_states()
                break
            except (Error, OSError, TimeoutError) as error:
                self._explain(error)
                await self._drop()
                await asyncio.sleep(PAUSE)
        self._declared = True
        await self._up()
        self._begin(self._read(), "thence-fetch")
        self._begin(self._retry(), "thence-retry")

    def _explain(self, error: Exception) -> None:
        """Record why the servers cannot be used; raise errors that will not pass by themselves."""
        from nats.js.errors import APIError

        if isinstance(error, APIError) and error.code == 400:
            raise MisuseError(f"stream {self.nats.stream!r}: {error.description}")
        self._away(error)

    def _away(self, error: Exception) -> None:
        """Report in the log, and for `thence why`, why the servers cannot be reached."""
        text = tls_problem(error) if isinstance(error, ssl.SSLError) else f"{type(error).__name__} {error}".strip()
        log.debug("NATS: %s", text)
        if self.client is not None and self.client.is_connected:
            return
        sentence = f"NATS at {', '.join(self.nats.servers)}: {text}"
        if self._contexts is not None and isinstance(error, ssl.SSLError | TimeoutError):
            sentence += "; the servers need tls with handshake_first: true and a certificate of tls.authority"
        for peer in self._sessions:
            self.process.links[peer].refusal = sentence
        self.warnings.say("unreachable", "", f"{self.config.name} cannot use {sentence}", reason=text)

    async def _connect(self) -> None:
        from nats.aio.client import Client

        async def noted(error: Exception) -> None:
            self._away(error)
            if "authorization violation" in str(error).lower():  # the client would try again forever
                sentence = f"the NATS servers refuse user {self.nats.user!r}; check nats.user and nats.password"
                self.process.broken(MisuseError(sentence))

        self.client = Client()
        await self.client.connect(
            **connection_settings(self.config, self._password, self._context()),
            max_reconnect_attempts=-1,
            reconnect_time_wait=1,
            ping_interval=max(1, int(self.config.limits.silence_seconds / 3)),
            error_cb=noted,
            disconnected_cb=self._down,
            reconnected_cb=self._up,
        )
        room = self.client.max_payload - ITEM_ROOM
        if self.config.limits.payload_bytes > room:
            raise MisuseError(
                f"limits.payload_bytes is {self.config.limits.payload_bytes}, but the servers take messages of "
                f"{self.client.max_payload} bytes (max_payload); at most {room} is accepted"
            )

    def _context(self) -> ssl.SSLContext | None:
        if self._contexts is None:
            return None
        self._contexts.client.check_hostname = True  # a server is identified by its address
        return self._contexts.client

    async def _declare(self) -> None:
        """Make the streams and the consumer, or compare those that are there; compare what the servers promise."""
        from nats.js.api import AckPolicy, ConsumerConfig

        for wanted in stream_settings(self.nats):
            try:
                await self.js.add_stream(wanted)
            except Exception as error:
                if "different configuration" not in str(error):
                    raise
            check_stream((await self.js.stream_info(wanted.name or "")).config, wanted)
        if self.nats.monitor is not None:
            found = await asyncio.to_thread(declared_interval, self.nats.monitor)
            if found != self.nats.sync_interval:
                declared = f"nats.sync_interval is {self.nats.sync_interval!r}"
                raise MisuseError(f"{declared}, but the server at {self.nats.monitor} has {found!r}")
        me = self.config.name
        await self.js.add_consumer(
            self.nats.stream,
            ConsumerConfig(
                name=self.names.token(me),
                durable_name=self.names.token(me),
                filter_subject=self.names.item(ANY, me),
                ack_policy=AckPolicy.EXPLICIT,
                ack_wait=ACK_WAIT,
                max_ack_pending=2 * FETCHED_AT_ONCE * (len(self._sessions) + 1),
            ),
        )
        client = self._client()
        await client.subscribe(f"{self.names.inbox(me)}.ack.>", cb=self._stored)
        await client.subscribe(self.names.beat(ANY), cb=self._heard)
        await client.subscribe(self.names.question(ANY, me), cb=self._asked)

    async def stop(self) -> None:
        """End in order; acknowledgements that were asked for leave first."""
        for session in self._sessions.values():
            await session.drain()
        if self.client is not None and self.client.is_connected:
            with suppress(Exception):
                await self._say_state(self._client())
                async with asyncio.timeout(1.0):
                    await self.client.flush()
        await self._end()

    async def _end(self) -> None:
        tasks = [*self._tasks, *([self._beating] if self._beating else [])]
        tasks += [session.task for session in self._sessions.values() if session.task is not None]
        pending = set(tasks)
        while pending:  # again and again: `wait_for` of Python 3.11, which the client uses, may lose a cancellation
            for task in pending:
                task.cancel()
            _, pending = await asyncio.wait(pending, timeout=CANCEL_AGAIN)
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._drop()

    async def _drop(self) -> None:
        client, self.client = self.client, None
        if client is not None:
            with suppress(Exception):
                async with asyncio.timeout(1.0):
                    await client.close()

    def shut(self) -> None:
        """Close the connection at once, without sending what is left."""
        self._lose("the endpoint has failed")
        self._tasks.append(asyncio.get_running_loop().create_task(self._drop()))

    def renew(self) -> bool:
        """Read certificates and the password again; they are used at the next connection."""
        before, self._password = self._password, read_password(self.nats)
        renewed = self._contexts is not None and self._contexts.renew()
        return renewed or before != self._password

    # -- connection --------------------------------------------------------------------------------------------------

    def _client(self) -> Client:
        if self.client is None:
            raise EndedError
        return self.client

    @property
    def js(self) -> JetStreamContext:
        """The client's interface to streams, with a time limit of 5 seconds."""
        return self._client().jetstream(timeout=5)

    async def _up(self) -> None:
        for session in self._sessions.values():
            session.begin()

    async def _down(self) -> None:
        self._lose("the NATS server is away")

    def _lose(self, reason: str) -> None:
        for session in self._sessions.values():
            session.lost(reason)

    def reachable(self) -> set[int]:
        """Return the peers that were heard within `silence_seconds`, over servers that are there."""
        if self.client is None or not self.client.is_connected:
            return set()
        now, seconds = asyncio.get_running_loop().time(), self.config.limits.silence_seconds
        return {peer for peer, heard in self.last_heard.items() if now - heard <= seconds}

    # -- items -------------------------------------------------------------------------------------------------------

    async def _stored(self, message: Msg) -> None:
        """Take a server's acknowledgement of an item."""
        _, peer, number = message.subject.rsplit(".", 2)
        session = self._sessions.get(int(peer))
        try:
            answer = json.loads(message.data or b"{}")
        except ValueError:
            answer = {}
        if session is not None and "seq" in answer and "error" not in answer:
            self._safely(lambda: session.stored(int(number)))
        elif session is not None:
            log.debug("item %s was not stored: %s", number, answer.get("error", message.headers))

    async def _asked(self, message: Msg) -> None:
        """Take a question for a change of membership."""
        self._safely(lambda: self._answers.take(message))

    def _safely(self, work: Any) -> None:
        """Run what a callback of the client brings; that would keep an exception to itself."""
        try:
            work()
        except Exception as error:
            self.process.broken(error)

    async def _read(self) -> None:
        """Fetch items and hand them to the process, while it has room."""
        from nats.errors import Error

        token = self.names.token(self.config.name)
        subscription = await self.js.pull_subscribe_bind(token, self.nats.stream)
        while True:
            if not self.process.intake or self.client is None or not self.client.is_connected:
                await asyncio.sleep(PAUSE)
                continue
            try:
                messages = await subscription.fetch(FETCHED_AT_ONCE, timeout=5)
            except (Error, OSError, TimeoutError) as error:
                if not isinstance(error, TimeoutError):
                    log.debug("NATS: %s", error)
                    await asyncio.sleep(PAUSE)
                continue
            for message in messages:
                self._item(message)
            await asyncio.sleep(0)

    def _item(self, message: Msg) -> None:
        sender = self.names.name(message.subject.split(".")[1])
        roster = self.process.core.roster
        if sender not in roster or roster.position(sender) not in self._sessions:
            self.warnings.refuse(sender, f"an item of {sender}, which is not among the processes here")
            return
        session = self._sessions[roster.position(sender)]
        try:
            session.arrived(message)
        except PeerError as error:
            session.refuse(error)

    async def _retry(self) -> None:
        """Publish again what no server has acknowledged in time."""
        while True:
            await asyncio.sleep(ACK_WAIT / 4)
            for session in self._sessions.values():
                session.retry()

    # -- heartbeats --------------------------------------------------------------------------------------------------

    def beat(self) -> None:
        """Announce this process and how far it has come."""
        if self.client is not None and self.client.is_connected and (self._beating is None or self._beating.done()):
            self._beating = asyncio.get_running_loop().create_task(self._say(self.client))

    def _own_state(self) -> bytes:
        process = self.process
        roster, protocol, options = terms(process.core)
        state = {
            "identity": process.journal.identity,
            "roster": roster,
            "protocol": protocol,
            "options": options,
            "sent": {link.name: link.durable for link in process.links},
            "received": {link.name: link.received for link in process.links},
        }
        return json.dumps(state).encode()

    async def _say(self, client: Client) -> None:
        with suppress(Exception):  # the next one follows soon
            await client.publish(self.names.beat(self.config.name), self._own_state())
            if asyncio.get_running_loop().time() - self._stated >= STATE_EVERY:
                await self._say_state(client)

    async def _say_state(self, client: Client) -> None:
        state = self._own_state()
        if state != self._state:
            self._state, self._stated = state, asyncio.get_running_loop().time()
            await client.publish(self.names.state(self.config.name), state)

    async def _heard(self, message: Msg) -> None:
        name = self.names.name(message.subject.split(".")[1])
        roster = self.process.core.roster
        if name not in roster or name == self.config.name:
            return
        peer = roster.position(name)
        self.last_heard[peer] = asyncio.get_running_loop().time()
        self._safely(lambda: self._sessions[peer].compare(message.data))

    async def _compare_states(self) -> None:
        """Compare the journal with what all members, this one too, left when they were last here."""
        from nats.js.errors import NotFoundError

        for name in self.process.core.roster:
            try:
                found = await self.js.get_last_msg(self.names.state_stream, self.names.state(name))
            except NotFoundError:
                continue
            if name == self.config.name:
                self._compare_own(found.data or b"")
            else:
                self._sessions[self.process.core.roster.position(name)].compare(found.data or b"", earlier=True)

    def _compare_own(self, data: bytes) -> None:
        try:
            state = json.loads(data)
            sent, identity = state["sent"], state["identity"]
            behind = [link.name for link in self.process.links if sent.get(link.name, 0) > link.durable]
        except (ValueError, KeyError, TypeError, AttributeError):
            return  # not from a member
        if identity != self.process.journal.identity or behind:
            raise LostMemoryError(
                f"the journal of {self.config.name} is behind what it left in stream {self.names.state_stream}: "
                "it has lost its memory"
            )


class LostMemoryError(ThenceError):
    """The journal has lost something that the servers have."""
