"""The verdict of a run: causal, violated or unknown."""

from __future__ import annotations

from typing import Literal

Verdict = Literal["causal", "violated", "unknown"]


def verdict_of(violations: int, possible: int, set_aside: int, gaps: int) -> Verdict:
    """Return the verdict of a run by how many violations, possible ones, rows set aside and gaps it has."""
    if violations:
        return "violated"
    return "unknown" if possible or set_aside or gaps else "causal"
