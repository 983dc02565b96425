"""Outcomes of rows: every arrival gets exactly one, with a reason.

Invariant: `delivered`: all its causes at this destination came before it. `released`: it went without the causes in
`missing`. `late`: it was given up as a cause, and came after all. These three have a `position`, dense from 1 in each
key. `duplicate`, `quarantined` (it cannot be used, or stands on a cycle) and `blocked` (the input ended first) have
none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """The six outcomes that a row can have."""

    DELIVERED = "delivered"
    RELEASED = "released"
    LATE = "late"
    DUPLICATE = "duplicate"
    BLOCKED = "blocked"
    QUARANTINED = "quarantined"


KINDS: tuple[str, ...] = tuple(kind.value for kind in Kind)
PLACED: frozenset[str] = frozenset({Kind.DELIVERED, Kind.RELEASED, Kind.LATE})
"""The outcomes that have a position."""
UNPLACED: frozenset[str] = frozenset(KINDS) - PLACED
"""The others: a row of an earlier delivery with one of these does not count as delivered."""

OUTPUT_COLUMNS: Mapping[str, str] = {
    "outcome": "string",
    "position": "long",
    "waited_for": "array<string>",
    "held_for": "long",
    "held_seconds": "double",
    "reason": "string",
    "missing": "array<string>",
    "blocker": "string",
}
"""The columns that delivery adds, with their types as Spark SQL writes them; Arrow's are derived from them.

`waited_for`: the causes it was held for. `held_for`: rows of the key that came while it was held. `held_seconds`: event
time that passed at the key meanwhile. `missing`: causes it went without, or still waits for. `blocker`: the cause at
the root of the wait.
"""
WAITING_COLUMNS: tuple[str, ...] = ("missing", "blocker", "held_for", "held_seconds", "reason")
"""Columns of a waiting row, besides its key and its message."""

SHOWN_CAUSES = 8
"""How many causes a sentence names."""


class Waiting(NamedTuple):
    """A held row, with the causes that it waits for."""

    ticket: int
    missing: tuple[str, ...]
    blocker: str
    held_for: int
    held_seconds: float | None
    reason: str


def counts_all(sender: str, wanted: int, seen: int) -> str:
    """Return the reason: a clock seems to count messages that do not come here."""
    return (
        f"component {sender} says {wanted}, and {seen} messages of {sender} came here: looks like a clock that counts "
        "all events"
    )


def listed(names: Sequence[str], total: int | None = None) -> str:
    """Name causes in a sentence: the first few, and how many more of `total` there are."""
    more = (len(names) if total is None else total) - min(len(names), SHOWN_CAUSES)
    return ", ".join(names[:SHOWN_CAUSES]) + (f" and {more} more" if more > 0 else "")
