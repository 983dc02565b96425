"""What becomes of a row: every arrival ends in exactly one outcome, and the outcome says why.

Law. `delivered`: all its causes at this destination came before it. `released`: a policy let it go without the causes
in `missing`. `late`: it was such a missing cause, and came after. These three have a `position`, dense from 1 in each
key. `duplicate`, `quarantined` (it can not be used, or stands on a cycle) and `blocked` (the input ended first) have
none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Kind = Literal["delivered", "released", "late", "duplicate", "blocked", "quarantined"]
KINDS: tuple[Kind, ...] = ("delivered", "released", "late", "duplicate", "blocked", "quarantined")
PLACED: frozenset[str] = frozenset({"delivered", "released", "late"})
"""The outcomes that have a position."""


class Outcome(NamedTuple):
    """What became of the `ticket`-th row of a key."""

    ticket: int
    outcome: Kind
    position: int | None = None
    waited_for: tuple[str, ...] = ()
    held_for: int = 0
    held_seconds: float | None = None
    reason: str | None = None
    missing: tuple[str, ...] = ()
    blocker: str | None = None

    def columns(self) -> dict[str, Any]:
        """Return the output columns, in order."""
        return {
            "outcome": self.outcome,
            "position": self.position,
            "waited_for": list(self.waited_for),
            "held_for": self.held_for,
            "held_seconds": self.held_seconds,
            "reason": self.reason,
            "missing": list(self.missing),
            "blocker": self.blocker,
        }


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
"""The columns that delivery adds, with their types as Spark SQL writes them.

`waited_for`: causes that were not there when the row came. `held_for`: rows of the key that came while it was held.
`held_seconds`: event time that passed at the destination meanwhile. `missing`: causes it was released without, or
still waits for. `blocker`: the cause at the root of the wait, one that has not arrived at all.
"""


class Waiting(NamedTuple):
    """A held row, explained."""

    ticket: int
    message: str | None
    missing: tuple[str, ...]
    blocker: str
    held_for: int
    held_seconds: float | None
    reason: str
