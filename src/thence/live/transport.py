"""The interface of a transport: it carries items between processes and reports which peers are reachable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from thence.live.config import Config
from thence.live.logs import Warnings
from thence.live.process import LiveProcess


class Transport(Protocol):
    """Carries items. TCP (`tcp.py`) and NATS JetStream (`jetstream.py`) are two of them.

    It gives the process a session for each peer and opens and closes the links. Items of a link arrive in order, or not
    yet; the process removes duplicates. What goes wrong for good is reported to `LiveProcess.broken`.
    """

    last_heard: dict[int, float]
    """when each peer was last heard of, by the clock of the loop"""

    async def start(self) -> None:
        """Begin; unreachable peers are not an error."""

    async def stop(self) -> None:
        """End in order; what was written may still leave."""

    def shut(self) -> None:
        """Close every connection at once, without sending what is left."""

    def reachable(self) -> set[int]:
        """Return the positions of the peers that can be reached now."""

    def renew(self) -> bool:
        """Read certificates and passwords again if their files have changed; return whether they had."""

    def beat(self) -> None:
        """Announce that this process is alive; called every `heartbeat_seconds`."""


Factory = Callable[[Config, LiveProcess, Warnings], Transport]
"""makes the transport of an endpoint"""


def configured(config: Config, process: LiveProcess, warnings: Warnings) -> Transport:
    """Return the transport that a configuration asks for."""
    if config.nats is not None:
        from thence.live.jetstream import JetStreamTransport

        return JetStreamTransport(config, process, warnings)
    from thence.live.tcp import TcpTransport

    return TcpTransport(config, process, warnings)
