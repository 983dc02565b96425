"""Rows that can be on a cycle of explicit causes, found in one pass over many rows, and when a pass is worth it.

*Invariant.* A cycle that closes while the rows of a step come is also a cycle among all rows of the step: those that
are held and those still to come, each with its causes that are rows too and count as not delivered. (Of several rows of
one message the first usable one stands for it: the others are duplicates, whatever becomes of it.) So the rows of a
cycle belong to one strongly connected component; a row that is alone in its own closes no cycle, and a walk from any
other row need not leave the component. Components are found in time linear in rows and causes
(`core/model/strong_components_cy.py`).

A look costs about as much as a walk through all rows, so it is made once walks have taken as many steps as the step has
rows: the few rows of a batch in a stream are walked as they come, and where looks are of no use they cost less than the
walks. A component may be large though no cycle closes for long: one that leads through many rows closes with the last
of them. So after as many steps again the next look reaches less far; there may be no cycle yet.
"""

from __future__ import annotations

LOOK_AFTER = 1
"""How many steps of walks for each row of a step go before the first look."""


class Outlook:
    """When the next look is due in a step of this many rows, and how far it reaches; rows are counted up to `end`."""

    def __init__(self, rows: int, end: int) -> None:
        """Begin a step."""
        self.rows, self.end = rows, end
        self.patience = LOOK_AFTER * rows
        """how many steps of walks go before the next look"""
        self.seen = -1
        """the row at which the last look ends; -1 if there is none"""

    def reach(self, row: int) -> int:
        """Return up to which row the next pass goes, after the walks up to this one.

        First to the end. If that was of no use, not quite as far: only cycles through few rows close early. Then half.
        """
        if row >= self.seen:
            return self.end
        return row + (self.seen - row) * (7 if self.seen == self.end else 4) // 8

    def looked(self, seen: int, found: bool) -> None:
        """Note a look, and whether it found anything: if it did though it was a shorter one, the next has to wait."""
        self.seen = seen
        if not found:
            self.patience = LOOK_AFTER * self.rows
        elif seen < self.end:
            self.patience += LOOK_AFTER * self.rows
