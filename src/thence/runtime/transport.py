"""What a transport owes an endpoint: connections to the peers, made again when they end.

A transport dials the peers with a higher position, waits for those with a lower one, and hands every connection to the
station as a `Channel`; the station's `Session` takes the bytes. `tcp.py` is the one for processes, `memory.py` moves
stations of one process in tests.
"""

from __future__ import annotations

from typing import Protocol


class Transport(Protocol):
    """Carries the connections of one endpoint."""

    async def start(self) -> None:
        """Listen, and begin to dial."""

    async def stop(self) -> None:
        """End all connections and listen no more."""
