"""TCP with mutual TLS, as asyncio protocols: listens (`listener.py`), dials, and dials again.

Invariant: with TLS a certificate identifies a peer; without (on loopback, by request) its own first frame does. A
connection on which nothing is heard for `silence_seconds`, though the peer sends heartbeats, is closed and dialled
again.

Certificates are read again when their files change, so that they can be renewed without a restart; connections that
stand are not touched.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl
from collections import deque
from typing import cast

from thence.errors import MisuseError, PeerError
from thence.live.config import Address, Config, parse_address
from thence.live.frames import BEAT, frame
from thence.live.listener import Listener
from thence.live.logs import Warnings, log
from thence.live.process import LiveProcess
from thence.live.session import Session
from thence.live.tls import Contexts, check_own, proven_name, tls_problem

FIRST_PAUSE, LAST_PAUSE = 0.02, 1.0
BLOCK_BYTES = 1 << 18
"""bytes handed to the network at once: TLS encrypts them in a millisecond"""


class TcpChannel(asyncio.Protocol):
    """One TCP connection to a peer."""

    def __init__(self, carrier: TcpTransport, peer: int | None, host: str = "") -> None:
        """Take the peer that is dialled; None if it dialled, from `host`."""
        self.carrier, self.peer, self.host = carrier, peer, host
        self.session: Session | None = None
        self.transport: asyncio.Transport | None = None
        self.proven: str | None = None
        """the name that the certificate of the other end proves"""
        self.opened = False
        self.settled = asyncio.Event()
        """set when the handshake is complete, or the connection has ended"""
        self.ended = asyncio.Event()
        self.quiet = 0
        """heartbeats of our own since something was heard"""
        self._timer: asyncio.TimerHandle | None = None
        self._later: deque[memoryview] = deque()
        """bytes that wait until the network has taken those before them"""
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Read the name in the certificate, and begin the handshake."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's do not descend from asyncio's
        carrier = self.carrier
        _keep_alive(self.transport, carrier.config.limits.silence_seconds)
        carrier.channels.add(self)
        try:
            self.proven = proven_name(transport.get_extra_info("ssl_object"))
        except PeerError as error:
            self.turn_away(str(error))
            return
        if self.peer is not None:
            seconds = carrier.config.limits.handshake_seconds
            self._timer = asyncio.get_running_loop().call_later(seconds, self._too_slow)
        try:
            self.session = carrier.process.connect(self, self.peer, self.proven)
        except Exception as error:
            self._break(error)

    def _break(self, error: Exception) -> None:
        """End the endpoint: what its process holds may be half changed."""
        self.carrier.process.broken(error)
        self.abort()

    def _too_slow(self) -> None:
        if not self.opened:
            self.turn_away("it did not identify itself in time")

    def turn_away(self, reason: str) -> None:
        """Close a connection whose handshake is not complete."""
        self.carrier.warnings.refuse(self.host or "a peer", reason)
        self.abort()

    def data_received(self, data: bytes) -> None:
        """Pass received bytes to the process."""
        if self.session is None:
            return
        try:
            self.session.feed(data)
        except Exception as error:
            self._break(error)
            return
        self.quiet = 0
        if self.session.open and not self.opened:
            self.opened = True
            self.settled.set()
            self.carrier.opened(self)
        self.carrier.heard(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything that waits for this connection."""
        self.carrier.channels.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        self.ended.set()
        self.settled.set()
        if self.session is not None:
            try:
                self.session.lost(str(exc) if exc else "the connection has ended")
            except Exception as error:
                self._break(error)

    def write(self, data: bytes) -> None:
        """Write bytes to the network."""
        if self.transport is None or self.transport.is_closing():
            return
        if len(data) <= BLOCK_BYTES and not self._later:
            self.transport.write(data)
            return
        self._later.append(memoryview(data))
        if len(self._later) == 1:
            self._write_on()

    def _write_on(self) -> None:
        """Write the next block of a long frame; other tasks have their turn before the one after it."""
        if self._paused or not self._later or self.transport is None or self.transport.is_closing():
            return
        block = self._later[0][:BLOCK_BYTES]
        rest = self._later.popleft()[BLOCK_BYTES:]
        if rest:
            self._later.appendleft(rest)
        self.transport.write(block)
        if self._later:
            asyncio.get_running_loop().call_soon(self._write_on)

    def pause_writing(self) -> None:
        """Pause: the network is slower than what is written."""
        self._paused = True

    def resume_writing(self) -> None:
        """Continue writing: the network takes more."""
        self._paused = False
        self._write_on()

    def close(self) -> None:
        """End the connection after what was written; a peer that does not read it is not waited for."""
        if self.transport is not None:
            self.transport.close()
            asyncio.get_running_loop().call_later(1.0, self.transport.abort)

    def abort(self) -> None:
        """End the connection at once."""
        if self.transport is not None:
            self.transport.abort()


class TcpTransport:
    """Listens, dials, and dials again."""

    def __init__(self, config: Config, process: LiveProcess, warnings: Warnings) -> None:
        """Take the configuration; read the certificates."""
        self.config, self.process, self.warnings = config, process, warnings
        self.channels: set[TcpChannel] = set()
        self.last_heard: dict[int, float] = {}
        self.contexts = None if config.tls is None else Contexts(config.tls, warnings)
        if config.tls is not None:
            check_own(config.tls, config.name)
        self._listener = Listener(self)
        self._diallers: list[asyncio.Task[None]] = []
        self._reset: set[int] = set()
        self._stopping = False

    def channel(self, peer: int | None, host: str = "") -> TcpChannel:
        """Return the channel of a connection to the peer that is dialled; None: it dials, from this host."""
        return TcpChannel(self, peer, host)

    @property
    def greeting(self) -> set[TcpChannel]:
        """Accepted connections whose handshake is not complete."""
        return {channel for channel in self.channels if channel.peer is None and not channel.opened}

    async def start(self) -> None:
        """Listen, and begin to dial."""
        address = self.config.listen
        try:
            await self._listener.start()
        except OSError as error:
            key = f"addresses.{self.config.name}" if self.config.bind is None else "bind"
            raise MisuseError(f"{key} is {address}: {error.strerror or error}") from error
        for position in range(self.process.core.me + 1, len(self.process.core.roster)):
            self._grew(position)
        self.process.grew = self._grew

    def _grew(self, position: int) -> None:
        self._diallers.append(asyncio.get_running_loop().create_task(self._dial(position)))

    def _address(self, peer: int) -> Address:
        """Return where a peer listens: as the configuration says, or as it said itself when it joined."""
        name = self.process.core.roster.name(peer)
        known = self.config.addresses.get(name)
        return known or parse_address(self.process.core.membership.joined()[name])

    async def _dial(self, peer: int) -> None:
        """Keep a connection to one peer; errors that the network did not cause end the endpoint."""
        try:
            await self._keep_dialling(peer)
        except Exception as error:
            self.process.broken(error)

    async def _keep_dialling(self, peer: int) -> None:
        name = self.process.core.roster.name(peer)
        try:
            address = self._address(peer)
        except ValueError as error:  # the address came from another member: no reason to end this endpoint
            self._distrust(peer, f"{name} has joined without an address that can be dialled: {error}")
            return
        pause = FIRST_PAUSE
        while not (self._stopping or self.process.links[peer].outbox.closed):
            try:
                async with asyncio.timeout(2 * self.config.limits.handshake_seconds):
                    channel = await self._connect(peer)
                await channel.ended.wait()
            except ssl.SSLError as error:
                self._distrust(peer, f"TLS with {name} at {address}: {tls_problem(error)}")
            except (TimeoutError, OSError) as error:
                log.debug("%s at %s cannot be reached: %s", name, address, error)
            pause = FIRST_PAUSE if peer in self._reset else min(2 * pause, LAST_PAUSE)
            self._reset.discard(peer)
            await asyncio.sleep(pause * (0.5 + random.random()))

    def _distrust(self, peer: int, reason: str) -> None:
        """Record why TLS with a peer fails, and log it once."""
        link = self.process.links[peer]
        if link.refusal != reason:
            link.refusal = reason
            self.process.notice("refused", link.name, reason)

    async def _connect(self, peer: int) -> TcpChannel:
        address = self._address(peer)
        client = None if self.contexts is None else self.contexts.client
        _, channel = await asyncio.get_running_loop().create_connection(
            lambda: self.channel(peer),
            address.host,
            address.port,
            ssl=client,
            ssl_handshake_timeout=None if client is None else self.config.limits.handshake_seconds,
        )
        return channel

    def opened(self, channel: TcpChannel) -> None:
        """Note that a handshake is complete: if the connection ends, dial again soon."""
        assert channel.session is not None
        if channel.session.peer is not None:
            self._reset.add(channel.session.peer)

    def heard(self, channel: TcpChannel) -> None:
        """Note when a peer was last heard of."""
        if channel.session is not None and channel.session.open and channel.session.peer is not None:
            self.last_heard[channel.session.peer] = asyncio.get_running_loop().time()

    def beat(self) -> None:
        """Send a heartbeat over every connection, and end those that are dead.

        Dead by the number of our own heartbeats that nothing answered, not by the clock: a process that did not run for
        a while has sent none, and ends no connection for that.
        """
        limits, links = self.config.limits, self.process.links
        for channel in list(self.channels):
            session = channel.session
            if session is None or session.peer is None or not session.open:
                continue
            channel.quiet += 1
            if links[session.peer].beats and channel.quiet * limits.heartbeat_seconds > limits.silence_seconds:
                session.lost(f"nothing was heard for {limits.silence_seconds:g} s (limits.silence_seconds)")
                channel.abort()
            else:
                channel.write(frame(BEAT))

    def reachable(self) -> set[int]:
        """Return the peers with an open connection."""
        return {peer for peer, link in enumerate(self.process.links) if link.open}

    def renew(self) -> bool:
        """Read the certificates again if their files have changed; return whether they were."""
        return self.contexts is not None and self.contexts.renew()

    def shut(self) -> None:
        """End all connections at once, and listen and dial no more."""
        self._stopping = True
        for task in self._diallers:
            task.cancel()
        self._listener.close()
        for channel in list(self.channels):
            channel.abort()

    async def stop(self) -> None:
        """End all connections and listen no more."""
        self._stopping = True
        for task in self._diallers:
            task.cancel()
        for task in self._diallers:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._listener.close()
        for channel in list(self.channels):
            channel.close()
        waiting = [asyncio.ensure_future(channel.ended.wait()) for channel in list(self.channels)]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=1.0)
            for each in late:
                each.cancel()
        for channel in list(self.channels):
            channel.abort()
        await self._listener.wait_closed()


def _keep_alive(transport: asyncio.Transport, seconds: float) -> None:
    """Let the operating system notice a dead connection too, in about as many seconds."""
    made = transport.get_extra_info("socket")
    if made is None:
        return
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    whole = max(1, round(seconds / 3))
    for name, value in (
        ("TCP_KEEPIDLE", whole),
        ("TCP_KEEPINTVL", whole),
        ("TCP_KEEPCNT", 2),
        ("TCP_USER_TIMEOUT", round(1000 * seconds)),
    ):
        if hasattr(socket, name):  # not every system has all of them
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
