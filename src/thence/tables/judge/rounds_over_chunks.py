"""Rounds over chunks: which chunks are judged again, and how. Every engine drives its audit through this module.

Invariant. A first round judges small runs whole and large ones in chunks, whose summaries are merged in order, in one
sequence or along a tree. A run whose merge *wants* messages (they were delivered to all their destinations, left no
trace in the summaries, and turned up again) goes a second round with these messages kept. A run in *trouble* (its
chunks are not in order, or a message is sent twice) is judged whole. A run counts in exactly one of these.

An engine supplies partitions and runs functions over them; it decides nothing about rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

F = TypeVar("F")


@dataclass
class Round(Generic[F]):
    """The findings of one round, the runs that it finished and those it did not."""

    found: F
    troubled: set[str] = field(default_factory=set)
    wanting: set[str] = field(default_factory=set)


class ChunkEngine(Protocol[F]):
    """Where rows are, and what runs functions over them."""

    def round(self, wanting: set[str] | None) -> Round[F]:
        """Judge everything, or once more the chunks of some runs with the messages kept that they want."""

    def whole(self, runs: Sequence[str]) -> F:
        """Judge runs whole that were cut into chunks."""


def judged(engine: ChunkEngine[F]) -> tuple[list[F], set[str]]:
    """Return all that is found, and the runs that were in trouble."""
    first = engine.round(None)
    found, troubled = [first.found], set(first.troubled)
    if first.wanting:
        second = engine.round(first.wanting)
        found.append(second.found)
        troubled |= second.troubled
    if troubled:
        found.append(engine.whole(sorted(troubled)))
    return found, troubled
