"""The verdict of a run: causal, violated or unknown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Verdict = Literal["causal", "violated", "unknown"]

WORST_FIRST: tuple[Verdict, ...] = ("violated", "unknown", "causal")


def worst_of(verdicts: Iterable[str]) -> Verdict:
    """Return the worst of some verdicts; causal if there is none."""
    found = set(verdicts)
    return next((each for each in WORST_FIRST if each in found), "causal")


def verdict_of(violations: int, possible: int, set_aside: int, gaps: int) -> Verdict:
    """Return the verdict of a run from its counts of violations, possible violations, rows set aside and gaps."""
    if violations:
        return "violated"
    return "unknown" if possible or set_aside or gaps else "causal"
