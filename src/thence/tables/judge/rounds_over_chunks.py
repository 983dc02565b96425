"""Rounds over chunks: what is judged again, and how. Every engine drives an audit by these lines.

Invariant. A first round judges small runs whole and large ones in chunks, whose summaries are merged in order, in one
sequence or along a tree. A run whose merge *wants* messages (they were delivered to all their destinations, left no
trace in the summaries, and turned up again) goes a second round with these messages kept. A run in *trouble* (its
chunks are not in order, or a message is sent twice) is judged whole. A run counts in exactly one of these.

An engine supplies partitions and runs functions over them; it decides nothing about rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from thence.tables.judge import findings
from thence.tables.judge.chunk import summary_of
from thence.tables.judge.findings import tagged
from thence.tables.judge.ids import repeated
from thence.tables.judge.merge_chunks import ChunkMerger

F = TypeVar("F")


@dataclass
class Round(Generic[F]):
    """What one round found, of the runs that are done with it, and the runs that are not."""

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


class Merging:
    """The chunks of one run, or of a part of it, merged in order, and the hashes of the ids of all its messages."""

    def __init__(self, run: str, *, last_round: bool = False, opens: bool = True) -> None:
        """`last_round`: what is unknown now was never sent. `opens`: no chunk comes before the first one taken."""
        self.run, self._merger = run, ChunkMerger(run, last_round=last_round, opens=opens)
        self._hashes: list[bytes] = []

    def add(self, tag: str, payloads: Iterable[pa.Buffer]) -> None:
        """Take the payloads of the next summary, or hashes of any chunk."""
        if tag == findings.SUMMARY:
            self._merger.add(summary_of(payloads))
        else:
            self._hashes += [bytes(each) for each in payloads]

    def as_one_chunk(self, number: int) -> pa.Table:
        """Return the chunks taken so far as one, and what is known by then."""
        return self._merger.as_one_chunk(number)

    def finish(self) -> pa.Table:
        """Return what the run turned out to be, or one row that says what is to be done about it."""
        return twice_sent(self.run, self._hashes) or self._merger.finish()


def twice_sent(run: str, hashes: Iterable[bytes]) -> pa.Table | None:
    """Return a row of trouble if a message of the run may have been sent twice."""
    if repeated(hashes):
        return tagged(findings.TROUBLE, run, 1, reason="a message is sent twice")
    return None
