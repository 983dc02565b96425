"""Clocks for each channel, in both readings of the discussion; for tests and the explorer only."""

from __future__ import annotations

from thence.lab.explorer.variant import Variant
from thence.lab.papers.channel_clocks import ChannelClocks, ReceiverAlone

VARIANTS: tuple[Variant, ...] = (
    Variant(
        ReceiverAlone,
        "bounded",
        30,
        "stuck",
        "the length of an epoch in T_pq is precisely equal to the number of unacknowledged messages sent from p to q",
        "a!1>b b<a1 b!1>a a<b1 a!2>c c<a2 a!3>b b<a3 b!2>a a<b2 a!4>b b<a4 c!1>b b<c1",
        fifo=True,
    ),
    Variant(
        ChannelClocks,
        "bounded",
        30,
        "stuck",
        "the reuse of timestamps between those processes which are still functioning is not affected",
        "a!1>b b<a1 b!1>a a<b1 a!2>b",
        fifo=True,
    ),
)
