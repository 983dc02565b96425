"""Measures of a run: sizes of stamps and logs, waiting, latency; in the steady state, with confidence intervals.

Invariant: quantities are attributed to the message they belong to. The first `warmup` share of the messages is left
out, the rest is divided into `batches` consecutive batches; a measure is the mean over all measured copies (messages),
its interval comes from the means of the batches. Over several seeds, `over_seeds` makes one interval from their means.

`..._per_message` sums over all copies of a message. `latency` runs from the application's request to the delivery, so
it counts deferral, travel and holding; `hold` from arrival to delivery; `needless` is the part of `hold` in which
every cause had been delivered. `paper_bytes` is the papers' accounting: 4 bytes a timestamp, 2 bytes a process id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import NamedTuple

from thence.core.model.message import Copy, Stamp
from thence.core.model.plain import Row
from thence.core.protocols.base import Member
from thence.core.protocols.effects import Sent
from thence.lab.simulator.causes import Causes
from thence.lab.simulator.confidence import Estimate, batch_means, estimate
from thence.lab.simulator.simulation import Observer, Simulation

STAMPS = ("entries", "facts", "bytes", "paper_bytes")
PER_COPY = (*STAMPS, "held", "hold", "needless", "latency")
PER_MESSAGE = (*STAMPS, "copies", "deferred", "log_size")
CACHED_MESSAGES = 1024
"""messages whose stamps' sizes are remembered"""


class Size(NamedTuple):
    """The size of a copy's stamp."""

    entries: int
    facts: int | None
    bytes: int
    paper_bytes: int


class StampMeasure:
    """Measures stamps; several observers of one run share one. Copies of a message with one stamp are measured once."""

    def __init__(self) -> None:
        self._found: dict[tuple[str | None, int, int], tuple[Stamp, Size]] = {}

    def of(self, member: Member, copy: Copy) -> Size:
        """Return the size of the stamp of a copy; `bytes` is its length on the wire."""
        key = (copy.label, copy.sender, copy.count)
        found = self._found.get(key)
        if found is None or found[0] is not copy.stamp:
            entries, length = member.entries(copy), len(member.encode(copy))
            size = Size(entries, member.facts(copy), length, member.paper_bytes(copy))
            found = self._found[key] = (copy.stamp, size)
            if len(self._found) > CACHED_MESSAGES:
                del self._found[next(iter(self._found))]
        return found[1]


@dataclass(frozen=True, slots=True)
class Measures:
    """The measures of one run, or of several with different seeds."""

    estimates: dict[str, Estimate | None]
    messages: int
    """measured, warm-up left out"""
    copies: int
    early: int
    """deliveries before a cause, of the whole run"""
    log_size_max: int
    held_at_once: float
    """copies held at one time, over all processes, on the mean"""

    def __getitem__(self, name: str) -> Estimate | None:
        return self.estimates[name]

    def mean(self, name: str) -> float | None:
        """Return the mean of a measure, None where the protocol has no such thing."""
        found = self.estimates[name]
        return None if found is None else found.mean

    def row(self) -> Row:
        """Return it as plain data."""
        row: Row = {name: e and e.row() for name, e in self.estimates.items()}
        for name in ("messages", "copies", "early", "log_size_max", "held_at_once"):
            row[name] = getattr(self, name)
        return row


@dataclass(slots=True)
class _Batch:
    messages: int = 0
    copies: int = 0
    delivered: int = 0
    totals: dict[str, float] = field(default_factory=lambda: dict.fromkeys({*PER_COPY, *PER_MESSAGE}, 0.0))


class Meter(Observer):
    """Measures a run as it goes."""

    def __init__(self, *, warmup: float = 0.2, batches: int = 20, sizes: StampMeasure | None = None) -> None:
        """Leave out this share of the messages, and divide the rest into this many batches."""
        self.warmup, self.batches, self.sizes = warmup, batches, sizes or StampMeasure()
        self.causes = Causes()
        self.log_size_max = 0
        self._has_facts = True
        self._held_for = self._from = self._until = 0.0
        self._numbers: dict[tuple[str | None, int, int], tuple[_Batch | None, float, list[int]]] = {}
        self._arrivals: dict[tuple[str | None, int, int, int], float] = {}
        self._count = 0

    def begin(self, simulation: Simulation) -> None:
        self.members = simulation.members
        total = simulation.scenario.messages
        self._skip = int(total * self.warmup)
        self._rest = max(1, total - self._skip)
        self._batches = [_Batch() for _ in range(max(1, min(self.batches, self._rest)))]
        self.causes.begin(simulation)

    def sent(self, now: float, process: int, sent: Sent, asked: float) -> None:
        """Put a message in its batch, and look at the log of its sender."""
        self.causes.sent(now, process, sent, asked)
        place = self._count - self._skip
        self._count += 1
        batch = None
        if place >= 0:
            batch = self._batches[min(place * len(self._batches) // self._rest, len(self._batches) - 1)]
            batch.messages += 1
            if batch.messages == 1 and batch is self._batches[0]:
                self._from = now
            self._until = now
            log = self.members[process].log_size()
            batch.totals["log_size"] += log
            batch.totals["deferred"] += now - asked
            self.log_size_max = max(self.log_size_max, log)
        left = [sent.destinations.bit_count()]
        self._numbers[sent.label, sent.message.sender, sent.message.count] = (batch, asked, left)

    def arrived(self, now: float, copy: Copy) -> None:
        """Measure a stamp, once for each destination."""
        arrival = (copy.label, copy.sender, copy.count, copy.destination)
        if arrival in self._arrivals:
            return
        self.causes.arrived(now, copy)
        known = self._numbers.get(arrival[:3])
        if known is None:
            return
        self._arrivals[arrival] = now
        if (batch := known[0]) is None:
            return
        size = self.sizes.of(self.members[copy.destination], copy)
        batch.copies += 1
        totals = batch.totals
        totals["entries"] += size.entries
        totals["bytes"] += size.bytes
        totals["paper_bytes"] += size.paper_bytes
        if size.facts is None:
            self._has_facts = False
        else:
            totals["facts"] += size.facts

    def delivered(self, now: float, copy: Copy) -> None:
        """Measure how long a copy waited after its arrival."""
        free = self.causes.waited(now, copy)
        key = (copy.label, copy.sender, copy.count)
        batch, asked, left = self._numbers[key]
        arrival = self._arrivals.get((*key, copy.destination), now)
        left[0] -= 1
        if left[0] == 0:
            del self._numbers[key]
        if batch is None:
            return
        batch.delivered += 1
        totals = batch.totals
        totals["latency"] += now - asked
        if now > arrival:
            totals["held"] += 1
            totals["hold"] += now - arrival
            self._held_for += now - arrival
            totals["needless"] += free or 0.0

    def measures(self) -> Measures:
        """Return the measures of the run."""
        batches = self._batches
        messages, copies, done = ([getattr(b, n) for b in batches] for n in ("messages", "copies", "delivered"))
        found: dict[str, Estimate | None] = {}

        def sums(name: str) -> list[float]:
            return [batch.totals[name] for batch in batches]

        for name in PER_COPY:
            found[f"{name}_per_copy"] = batch_means(sums(name), copies if name in STAMPS else done)
        for name in STAMPS:
            found[f"{name}_per_message"] = batch_means(sums(name), messages)
        found["copies_per_message"] = batch_means(copies, messages)
        found["deferred"] = batch_means(sums("deferred"), messages)
        found["log_size"] = batch_means(sums("log_size"), messages)
        if not self._has_facts:
            found["facts_per_copy"] = found["facts_per_message"] = None
        span = self._until - self._from
        at_once = self._held_for / span if span > 0 else 0.0
        return Measures(found, sum(messages), sum(copies), self.causes.early, self.log_size_max, at_once)


def over_seeds(runs: Sequence[Measures]) -> Measures:
    """Join runs of one scenario with different seeds: each estimate is over the means of the runs."""
    names = runs[0].estimates
    means = {name: [mean for run in runs if (mean := run.mean(name)) is not None] for name in names}
    return Measures(
        {name: estimate(values) for name, values in means.items()},
        sum(run.messages for run in runs),
        sum(run.copies for run in runs),
        sum(run.early for run in runs),
        max(run.log_size_max for run in runs),
        fsum(run.held_at_once for run in runs) / len(runs),
    )
