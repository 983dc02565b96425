"""Delays that are drawn against a protocol."""

from __future__ import annotations

from random import Random


def unkind(rng: Random) -> float:
    """Draw a delay: mostly very short, at times so long that whole chains overtake."""
    return rng.random() * rng.choice((0.001, 0.001, 0.05, 1.0))
