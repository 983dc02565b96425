"""Serves a registry of prometheus_client to Prometheus, at /metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, start_http_server


class Server:
    """An HTTP endpoint in a thread of its own; port 0 takes any that is free."""

    def __init__(self, registry: CollectorRegistry, port: int = 0, host: str = "127.0.0.1") -> None:
        """Listen at once; raise OSError if that is not possible there."""
        self._server, self._thread = start_http_server(port, host, registry)
        self.port: int = self._server.server_port

    def close(self) -> None:
        """Stop listening and end the thread."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
