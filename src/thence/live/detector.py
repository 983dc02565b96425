"""The failure detector of a live endpoint: accrual over what was heard of each peer, without a clock of its own.

Invariant: Suspicion of a peer grows with the silence, measured by how often it used to be heard: `phi` is the number of
nines with which such a silence is unlikely, if what is heard comes at random with that mean. A peer is suspected from
`threshold` on, and trusted again as soon as it is heard. If this process itself was late (its event loop did not run),
the time it lost counts as silence of no process.

Never is less than a majority of a group trusted: where fewer would be, the least suspected are trusted all the same.
So the promise of the protocols that survive crashes holds as long as a majority of every group does: some correct
member of each group is then trusted. It does not hold for a group that has lost its majority for good.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import e, log10

from thence.core.model.roster import positions

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
        """Note that something came from a peer."""
        gap = now - self._last[peer]
        if gap > 0:
            self._gaps[peer].append(max(gap, self.interval / 2))
            self._last[peer] = now

    def tick(self, now: float) -> None:
        """Note that this process runs; to be called once an interval. What it missed is not silence of the others."""
        late = now - self._ticked - self.interval
        if late > self.interval:
            self._last = [last + late for last in self._last]
        self._ticked = now

    def phi(self, peer: int, now: float) -> float:
        """Return the suspicion of a peer."""
        gaps = self._gaps[peer]
        return max(0.0, now - self._last[peer]) / (sum(gaps) / len(gaps)) * log10(e)

    def trusted(self, now: float) -> int:
        """Return whom to trust, as a mask."""
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
