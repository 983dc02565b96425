"""Heartbeats: the failure detector of a live endpoint, driven by its clock and its connections.

Law. Whom a process trusts is an input like any other: it is journaled, and replayed after a restart. Told to the member
is only what differs from what it was told before.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from thence.protocols.ack_member import AckMember
from thence.runtime.detector import Detector
from thence.runtime.frames import BEAT, frame
from thence.runtime.inputs import Trusted
from thence.runtime.logs import note

if TYPE_CHECKING:
    from thence.runtime.endpoint import Endpoint


async def watch(endpoint: Endpoint) -> None:
    """Send heartbeats, and tell the member whom to trust whenever that changes, until cancelled."""
    limits, core, loop = endpoint.config.limits, endpoint.station.core, asyncio.get_running_loop()
    assert isinstance(core.member, AckMember)
    detector = Detector(
        core.me,
        len(core.roster),
        core.member.masks,
        interval=limits.heartbeat_seconds,
        threshold=limits.suspect_after,
        now=loop.time(),
    )
    last = core.member.receiver.trust
    while True:
        _beat(endpoint)
        await asyncio.sleep(limits.heartbeat_seconds)
        now = loop.time()
        for peer, heard in endpoint.transport.last_heard.items():
            detector.heard(peer, heard)
        detector.tick(now)
        trusted = detector.trusted(now)
        if trusted != last:
            last = trusted
            names = core.roster.members(trusted)
            sentence = f"{endpoint.config.name} trusts {', '.join(names)}"
            note(logging.INFO, "trusted", sentence, process=endpoint.config.name, trusted=list(names))
            endpoint.station.ask(Trusted(names))


def _beat(endpoint: Endpoint) -> None:
    for session in list(endpoint.station.sessions.values()):
        if session.open:
            session.channel.write(frame(BEAT))
