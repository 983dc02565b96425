"""The experiments of chapter 7: how large stamps and histories are, with R9 at chosen separators.

Measured are the hop messages: the number of elements that the stamp of each carries, one stamp for all of its address;
and the number of elements in the histories of the watched processes, after each thing that happens there. The
beginning of a run, until a fifth of its messages have been asked for, is left out.

What the paper leaves open is an argument or a placement: who sits where; whether the hop messages of one forwarding go
out apart or together; whether R6.3 is taken to the letter (`literal`), so that histories grow, or as `ech-r9` does; how
often the small group of figure 7.5 speaks (`pace`). The delays are exponential.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from thence.core.protocols.ech_r9 import ECHR9
from thence.lab.papers.chapter7.networks import GroupNetwork
from thence.lab.papers.variants.topology import Growing
from thence.lab.topology.routed import Routed
from thence.lab.topology.routed_driver import drive, exponential
from thence.lab.topology.separators import option_text

WARM_UP = 0.2
SCENARIOS: dict[str, tuple[str, ...]] = {"no R9": (), "R9 at S2": ("S2",), "R9 at S1, S2, S3": ("S1", "S2", "S3")}
PUBLISHED: dict[str, dict[int, float]] = {
    "matrix clock": {6: 36, 10: 100},
    "vector clocks": {6: 10, 10: 14},
    "no R9": {6: 3.55, 10: 3.46},
    "R9 at S2": {6: 2.70, 10: 3.09},
    "R9 at S1, S2, S3": {6: 2.10, 10: 2.76},
}
"""Table 7.1"""
PUBLISHED_7_5 = {"without": 32.0, "with": 5.0}
"""figure 7.5: stamps of G1; "less than 5" with the gateway as a separator"""


@dataclass
class StampSizes:
    """Measurements of one run; counters map a number of elements to its frequency."""

    network: str
    separators: tuple[str, ...]
    seed: int
    messages: int
    stamps: Counter[int] = field(default_factory=Counter)
    """of all hop messages"""
    focus: Counter[int] = field(default_factory=Counter)
    """of those from a member of the network's focus group to others of it"""
    histories: dict[str, Counter[int]] = field(default_factory=dict)
    """at the watched processes"""

    @property
    def average(self) -> float:
        """Elements of a stamp, over all hop messages."""
        return mean(self.stamps)

    @property
    def focus_average(self) -> float:
        """Elements of a stamp within the focus group."""
        return mean(self.focus)


def mean(sizes: Counter[int]) -> float:
    """Return the mean of what a counter counts; 0 if it is empty."""
    return sum(size * seen for size, seen in sizes.items()) / max(1, sizes.total())


def stamp_sizes(
    network: GroupNetwork,
    separators: Iterable[str] = (),
    seed: int = 1,
    *,
    rate: float = 10.0,
    delay: float = 0.05,
    messages: int = 1000,
    together: bool = False,
    literal: bool = False,
    pace: float = 1.0,
) -> StampSizes:
    """Run a network with R9 at the separators of these names and measure it.

    `pace` is how often the focus group speaks, as a share of the rate of all others.
    """
    chosen, extended, kind = tuple(separators), network.extended, Growing if literal else ECHR9
    text = option_text(extended.at(chosen))
    routed = Routed(
        extended.routes,
        lambda roster, position: kind(roster, position, separators=text),
        together=together,
        run=network.name,
        record=False,
    )
    found = StampSizes(network.name, chosen, seed, messages, histories={name: Counter() for name in network.watched})
    roster, entries = routed.roster, routed.members[0].entries
    inside = roster.mask(network.groups[network.focus]) if network.focus else 0
    senders = {member for members in network.groups.values() for member in members}
    start = WARM_UP * messages / (rate * len(senders))

    def watch(routed: Routed, here: str, now: float) -> None:
        if now < start:
            return
        for sent in routed.sent:
            size = entries(sent.copies[0])
            found.stamps[size] += 1
            if not (sent.destinations | 1 << sent.message.sender) & ~inside:
                found.focus[size] += 1
        if here in found.histories:
            found.histories[here][routed.member(here).log_size()] += 1

    paces = dict.fromkeys(network.groups[network.focus], pace) if network.focus and pace != 1.0 else None
    drive(
        routed, network.groups, seed, messages=messages, rate=rate, delay=exponential(delay), watch=watch, paces=paces
    )
    return found
