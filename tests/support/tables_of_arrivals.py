"""Tables of arrivals for Spark tests: many runs of many protocols as keys of one table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from support.arrivals import PROTOCOLS, Arrivals, Row, arrivals

SCHEMA = (
    "run string, destination string, arrival long, message string, sender string, time double, "
    "payload struct<text:string,place:long>, stamp binary, clock map<string,long>, depends_on array<string>"
)
OUT = ("outcome", "position", "waited_for", "held_for", "held_seconds", "reason", "missing", "blocker")


def many(by: str, seeds: Iterable[int], messages: int = 200, lost: float = 0.03) -> list[Arrivals]:
    """Return runs of every protocol that can say its causes in this way; every second seed loses copies."""
    protocols = {"stamp": PROTOCOLS, "clock": ("rst",), "depends_on": ("ks", "history")}[by]
    return [
        arrivals(protocol, seed, messages=messages, lost=lost * (seed % 2), by=by)
        for protocol in protocols
        for seed in seeds
    ]


def rows_of(runs: Iterable[Arrivals]) -> list[Row]:
    """Return all rows, by arrival, so that any prefix holds a prefix of every destination."""
    return sorted((row for made in runs for row in made.rows), key=lambda row: row["arrival"])


def comparable(rows: Iterable[Any]) -> dict[tuple[str, str], list[tuple[Any, ...]]]:
    """Return, for each key, its rows as tuples: those with a position in that order, then the others by arrival."""
    keyed: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for row in rows:
        told = (row["arrival"], row["message"], row["payload"]["place"], *(row[name] for name in OUT))
        keyed.setdefault((row["run"], row["destination"]), []).append(told)
    for told_rows in keyed.values():
        told_rows.sort(key=lambda told: (told[4] is None, told[4] or 0, told[0]))
    return keyed
