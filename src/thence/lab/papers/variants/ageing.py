"""`epochs` with a part of the ageing left out that only one's own clock asks for; for tests and the explorer only."""

from __future__ import annotations

from thence.core.protocols.epochs import Epochs
from thence.core.protocols.gossip import GossipReceiver
from thence.lab.explorer.variant import Variant


class OwnSentKept(GossipReceiver):
    """What a copy says of one's own sends to oneself is not aged."""

    def _own_unmet(self, stamp: int) -> bool:
        return self.times.later(stamp, self.deliv[self.me])


class EpochsOwnSent(Epochs):
    """SENT[me, me] of a copy is read as it stands."""

    name = "epochs-own-sent"
    code = 125
    receives = OwnSentKept


class OwnDelivKept(GossipReceiver):
    """DELIV of oneself is not aged when one's own epoch turns."""

    def turn(self, now: int) -> None:
        """Note the clock, and nothing else."""
        self.now = now


class EpochsOwnDeliv(Epochs):
    """DELIV[me] is kept over one's own epochs."""

    name = "epochs-own-deliv"
    code = 126
    receives = OwnDelivKept


VARIANTS: tuple[Variant, ...] = (
    Variant(
        EpochsOwnSent,
        "epochs",
        22,
        "stuck",
        "the repair, ageing against gossip only: SENT[me, me] of a copy",
        "a!1>a a<a1 a!2>b b<a2 b!1>a a<b1 a!3>b a!4>a b<a3 b!2>a a<b2 a<a4",
        processes=2,
    ),
    Variant(
        EpochsOwnDeliv,
        "epochs",
        22,
        "unsafe",
        "the repair, ageing against gossip only: DELIV[me]",
        "a!1>a a<a1 a!2>b b<a2 b!1>a a<b1 a!3>b b<a3 b!2>a a<b2 a!4>a a!5>a a<a5",
        processes=2,
    ),
)
