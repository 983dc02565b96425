"""Heartbeats on every link: they keep it alive, show a dead one, and drive the failure detector where there is one.

Whom a process trusts is an input like any other: it is journaled, and replayed after a restart. The member gets
only what differs from what it got before.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from thence.core.protocols.ack_member import AckMember
from thence.live.detector import Detector
from thence.live.inputs import Trusted
from thence.live.logs import note

if TYPE_CHECKING:
    from thence.live.endpoint import Endpoint


async def keep_heartbeat(endpoint: Endpoint) -> None:
    """Send heartbeats, end dead links, and tell the member whom to trust, until cancelled."""
    seconds = endpoint.config.limits.heartbeat_seconds
    trust = Trust(endpoint) if endpoint.process.core.relays else None
    while True:
        endpoint.transport.beat()
        await asyncio.sleep(seconds)
        if trust is not None:
            trust.tick()


class Trust:
    """Which processes a member with a failure detector is to trust."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Begin with what the member knows."""
        limits, core = endpoint.config.limits, endpoint.process.core
        assert isinstance(core.member, AckMember)
        self._endpoint, self._now = endpoint, asyncio.get_running_loop().time
        self._detector = Detector(
            core.me,
            len(core.roster),
            core.member.masks,
            interval=limits.heartbeat_seconds,
            threshold=limits.suspect_after,
            now=self._now(),
        )
        self._last = core.member.receiver.trust

    def tick(self) -> None:
        """Pass the set of trusted processes to the member, if that has changed."""
        endpoint, now = self._endpoint, self._now()
        for peer, heard in endpoint.transport.last_heard.items():
            self._detector.heard(peer, heard)
        self._detector.tick(now)
        trusted = self._detector.trusted(now)
        if trusted == self._last:
            return
        self._last = trusted
        names = endpoint.process.core.roster.members(trusted)
        sentence = f"{endpoint.config.name} trusts {', '.join(names)}"
        note(logging.INFO, "trusted", sentence, process=endpoint.config.name, trusted=list(names))
        endpoint.process.ask(Trusted(names))
