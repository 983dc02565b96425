"""Metrics of a live endpoint, served to Prometheus at `/metrics`.

Values are taken from the process when Prometheus asks, so that counting costs nothing otherwise; only how long commits
take is noted as they happen. prometheus_client is loaded by endpoints that have metrics alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING

from thence.errors import MisuseError
from thence.live.config import Address

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from thence.live.endpoint import Endpoint
    from thence.tables.metrics import Server

PREFIX = "thence_live_"
DURATION_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
LOOP_SECONDS = 2.0
"""seconds that a reader waits for the endpoint's own loop"""


class LiveMetrics:
    """The metrics of one endpoint, a collector of prometheus_client, served by a thread of their own."""

    def __init__(self, endpoint: Endpoint, address: Address) -> None:
        try:
            from prometheus_client import CollectorRegistry, Histogram
        except ModuleNotFoundError as error:
            raise MisuseError(
                f'metrics is {address}; that needs the package prometheus-client: pip install "thence[live]"'
            ) from error
        self.endpoint, self.address = endpoint, address
        self.registry = CollectorRegistry()
        self.registry.register(self)
        about = "How long commits take."
        self._commits = Histogram(f"{PREFIX}commit_seconds", about, buckets=DURATION_BUCKETS, registry=self.registry)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._last: list[Metric] = []
        self._server: Server | None = None

    def committed(self, seconds: float) -> None:
        """Note how long a commit took."""
        self._commits.observe(seconds)

    def collect(self) -> Iterable[Metric]:
        """Return the values of now, taken by the endpoint's own loop; those of the last time if it is busy or stops."""
        if self._loop is not None:
            try:
                asyncio.run_coroutine_threadsafe(self._take(), self._loop).result(LOOP_SECONDS)
            except (TimeoutError, CancelledError, RuntimeError):
                pass
        return self._last

    async def _take(self) -> None:
        async with self.endpoint.writer.turn:
            self._last = list(self._now())

    def _now(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        process = self.endpoint.process
        core = process.core
        yield CounterMetricFamily(f"{PREFIX}inputs", "Inputs in the journal, ever.", core.number)
        yield CounterMetricFamily(f"{PREFIX}deliveries", "Messages delivered, ever.", core.deliveries)
        yield GaugeMetricFamily(f"{PREFIX}held", "Messages that wait for their causes.", core.held)
        yield GaugeMetricFamily(f"{PREFIX}inbox", "Messages delivered and not done.", len(core.inbox))
        yield GaugeMetricFamily(f"{PREFIX}journal_bytes", "Size of the journal.", process.journal.bytes())
        connected = GaugeMetricFamily(f"{PREFIX}connected", "Whether the link is open.", labels=["peer"])
        about = "Whether the peer is refused, or refuses."
        refused = GaugeMetricFamily(f"{PREFIX}refused", about, labels=["peer"])
        sent = CounterMetricFamily(f"{PREFIX}sent", "Items for the peer, ever.", labels=["peer"])
        way = GaugeMetricFamily(f"{PREFIX}on_their_way", "Items the peer has not acknowledged.", labels=["peer"])
        received = CounterMetricFamily(f"{PREFIX}received", "Items of the peer written down.", labels=["peer"])
        for position, link in enumerate(process.links):
            if position != core.me:
                connected.add_metric([link.name], link.open)
                refused.add_metric([link.name], link.refusal is not None)
                sent.add_metric([link.name], link.outbox.sent)
                way.add_metric([link.name], link.outbox.sent - link.outbox.acked)
                received.add_metric([link.name], link.received)
        yield from (connected, refused, sent, way, received)

    async def start(self) -> None:
        """Serve the metrics to Prometheus at the configured address."""
        from thence.tables.metrics import Server

        self._loop = asyncio.get_running_loop()
        try:
            self._server = Server(self.registry, self.address.port, self.address.host)
        except OSError as error:
            raise MisuseError(f"metrics is {self.address}: {error.strerror or error}") from error

    async def stop(self) -> None:
        """Stop serving the metrics, if they were served."""
        if self._server is not None:
            await asyncio.to_thread(self._server.close)
