"""Health and readiness of a live endpoint over HTTP: `/healthz` and `/readyz`.

Both are answered by the endpoint's own loop, so that an answer shows that it runs. `/healthz` is 200 until the endpoint
has failed; `/readyz` is 200 while it takes sends: not failed, not stopping, and with space in the journal. Peers that
are away do not make it unready, else a set of processes could never start; they are named in the answer.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from thence.core.model.plain import Row
from thence.errors import MisuseError
from thence.live.config import Address

if TYPE_CHECKING:
    from thence.live.endpoint import Endpoint

REQUEST_LIMIT = 1 << 13
REQUEST_SECONDS = 5.0


class Health:
    """The HTTP server that answers health checks of one endpoint."""

    def __init__(self, endpoint: Endpoint, address: Address) -> None:
        self.endpoint, self.address = endpoint, address
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen at the configured address and answer requests."""
        host, port = self.address.host, self.address.port
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=REQUEST_LIMIT)
        except OSError as error:
            raise MisuseError(f"health is {self.address}: {error.strerror or error}") from error

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                asked = (await reader.readline()).split()
                while (await reader.readline()).strip():
                    pass  # headers
                writer.write(self._answer(asked[1].decode("latin-1") if len(asked) > 1 else ""))
                await writer.drain()
        except (TimeoutError, ValueError, OSError):
            pass  # the client is gone, too slow, or sent too much
        finally:
            writer.close()

    def _answer(self, path: str) -> bytes:
        if path not in ("/healthz", "/readyz"):
            status, body = "404 Not Found", {"error": "/healthz and /readyz are answered here"}
        else:
            fine, body = self.healthy() if path == "/healthz" else self.ready()
            status = "200 OK" if fine else "503 Service Unavailable"
        data = json.dumps(body).encode() + b"\n"
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n"
        return head.encode() + b"Connection: close\r\n\r\n" + data

    def healthy(self) -> tuple[bool, Row]:
        """Return whether the endpoint has not failed."""
        failure = self.endpoint.failure
        name = self.endpoint.config.name
        return failure is None, {"process": name, "failure": None if failure is None else str(failure)}

    def ready(self) -> tuple[bool, Row]:
        """Return whether the endpoint takes sends, and which peers are not connected."""
        fine, body = self.healthy()
        process = self.endpoint.process
        stopping, full = self.endpoint.stopping, process.full
        here = self.endpoint.transport.reachable() | {process.core.me}
        left = process.core.membership.left
        away = [each.name for p, each in enumerate(process.links) if p not in here and not left >> p & 1]
        return fine and not stopping and not full, {**body, "stopping": stopping, "journal_full": full, "away": away}

    async def stop(self) -> None:
        """Close the listening socket, if it was opened."""
        if self._server is not None:
            self._server.close()
