"""Accepts connections, and limits the number and time of those that are not identified yet.

Invariant: no more than `STRANGERS` connections are unidentified at once, each for `handshake_seconds` at most, TLS
included; further ones wait in the queue of the operating system, and the oldest stranger gives way once it has had
`TURN` seconds. So silent strangers cost little memory and do not block peers. Of those whose certificate names
a peer and who have not said their first words, `GREETINGS` of each name are kept, the latest.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING

from thence.live.tls import tls_problem

if TYPE_CHECKING:
    from thence.live.tcp import TcpChannel, TcpTransport

STRANGERS = 64
TURN = 1.0
GREETINGS = 4
BACKLOG = 256


class Listener:
    """A TCP server that accepts peers at the address of a transport."""

    def __init__(self, transport: TcpTransport) -> None:
        """Take the transport, which makes channels and has the certificates."""
        self._transport = transport
        self._seconds = transport.config.limits.handshake_seconds
        """how long a connection may stay unidentified"""
        self.strangers: dict[asyncio.Task[None], float] = {}
        """unidentified connections with their start times, the oldest first"""
        self._greetings: dict[str, list[TcpChannel]] = {}
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._free = asyncio.Event()

    async def start(self) -> None:
        """Listen; what goes wrong with the accepting itself ends the endpoint."""
        loop, at = asyncio.get_running_loop(), self._transport.config.listen
        found = await loop.getaddrinfo(at.host, at.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, place in dict.fromkeys(found):
            self._sockets.append(_listening(family, kind, protocol, place))
        for each in self._sockets:
            self._tasks.add(loop.create_task(self._accept_all(each), name="thence-listener"))

    async def _accept_all(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                await self._place()
                try:
                    connection, place = await loop.sock_accept(listening)
                except OSError as error:  # out of descriptors, for example: waiting connections are served later
                    self._refuse("a stranger", f"it cannot be accepted: {error.strerror or error}")
                    await asyncio.sleep(0.1)
                    continue
                task = loop.create_task(self._meet(connection, str(place[0])))
                self.strangers[task] = loop.time()
                self._tasks.add(task)
                task.add_done_callback(self._gone)
        except Exception as error:
            self._transport.process.broken(error)
        finally:
            listening.close()  # not before: the loop still watches it while it accepts

    async def _place(self) -> None:
        """Wait until one more stranger has its place."""
        now = asyncio.get_running_loop().time
        while len(self.strangers) >= STRANGERS:
            oldest, since = next(iter(self.strangers.items()))
            left = since + min(TURN, self._seconds) - now()
            if left <= 0:
                self._forget(oldest)
                oldest.cancel()
                self._refuse("a stranger", f"{STRANGERS} connections are unidentified; the oldest is closed")
                return
            self._free.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._free.wait()

    async def _meet(self, connection: socket.socket, host: str) -> None:
        """Keep a connection until its handshake is complete, or its time is over."""
        channel = self._transport.channel(None, host)
        try:
            async with asyncio.timeout(self._seconds):
                contexts = self._transport.contexts
                context, limit = (None, None) if contexts is None else (contexts.server, self._seconds)
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: channel, connection, ssl=context, ssl_handshake_timeout=limit
                )
                self._identified(channel)
                await channel.settled.wait()
        except TimeoutError:
            self._refuse(host, "it did not identify itself in time")
        except ssl.SSLError as error:
            self._refuse(host, f"the TLS handshake failed: {tls_problem(error)}")
        except OSError as error:
            self._refuse(host, f"the handshake failed: {error.strerror or error}")
        finally:
            if not channel.opened:
                channel.abort()
            if channel.transport is None:
                connection.close()

    def _identified(self, channel: TcpChannel) -> None:
        """Count a connection whose certificate names a peer for that peer, and not as a stranger."""
        if channel.proven is None:
            return
        task = asyncio.current_task()
        assert task is not None
        self._forget(task)
        greetings = [each for each in self._greetings.get(channel.proven, []) if not each.settled.is_set()]
        for late in greetings[: max(0, len(greetings) + 1 - GREETINGS)]:
            late.turn_away(f"{GREETINGS} later connections of {channel.proven} have come, and it has said nothing")
        self._greetings[channel.proven] = [*greetings[-(GREETINGS - 1) :], channel]

    def _forget(self, task: asyncio.Task[None]) -> None:
        self.strangers.pop(task, None)
        self._free.set()

    def _gone(self, task: asyncio.Task[None]) -> None:
        self._forget(task)
        self._tasks.discard(task)

    def _refuse(self, host: str, reason: str) -> None:
        self._transport.warnings.refuse(host, reason)

    def close(self) -> None:
        """Stop listening, and close unidentified connections."""
        for task in self._tasks:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until all of it has ended."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for each in self._sockets:
            each.close()


def _listening(family: int, kind: int, protocol: int, place: tuple[object, ...]) -> socket.socket:
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.setblocking(False)
        made.bind(place)
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    return made
