"""TCP with mutual TLS, as asyncio protocols.

Law. A peer is who its certificate says: the URI `thence:<name>` among the certificate's alternative names, vouched for
by the configured authority. Without TLS (on loopback, by request) a peer is who it says. A connection that has not
said its first words within `handshake_seconds` is ended, and no more than `GREETING_LIMIT` may be in that state.

Certificates are read again when their files change, so that they can be renewed without a restart; connections that
stand are not touched.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from thence.errors import MisuseError, PeerError
from thence.runtime.config import Config, Tls
from thence.runtime.logs import log, note
from thence.runtime.session import Session
from thence.runtime.station import Station

GREETING_LIMIT = 64
FIRST_PAUSE, LAST_PAUSE = 0.02, 1.0
URI = "thence:"


class TcpChannel(asyncio.Protocol):
    """One connection."""

    def __init__(self, carrier: TcpTransport, peer: int | None) -> None:
        """Take the peer that is dialled; None if it dialled."""
        self.carrier, self.peer = carrier, peer
        self.session: Session | None = None
        self.transport: asyncio.Transport | None = None
        self.ended: asyncio.Event = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Find out who it is, and begin."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's do not descend from asyncio's
        carrier = self.carrier
        if self.peer is None and len(carrier.greeting) >= GREETING_LIMIT:
            self._turn_away(f"more than {GREETING_LIMIT} connections have not said who they are")
            return
        try:
            proven = proven_name(transport.get_extra_info("ssl_object"))
        except PeerError as error:
            self._turn_away(str(error))
            return
        carrier.greeting.add(self)
        carrier.channels.add(self)
        seconds = carrier.config.limits.handshake_seconds
        self._timer = asyncio.get_running_loop().call_later(seconds, self._too_slow)
        try:
            self.session = carrier.station.connect(self, self.peer, proven)
        except Exception as error:
            self._break(error)

    def _break(self, error: Exception) -> None:
        """End the endpoint: what its station holds may be half changed."""
        self.carrier.station.broken(error)
        self.abort()

    def _too_slow(self) -> None:
        if self.session is not None and not self.session.open:
            self._turn_away("it did not say its first words in time")

    def _turn_away(self, reason: str) -> None:
        name = self.carrier.config.name
        note(logging.WARNING, "refused", f"{name} refuses a connection: {reason}", process=name, reason=reason)
        self.abort()

    def data_received(self, data: bytes) -> None:
        """Hand bytes to the station."""
        if self.session is None:
            return
        try:
            self.session.feed(data)
        except Exception as error:
            self._break(error)
            return
        if self.session.open and self in self.carrier.greeting:
            self.carrier.greeting.discard(self)
            self.carrier.opened(self)
        self.carrier.heard(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end."""
        self.carrier.greeting.discard(self)
        self.carrier.channels.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        self.ended.set()
        if self.session is not None:
            try:
                self.session.lost(str(exc) if exc else "the connection has ended")
            except Exception as error:
                self._break(error)

    def write(self, data: bytes) -> None:
        """Hand bytes to the network."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

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

    def __init__(self, config: Config, station: Station) -> None:
        """Take the configuration; read the certificates."""
        self.config, self.station = config, station
        self.greeting: set[TcpChannel] = set()
        self.channels: set[TcpChannel] = set()
        self.last_heard: dict[int, float] = {}
        self._contexts = None if config.tls is None else Contexts(config.tls)
        self._server: asyncio.Server | None = None
        self._diallers: list[asyncio.Task[None]] = []
        self._reset: set[int] = set()
        self._stopping = False

    async def start(self) -> None:
        """Listen, and begin to dial."""
        loop = asyncio.get_running_loop()
        address = self.config.listen
        server = None if self._contexts is None else self._contexts.server
        timeout = None if server is None else self.config.limits.handshake_seconds
        try:
            self._server = await loop.create_server(
                lambda: TcpChannel(self, None),
                address.host,
                address.port,
                ssl=server,
                ssl_handshake_timeout=timeout,
            )
        except OSError as error:
            raise MisuseError(f"addresses.{self.config.name} is {address}: {error.strerror or error}") from error
        me = self.station.core.me
        for position in range(me + 1, len(self.station.core.roster)):
            self._diallers.append(loop.create_task(self._dial(position)))

    async def _dial(self, peer: int) -> None:
        """Keep a connection to one peer; whatever is not the network's doing ends the endpoint."""
        try:
            await self._keep_dialling(peer)
        except Exception as error:
            self.station.broken(error)

    async def _keep_dialling(self, peer: int) -> None:
        name = self.station.core.roster.name(peer)
        address = self.config.addresses[name]
        pause = FIRST_PAUSE
        while not (self._stopping or self.station.links[peer].outbox.closed):
            try:
                async with asyncio.timeout(2 * self.config.limits.handshake_seconds):
                    channel = await self._connect(peer)
                await channel.ended.wait()
            except ssl.SSLError as error:
                self._distrust(peer, f"TLS with {name} at {address}: {_told(error)}")
            except (TimeoutError, OSError) as error:
                log.debug("%s at %s cannot be reached: %s", name, address, error)
            pause = FIRST_PAUSE if peer in self._reset else min(2 * pause, LAST_PAUSE)
            self._reset.discard(peer)
            await asyncio.sleep(pause * (0.5 + random.random()))

    def _distrust(self, peer: int, reason: str) -> None:
        """Remember why no TLS connection to a peer comes about, and say it once."""
        link = self.station.links[peer]
        if link.refusal != reason:
            link.refusal = reason
            self.station.notice("refused", link.name, reason)

    async def _connect(self, peer: int) -> TcpChannel:
        address = self.config.addresses[self.station.core.roster.name(peer)]
        client = None if self._contexts is None else self._contexts.client
        _, channel = await asyncio.get_running_loop().create_connection(
            lambda: TcpChannel(self, peer),
            address.host,
            address.port,
            ssl=client,
            ssl_handshake_timeout=None if client is None else self.config.limits.handshake_seconds,
        )
        return channel

    def opened(self, channel: TcpChannel) -> None:
        """Note that a connection has said its first words: if it ends, dial again soon."""
        assert channel.session is not None
        if channel.session.peer is not None:
            self._reset.add(channel.session.peer)

    def heard(self, channel: TcpChannel) -> None:
        """Note when a peer was last heard of."""
        if channel.session is not None and channel.session.open and channel.session.peer is not None:
            self.last_heard[channel.session.peer] = asyncio.get_running_loop().time()

    def renew(self) -> bool:
        """Read the certificates again if their files have changed; tell whether they were."""
        return self._contexts is not None and self._contexts.renew()

    def shut(self) -> None:
        """End all connections at once, and listen and dial no more."""
        self._stopping = True
        for task in self._diallers:
            task.cancel()
        if self._server is not None:
            self._server.close()
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
        if self._server is not None:
            self._server.close()
        for channel in list(self.channels):
            channel.close()
        waiting = [asyncio.ensure_future(channel.ended.wait()) for channel in list(self.channels)]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=1.0)
            for each in late:
                each.cancel()
        for channel in list(self.channels):
            channel.abort()
        if self._server is not None:
            await self._server.wait_closed()


class Contexts:
    """TLS for both roles, from files that may change."""

    def __init__(self, tls: Tls) -> None:
        """Read the files."""
        self.tls = tls
        self.server, self.client = context(tls, ssl.PROTOCOL_TLS_SERVER), context(tls, ssl.PROTOCOL_TLS_CLIENT)
        self._seen = self._times()

    def _times(self) -> list[int]:
        return [path.stat().st_mtime_ns for path in (self.tls.certificate, self.tls.key, self.tls.authority)]

    def renew(self) -> bool:
        """Take changed files for the connections to come; files that do not fit yet are left for the next time."""
        try:
            now = self._times()
            if now == self._seen:
                return False
            for each in (self.server, self.client):
                each.load_cert_chain(self.tls.certificate, self.tls.key)
                each.load_verify_locations(self.tls.authority)
        except (OSError, ssl.SSLError) as error:
            sentence = f"changed certificates cannot be used yet: {error}"
            note(logging.WARNING, "unusable", sentence, certificate=str(self.tls.certificate), reason=str(error))
            return False
        self._seen = now
        return True


def context(tls: Tls, role: int) -> ssl.SSLContext:
    """Return TLS for one role: both ends show a certificate of the same authority."""
    made = ssl.SSLContext(role)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = False  # who a peer is, its certificate's URI says, not where it is found
    made.verify_mode = ssl.CERT_REQUIRED
    for what, path in (("certificate", tls.certificate), ("key", tls.key), ("authority", tls.authority)):
        _readable(what, path)
    try:
        made.load_cert_chain(tls.certificate, tls.key)
        made.load_verify_locations(tls.authority)
    except (ssl.SSLError, OSError) as error:
        raise MisuseError(f"tls: {tls.certificate}, {tls.key} and {tls.authority} do not fit: {error}") from error
    return made


def _readable(what: str, path: Path) -> None:
    try:
        path.read_bytes()
    except OSError as error:
        raise MisuseError(f"tls.{what} is {path}: {error.strerror}") from error


def proven_name(ssl_object: ssl.SSLObject | None) -> str | None:
    """Return the name that a certificate proves; None without TLS."""
    if ssl_object is None:
        return None
    certificate: Mapping[str, object] = ssl_object.getpeercert() or {}
    alternatives = certificate.get("subjectAltName", ())
    assert isinstance(alternatives, tuple)
    names = [value[len(URI) :] for kind, value in alternatives if kind == "URI" and value.startswith(URI)]
    if len(names) != 1:
        raise PeerError(f"the certificate holds {len(names)} names of the form {URI}NAME; exactly one is expected")
    return str(names[0])


def _told(error: ssl.SSLError) -> str:
    """Return what TLS says is wrong, with the certificate if it is that."""
    reason = str(error.reason or error)
    return f"{reason}, {error.verify_message}" if isinstance(error, ssl.SSLCertVerificationError) else reason
