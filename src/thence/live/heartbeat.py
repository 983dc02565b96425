"""Heartbeats on every link, and an accrual failure detector over what was heard from each peer.

Invariant: Suspicion of a peer grows with the silence, measured by how often it used to be heard: `phi` is the number of
nines with which such a silence is unlikely, if what is heard comes at random with that mean. A peer is suspected from
`threshold` on, and trusted again as soon as it is heard. If this process itself was late (its event loop did not run),
the time it lost counts as silence of no process.

At least a majority of each group is always trusted: if fewer would be, the least suspected are still trusted.
So the promise of the protocols that survive crashes holds as long as a majority of every group does: some correct
member of each group is then trusted. It does not hold for a group that has lost its majority for good.

Whom a process trusts is an input like any other: it is journaled, and replayed after a restart. The member gets
only what differs from what it got before.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from math import e, log10
from typing import TYPE_CHECKING

from thence.core.model.roster import positions
from thence.core.protocols.ack_member import AckMember
from thence.live.inputs import Trusted
from thence.live.logs import note

if TYPE_CHECKING:
    from thence.live.endpoint import Endpoint

INTERVALS_KEPT = 100


class Detector:
    """The failure detector: which processes one process trusts."""

    def __init__(
        self, me: int, size: int, groups: Sequence[int], *, interval: float, threshold: float, now: float
    ) -> None:
        """Take the groups as masks, the time between heartbeats in seconds, and the suspicion from which one counts."""
        self.me, self.size, self.groups = me, size, groups
        self.interval, self.threshold = interval, threshold
        self._last = [now] * size
        self._gaps: list[deque[float]] = [deque([interval], INTERVALS_KEPT) for _ in range(size)]
        self._ticked = now

    def heard(self, peer: int, now: float) -> None:
        """Note that a peer was heard from."""
        gap = now - self._last[peer]
        if gap > 0:
            self._gaps[peer].append(max(gap, self.interval / 2))
            self._last[peer] = now

    def tick(self, now: float) -> None:
        """Note, once an interval, that this process runs, so that its pauses do not count as silence of others."""
        late = now - self._ticked - self.interval
        if late > self.interval:
            self._last = [last + late for last in self._last]
        self._ticked = now

    def phi(self, peer: int, now: float) -> float:
        """Return the suspicion of a peer."""
        gaps = self._gaps[peer]
        return max(0.0, now - self._last[peer]) / (sum(gaps) / len(gaps)) * log10(e)

    def trusted(self, now: float) -> int:
        """Return which processes to trust, as a mask."""
        mask = 1 << self.me
        for peer in range(self.size):
            if self.phi(peer, now) < self.threshold:
                mask |= 1 << peer
        for group in self.groups:
            mask |= self._majority(group, mask, now)
        return mask

    def _majority(self, group: int, mask: int, now: float) -> int:
        members = list(positions(group))
        lacking = len(members) // 2 + 1 - (group & mask).bit_count()
        others = sorted((p for p in members if not mask >> p & 1), key=lambda p: (self.phi(p, now), p))
        return sum(1 << p for p in others[: max(0, lacking)])


async def keep_heartbeat(endpoint: Endpoint) -> None:
    """Send heartbeats, end dead links, and tell the member which processes to trust, until cancelled."""
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
