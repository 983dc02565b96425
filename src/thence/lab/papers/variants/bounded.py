"""Printed forms of `gossip`, `epochs` and `bounded` that fail, for tests and the explorer only.

Also `epochs` with a part of the ageing left out that only one's own clock asks for, and clocks for each channel, in
both readings of the discussion.
"""

from __future__ import annotations

from typing import ClassVar

from thence.core.model.message import Copy
from thence.core.protocols.bounded import Bounded
from thence.core.protocols.epochs import Epochs, ThreeEpochs
from thence.core.protocols.gossip import Gossip, GossipReceiver
from thence.lab.explorer.setting import Variant
from thence.lab.papers.channel_clocks import ChannelClocks, ReceiverAlone

# -- gossip -------------------------------------------------------------------------------------------------------


class GossipUnicast(Gossip):
    """SENT is updated for the receiver alone, as the text for unicast says."""

    name = "gossip-unicast"
    code = 120

    def _addressed(self, copy: Copy) -> int:
        return self.bit


class OwnClockReceiver(GossipReceiver):
    """best(q) = q at q always, so the test never asks for q's own messages to q."""

    def _own_unmet(self, stamp: int) -> bool:
        return False


class GossipOwnClock(Gossip):
    """One's own clock counts as delivered."""

    name = "gossip-own-clock"
    code = 121
    receives = OwnClockReceiver


# -- epochs -------------------------------------------------------------------------------------------------------


class NeverAged(ThreeEpochs):
    """Old stamps are kept, and compare as if they were new when their epoch comes round again."""

    def aged(self, stamp: int, latest: int) -> int:
        """Return the stamp unchanged: this variant never ages it."""
        return stamp


class EpochsWrap(Epochs):
    """Three epoch values and nothing more."""

    name = "epochs-wrap"
    code = 122
    times: ClassVar[ThreeEpochs] = NeverAged()


class NullAliased(ThreeEpochs):
    """Null is (0, 0): older than epoch 1, but newer than epoch 2, and of the same epoch as every third."""

    def in_epoch(self, stamp: int, epoch: int) -> bool:
        """Null is of epoch 0."""
        return _epoch(stamp) == epoch

    def later(self, one: int, other: int) -> bool:
        """Compare two stamps as the paper prints it."""
        ahead = (_epoch(one) - _epoch(other)) % 3
        return ahead == 1 or (ahead == 0 and one > other)


def _epoch(stamp: int) -> int:
    return (stamp - 1) % 3 if stamp else 0


class EpochsNull(Epochs):
    """The null stamp (0, 0)."""

    name = "epochs-null"
    code = 123
    times: ClassVar[ThreeEpochs] = NullAliased()


# -- bounded ------------------------------------------------------------------------------------------------------


class BoundedPrinted(Bounded):
    """One send more than B in an epoch."""

    name = "bounded-printed"
    code = 124

    @property
    def longest(self) -> int:
        """One more than is said."""
        return self.bound + 1


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
    Variant(GossipUnicast, "gossip", 24, "unsafe", "SENT_q[p, q] := GP_M[p, p], and nothing for other destinations",
        "a!1>bc b<a1 b!1>c c<b1", fifo=True),
    Variant(GossipOwnClock, "gossip", 11, "unsafe",
        "deliver if for each r with best(r) = p: ST_M[r, q] <= DELIV_q[r]; for r = q that never asks",
        "a!1>ab b<a1 b!1>a a<b1", processes=2, fifo=True),
    Variant(EpochsWrap, "epochs", 22, "unsafe",
        "T1 <= T2 if T2.e = T1.e + 1 mod 3, or T1.e = T2.e and T1.t <= T2.t, of stamps of any age",
        "a!1>c c<a1 c!1>b b<c1 b!1>a a<b1 a!2>b b<a2 b!2>c c<b2 c!2>a a<c2 a!3>bc b<a3 b!3>c c<b3", fifo=True),
    Variant(EpochsNull, "epochs", 22, "unsafe", "T_p(null) = (0, 0)",
        "a!1>b b<a1 b!1>a a<b1 a!2>c c<a2 c!1>b b<c1 b!2>ac a<b2 a!3>c c<a3", fifo=True),
    Variant(BoundedPrinted, "bounded", 23, "over its bound", "Proceed with the protocol only if T_p.t <= B",
        " ".join(f"a!{count}>b" for count in range(1, 18)), processes=2, fifo=True),
    Variant(EpochsOwnSent, "epochs", 22, "stuck", "the repair, ageing against gossip only: SENT[me, me] of a copy",
        "a!1>a a<a1 a!2>b b<a2 b!1>a a<b1 a!3>b a!4>a b<a3 b!2>a a<b2 a<a4", processes=2),
    Variant(EpochsOwnDeliv, "epochs", 22, "unsafe", "the repair, ageing against gossip only: DELIV[me]",
        "a!1>a a<a1 a!2>b b<a2 b!1>a a<b1 a!3>b b<a3 b!2>a a<b2 a!4>a a!5>a a<a5", processes=2),
    Variant(ReceiverAlone, "bounded", 30, "stuck",
        "the length of an epoch in T_pq is precisely equal to the number of unacknowledged messages sent from p to q",
        "a!1>b b<a1 b!1>a a<b1 a!2>c c<a2 a!3>b b<a3 b!2>a a<b2 a!4>b b<a4 c!1>b b<c1", fifo=True),
    Variant(ChannelClocks, "bounded", 30, "stuck",
        "the reuse of timestamps between those processes which are still functioning is not affected",
        "a!1>b b<a1 b!1>a a<b1 a!2>b", fifo=True),
)  # fmt: skip
