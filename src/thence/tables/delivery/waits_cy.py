# mypy: ignore-errors
# C types are in waits_cy.pxd, where mypy does not see them.
"""Waiting times of the rows of one key, in event time, and the reasons of held rows in words.

*Invariant.* The event time of a key never goes back. A time that is too far ahead counts only once another row confirms
it (`Policy.max_jump`).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, nan
from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython

from thence.errors import MisuseError
from thence.tables.delivery.member_rule import ForeignRule, receiver_of
from thence.tables.delivery.outcome import Waiting, counts_all, listed

if cython.compiled:
    from cython.cimports.thence.tables.delivery.codes_cy import Source
    from cython.cimports.thence.tables.delivery.completion_cy import Completion
    from cython.cimports.thence.tables.delivery.held_cy import STARTED
else:
    from thence.tables.delivery.codes_cy import Source
    from thence.tables.delivery.completion_cy import Completion
    from thence.tables.delivery.held_cy import STARTED

if TYPE_CHECKING:
    from thence.tables.delivery.policy import Policy
    from thence.tables.delivery.reading import Reading
    from thence.tables.delivery.room_cy import Room


@cython.cclass
class Waits(Completion):
    """The event time of one key, and why its rows are held."""

    def __init__(self, reading: Reading, policy: Policy, where: object = "", room: Room | None = None) -> None:
        """Start without any time; `where` names the key in errors."""
        Completion.__init__(self, reading, policy.remember, room)
        self.policy, self.where, self.counted = policy, where, reading.by == "clock"
        self.max_jump = inf if policy.max_jump is None else policy.max_jump
        self.foreign: dict[str | None, ForeignRule] = {}
        self.begin()

    @cython.cfunc
    def begin(self) -> cython.void:
        """Begin before the first row."""
        self.rows = 0
        self.now = self.began = self.doubted = nan

    def receiver(self, label: str | None, destination: int) -> ForeignRule:
        """Begin with an empty receiver of this key's protocol, which has a rule of its own."""
        if self.started is not None:
            raise MisuseError(
                f"protocol {self.reading.protocol} decides by a rule of its own, which Gate cannot follow"
            )
        self.foreign[label] = receiver_of(self.reading, self.policy, destination)
        return self.foreign[label]

    @cython.cfunc
    def see(self, time: cython.double) -> cython.double:
        """Advance event time; return the jump of a time that is too far ahead to be accepted, else NaN."""
        ahead: cython.double
        if self.max_jump == inf or time - self.now <= self.max_jump:
            self.move(time)
            self.doubted = nan
            return nan
        if self.doubted == self.doubted:
            self.move(min(time, self.doubted))
            ahead = time - self.now
            self.doubted = time if ahead > self.max_jump else nan
            return ahead if ahead > self.max_jump else nan
        self.doubted = time
        return time - self.now  # NaN while no time is known

    @cython.cfunc
    def move(self, time: cython.double) -> cython.void:
        """Advance the event time of the key; it never goes back."""
        if self.now != self.now:
            self.now = self.began = time
        elif time > self.now:
            self.now = time

    @cython.cfunc
    def doubting(self, reason: object, ahead: cython.double) -> object:
        """Add to a reason that the row's time was ignored."""
        if ahead != ahead:
            return reason
        words: str = self.policy.not_believed(ahead)
        return words if reason is None else f"{reason}; {words}"

    @cython.cfunc
    def seconds(self, since: cython.double) -> cython.double:
        """Return the seconds since a time; NaN while no time is known."""
        return self.now - (self.began if since != since else since)

    def pending(self) -> Iterator[Waiting]:
        """Explain every held row, in arrival order."""
        found: dict = {}
        return iter([self.explained(row, found) for row in self.places()])

    @cython.cfunc
    def explained(self, row: cython.int, found: dict) -> object:
        """Return what a held row waits for; `found` holds the roots that are known."""
        ticket: cython.longlong = self.at.row_ticket[row]
        if self.at.row_code[row] < 0:
            missing = self.foreign[self.labels.get(row)].missing(ticket)
            blocker, reason = missing[0] if missing else "", f"waits for {listed(missing)}"
        else:
            gap: tuple = self.absent(self.pairs(row, False))
            root: object = self.root(row, found)
            need: tuple = self.blocker(row, root)
            missing, blocker = self.named(gap[0]), self.name(need[0], need[1])
            reason = f"waits for {listed(missing, gap[1])}; {self.about(row, root, need, blocker)}"
        passed: cython.double = self.seconds(self.at.row_since[row])
        held: cython.longlong = self.rows - ticket
        return Waiting(ticket, tuple(missing), blocker, held, None if passed != passed else passed, reason)

    @cython.cfunc
    def about(self, row: cython.int, root: object, need: tuple, blocker: str) -> str:
        """Describe what is known about a blocker, and clocks that seem to count messages that do not come here."""
        source: Source = self.source(need[0])
        if root is None:
            return "these causes wait for each other"
        running: cython.int = self.held_at(source, need[0], need[1])
        if running and self.at.row_state[running] == STARTED:
            return f"{blocker} has not finished"
        if source.quarantined:
            return f"{blocker} was quarantined"
        waited = self.pairs(row, True) if self.counted else []
        wanted = max([each[1] for each in waited if each[0] == need[0]], default=0)
        if not wanted or 2 * source.seen > wanted:
            return f"{blocker} has not arrived"
        return f"{blocker} has not arrived; {counts_all(self.text(need[0]), wanted, source.seen)}"
