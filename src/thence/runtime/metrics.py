"""Counters of a live endpoint in the text form that Prometheus reads, served over HTTP by the standard library.

Values are taken from the station when somebody asks, so that counting costs nothing while nobody does.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from thence.errors import MisuseError
from thence.runtime.config import Address

if TYPE_CHECKING:
    from thence.runtime.endpoint import Endpoint

REQUEST_LIMIT = 1 << 14


class Metrics:
    """Answers `GET /metrics` for one endpoint."""

    def __init__(self, endpoint: Endpoint, address: Address) -> None:
        """Take the endpoint and where to listen."""
        self.endpoint, self.address = endpoint, address
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen."""
        try:
            self._server = await asyncio.start_server(
                self._serve, self.address.host, self.address.port, limit=REQUEST_LIMIT
            )
        except OSError as error:
            raise MisuseError(f"metrics is {self.address}: {error.strerror or error}") from error

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(5.0):
                request = await reader.readuntil(b"\r\n\r\n")
            found = request.startswith((b"GET /metrics ", b"GET / "))
            body = exposition(self.endpoint).encode() if found else b"GET /metrics is expected\n"
            status = "200 OK" if found else "404 Not Found"
            head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {len(body)}\r\n"
            writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
            await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asked speaks no HTTP, or is gone
        finally:
            writer.close()

    async def stop(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()


def exposition(endpoint: Endpoint) -> str:
    """Return all counters and gauges as text."""
    station = endpoint.station
    core = station.core
    lines: list[str] = []

    def put(name: str, kind: str, told: str, rows: list[tuple[str, float]]) -> None:
        lines.append(f"# HELP thence_live_{name} {told}")
        lines.append(f"# TYPE thence_live_{name} {kind}")
        lines.extend(f"thence_live_{name}{labels} {value:g}" for labels, value in rows)

    put("inputs_total", "counter", "inputs in the journal, ever", [("", core.number)])
    put("deliveries_total", "counter", "messages delivered, ever", [("", core.deliveries)])
    put("held", "gauge", "messages that wait for their causes", [("", core.held)])
    put("inbox", "gauge", "messages delivered and not done", [("", len(core.inbox))])
    put("journal_bytes", "gauge", "size of the journal", [("", station.journal.bytes())])
    links = [(f'{{peer="{_escaped(link.name)}"}}', link) for p, link in enumerate(station.links) if p != core.me]
    put("connected", "gauge", "whether the link is open", [(label, link.open) for label, link in links])
    put("refused", "gauge", "whether the peer is refused, or refuses", [(label, bool(k.refusal)) for label, k in links])
    put("sent_total", "counter", "items for the peer, ever", [(label, link.outbox.sent) for label, link in links])
    put(
        "on_their_way",
        "gauge",
        "items the peer has not acknowledged",
        [(label, link.outbox.sent - link.outbox.acked) for label, link in links],
    )
    put("received_total", "counter", "items of the peer written down", [(label, k.received) for label, k in links])
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
