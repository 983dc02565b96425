"""Full knowledge of a chunk's events: the in-chunk clock, and what had entered the processes in it.

Invariant: Let an event of a chunk know process p up to index i by its in-chunk clock. Then it truly knows, besides, all
that p knew on entering the chunk and all that the messages imported at p up to i carried. So the true clock is the
in-chunk clock joined with one stored vector for each process it knows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thence.tables.contract.numpy_types import Clocks, Flags, Ints, Longs
from thence.tables.judge import chunk_clocks_cy


class Stack(NamedTuple):
    """Knowledge of each process when it enters a chunk and after each import there, one row below the other."""

    rows: Clocks
    since: Longs
    """the index from which on each row holds"""
    starts: Longs
    """the first row of each process"""
    origin: Longs
    """the import behind each row, -1 for none"""
    row_of: Ints
    """the process of each column"""


class Contacts(NamedTuple):
    """By which delivery each process of a chunk first heard of what: see `LabelSummary`."""

    here: Longs
    """each process as the chunk numbers them, or -1"""
    column: Longs
    """each process as the chunk numbers senders, or -1"""
    met: Ints
    heard: Ints
    place: Ints
    none: int


def stacked(known: Clocks, at: Ints, index: Longs, carried: Clocks, row_of: Ints) -> Stack:
    """Return for each process what it knew on entering and after each import; those of one process come in order."""
    order = np.argsort(at, kind="stable")
    counts = np.bincount(at, minlength=len(known))
    starts = np.concatenate([[0], np.cumsum(counts + 1)])
    place = np.arange(1, len(at) + 1) + at[order]  # one row for entering stands before those of each process
    rows = np.empty((starts[-1], known.shape[1]), known.dtype)
    rows[starts[:-1]], rows[place] = known, carried[order]
    since, origin = np.zeros(len(rows), np.int64), np.full(len(rows), -1, np.int64)
    since[place], origin[place] = index[order], order
    for p in np.flatnonzero(counts).tolist():
        own = rows[starts[p] : starts[p + 1]]
        np.maximum.accumulate(own, axis=0, out=own)
    return Stack(rows, since, starts, origin, row_of)


def lift(clocks: Clocks, who: Ints, stack: Stack) -> Clocks:
    """Join each in-chunk clock with what entered the processes it knows.

    `who` numbers the process of each clock; clocks of one process come in order, so each starts from the one before and
    joins only what is new.
    """
    lifted = clocks.copy()
    count = int(who.max(initial=-1)) + 1
    before, joined = np.full(count, -1, np.int64), np.full((count, clocks.shape[1]), -1, np.int64)
    chunk_clocks_cy.lift(clocks, who, stack.row_of, stack.rows, stack.since, stack.starts, lifted, before, joined)
    return lifted


def knew(before: Clocks, at: Ints, index: Longs, source: Longs, least: Longs, stack: Stack) -> Flags:
    """Return for each delivery whether its process knew `least` or later of `source`, a column, just before it."""
    found = np.zeros(len(at), np.bool_)
    source, least = np.ascontiguousarray(source), np.ascontiguousarray(least)
    chunk_clocks_cy.knew(
        before, at, index, source, least, stack.row_of, stack.rows, stack.since, stack.starts, found.view(np.uint8)
    )
    return found


def earliest(to: Longs, source: Longs, least: Longs, stack: Stack, contacts: Contacts) -> Longs:
    """For each question, the first delivery after which `to` knows of `least` or later of `source`; -1: in no good run.

    The missing messages were sent before the chunk. `to` is a process that has rows in the chunk, `source` a column.
    """
    to, source, least = (np.ascontiguousarray(each) for each in (to, source, least))
    answer = np.full(len(to), contacts.none, np.int64)
    met, heard, place = (np.ascontiguousarray(each) for each in (contacts.met, contacts.heard, contacts.place))
    chunk_clocks_cy.earliest(
        to, source, least, stack.rows, stack.starts, stack.origin, stack.row_of, contacts.here, contacts.column, met,
        heard, place, answer,
    )  # fmt: skip
    answer[answer == contacts.none] = -1
    return answer
