"""What a live endpoint counts, as metrics of `thence.metrics`: shown to Prometheus at `/metrics`.

Values are taken from the station when somebody asks, so that counting costs nothing while nobody does; only how long
commits take is noted as they happen.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING

from thence.errors import MisuseError
from thence.metrics import Metrics, Server
from thence.runtime.config import Address
from thence.runtime.link import Link

if TYPE_CHECKING:
    from thence.runtime.endpoint import Endpoint

PREFIX = "thence_live_"
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
PATIENCE = 2.0
"""seconds that whoever asks waits for the endpoint's own loop"""


class LiveMetrics:
    """The metrics of one endpoint, served by a thread of their own."""

    def __init__(self, endpoint: Endpoint, address: Address) -> None:
        """Take the endpoint and where to listen."""
        self.endpoint, self.address = endpoint, address
        self.metrics = Metrics()
        self._server: Server | None = None
        counter, gauge = self.metrics.counter, self.metrics.gauge
        self._inputs = counter(f"{PREFIX}inputs_total", "Inputs in the journal, ever.")
        self._deliveries = counter(f"{PREFIX}deliveries_total", "Messages delivered, ever.")
        self._held = gauge(f"{PREFIX}held", "Messages that wait for their causes.")
        self._inbox = gauge(f"{PREFIX}inbox", "Messages delivered and not done.")
        self._bytes = gauge(f"{PREFIX}journal_bytes", "Size of the journal.")
        self._connected = gauge(f"{PREFIX}connected", "Whether the link is open.", "peer")
        self._refused = gauge(f"{PREFIX}refused", "Whether the peer is refused, or refuses.", "peer")
        self._sent = counter(f"{PREFIX}sent_total", "Items for the peer, ever.", "peer")
        self._way = gauge(f"{PREFIX}on_their_way", "Items the peer has not acknowledged.", "peer")
        self._received = counter(f"{PREFIX}received_total", "Items of the peer written down.", "peer")
        self._commits = self.metrics.histogram(f"{PREFIX}commit_seconds", "How long commits take.", buckets=SECONDS)

    def committed(self, seconds: float) -> None:
        """Note how long a commit took."""
        self._commits.observe(seconds)

    def refresh(self) -> None:
        """Take the values of now."""
        station = self.endpoint.station
        core = station.core
        self._inputs.set(core.number)
        self._deliveries.set(core.deliveries)
        self._held.set(core.held)
        self._inbox.set(len(core.inbox))
        self._bytes.set(station.journal.bytes())
        for position, link in enumerate(station.links):
            if position != core.me:
                self._link(link)

    def _link(self, link: Link) -> None:
        self._connected.set(link.open, link.name)
        self._refused.set(link.refusal is not None, link.name)
        self._sent.set(link.outbox.sent, link.name)
        self._way.set(link.outbox.sent - link.outbox.acked, link.name)
        self._received.set(link.received, link.name)

    async def start(self) -> None:
        """Listen; values are taken by the endpoint's own loop, whoever asks."""
        loop = asyncio.get_running_loop()

        async def take() -> None:
            async with self.endpoint.writer.turn:
                self.refresh()

        def ask() -> None:
            try:
                asyncio.run_coroutine_threadsafe(take(), loop).result(PATIENCE)
            except (TimeoutError, CancelledError, RuntimeError):
                pass  # the endpoint is busy or stops: the values of the last time are shown

        self.metrics.before.append(ask)
        try:
            self._server = self.metrics.serve(self.address.port, self.address.host)
        except OSError as error:
            raise MisuseError(f"metrics is {self.address}: {error.strerror or error}") from error

    async def stop(self) -> None:
        """Listen no more."""
        if self._server is not None:
            await asyncio.to_thread(self._server.close)
