"""Sentences that say what long tests ran: their figures, from the results. Tables are made by tools/benchmark_pages.py.

*Invariant.* Every figure of `MEASURED` stands in its page as its function gives it; stated.py writes and checks them.
"""

from __future__ import annotations

from pages import result
from sentence import Figures, Sentence


def in_words(count: float) -> str:
    """Return a count in millions, to a tenth."""
    return f"{count / 1e6:.1f}"


def fleets() -> Figures:
    found = result("soak/results/live.json")
    runs = [row for name, row in found.items() if name.startswith("fleet of 8, ks, TLS") and "1250 sends" in name]
    sums = {name: sum(run[name] for run in runs) for name in ("multicasts", "kills", "stops", "cuts")}
    return {name: f"{count:,}" for name, count in sums.items()} | {
        "fleets": len(runs), "after": f"{max(run['all delivered after (s)'] for run in runs):.0f}",
        "events": in_words(found["fleet of 8, judged on Spark"]["events"]),
    }  # fmt: skip


MEASURED = (
    Sentence(
        "reference/live.md",
        "{fleets} fleets of 8 processes over TLS: {multicasts} multicasts, {kills} `kill -9`, {stops} processes "
        "suspended, {cuts} links cut",
        fleets,
    ),
    Sentence("reference/live.md", "at most {after} s after the last injected fault everything was delivered", fleets),
    Sentence("reference/live.md", "The traces, {events} million events", fleets),
)
