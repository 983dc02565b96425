"""The network: when a copy that is sent now arrives, and whether it arrives once, twice or not at all.

Invariant: a copy between two processes arrives after the delay its policy draws. On a FIFO network it never arrives
before an earlier copy of the same link, protocol messages included. While a partition separates the two ends nothing
passes: a copy sent meanwhile sets out when the partition heals. Loss and duplicates are drawn per copy, from a stream
of their own.

A partition is written `FROM-TO:SIDE|SIDE...`, as in `1.5-4:abc|de`: from 1.5 to 4 seconds, a, b, c on one side, d and e
on the other; names of more than one letter are separated by commas; processes that are not named are on the first side.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from random import Random

from thence.core.model.roster import Roster
from thence.errors import MisuseError
from thence.lab.simulator.delays import LONGEST, Travel, compile_delay
from thence.lab.simulator.random_streams import Streams

_PARTITION = re.compile(r"(?P<start>[\d.]+)-(?P<end>[\d.]+):(?P<sides>.+)")


@dataclass(frozen=True, slots=True)
class Partition:
    """From `start` to `end` nothing passes between processes of different sides."""

    start: float
    end: float
    side: tuple[int, ...]
    """the number of the side of each process"""

    def separates(self, now: float, source: int, destination: int) -> bool:
        """Return whether it stands between the two now."""
        return self.start <= now < self.end and self.side[source] != self.side[destination]


def parse_partition(text: str, roster: Roster) -> Partition:
    """Read a partition; raise an error that names the accepted form."""
    found = _PARTITION.fullmatch(text.strip())
    if found is None:
        raise MisuseError(f"partition {text!r} is not FROM-TO:SIDE|SIDE; 1.5-4:abc|de is accepted")
    try:
        start, end = float(found["start"]), float(found["end"])
    except ValueError:
        raise MisuseError(f"partition {text!r}: {found['start']}-{found['end']} are not seconds") from None
    if not start < end:
        raise MisuseError(f"partition {text!r} ends at {end}, not after it starts; it must heal")
    if end > LONGEST:
        raise MisuseError(f"partition {text!r} ends at {end}; up to {LONGEST:g} seconds are accepted")
    side = [0] * len(roster)
    seen: set[str] = set()
    for number, names in enumerate(found["sides"].split("|")):
        for name in filter(None, (n.strip() for n in (names.split(",") if "," in names else names))):
            if name in seen:
                raise MisuseError(f"partition {text!r} names {name} twice")
            seen.add(name)
            side[roster.position(name)] = number
    if len(set(side)) < 2:
        raise MisuseError(f"partition {text!r} leaves all on one side; name at least two sides")
    return Partition(start, end, tuple(side))


class Network:
    """Delays, order and loss of a scenario, ready to draw from."""

    def __init__(
        self,
        roster: Roster,
        streams: Streams,
        delay: str,
        *,
        fifo: bool = False,
        partitions: tuple[str, ...] = (),
        loss: float = 0.0,
        duplicates: float = 0.0,
    ) -> None:
        """Compile delays for messages and, with a stream of their own, for protocol messages and relays."""
        self.partitions = tuple(parse_partition(text, roster) for text in partitions)
        self.fifo, self.size = fifo, len(roster)
        self._latest = [0.0] * (self.size * self.size)
        self.message: Travel = self._compile(compile_delay(delay, roster, streams.delays))
        self.hop: Travel = self._compile(compile_delay(delay, roster, streams.hops))
        self.loss, self.duplicates = loss, duplicates
        self.reliable = loss == 0.0 and duplicates == 0.0
        self._faults: Random = streams.of("loss and duplicates")

    def _compile(self, policy: Travel) -> Travel:
        travel = self._parted(policy) if self.partitions else policy
        if not self.fifo:
            return travel
        latest, size = self._latest, self.size

        def in_order(now: float, source: int, destination: int) -> float:
            arrival = travel(now, source, destination)
            link = source * size + destination
            if arrival < latest[link]:
                return latest[link]
            latest[link] = arrival
            return arrival

        return in_order

    def _parted(self, policy: Travel) -> Travel:
        def travel(now: float, source: int, destination: int) -> float:
            start = now
            while True:
                ends = [p.end for p in self.partitions if p.separates(start, source, destination)]
                if not ends:
                    return policy(start, source, destination)
                start = max(ends)

        return travel

    def times(self) -> int:
        """Draw how often a copy arrives: 0 if lost, 2 if doubled, else 1."""
        chance = self._faults.random()
        if chance < self.loss:
            return 0
        return 2 if chance < self.loss + self.duplicates else 1


def check_share(value: float, what: str) -> None:
    """Raise MisuseError unless the value is a share below one."""
    if not math.isfinite(value) or not 0.0 <= value < 1.0:
        raise MisuseError(f"{what} {value} is not a share; from 0 up to, but not, 1 is accepted")
