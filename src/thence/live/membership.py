"""Processes that join and leave at run time: one change after the other, accepted by every member.

Invariant: changes have numbers, and every member applies them in that order. One process proposes them, the first of
the roster that has not left, and proposes the next one when all have accepted the last. Each member that applies a
change sends it on to all others, over the same links as its messages: so no member gets a stamp with a name it does
not know. There is no consensus: while a member is away a change waits for it, and says so.

Changes travel as items and are applied as inputs, so they are journaled and replayed like everything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from thence.errors import MisuseError, PeerError
from thence.live.inputs import MembershipChange, Propose, accept_head, change_head
from thence.live.outbox import Outbox
from thence.live.trace_rows import ROSTER_LIMIT

if TYPE_CHECKING:
    from thence.live.core import Core
    from thence.live.group import InputResult


class Membership:
    """The changes that one process has applied, and who has accepted the last one it proposed."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.changes: list[MembershipChange] = []
        self.accepted = 0
        """positions that have accepted the last change, where this process has proposed it"""

    # -- state -------------------------------------------------------------------------------------------------------

    @property
    def left(self) -> int:
        """The processes that have left, as a mask."""
        roster = self._core.roster
        return roster.mask(change.name for change in self.changes if not change.joins)

    def joined(self) -> dict[str, str]:
        """Return the processes that joined at run time, and where they listen."""
        return {change.name: change.address for change in self.changes if change.joins}

    @property
    def proposer(self) -> int:
        """Position of the process that proposes changes."""
        left = self.left
        return next((p for p in range(len(self._core.roster)) if not left >> p & 1), 0)

    def waits_for(self) -> list[str]:
        """Return who has not accepted the last change that this process proposed."""
        if not self.changes or self.changes[-1].by != self._core.me:
            return []
        last, roster = self.changes[-1], self._core.roster
        new = roster.mask([last.name]) if last.joins else 0
        gone = self.left & ~(0 if last.joins else roster.mask([last.name]))
        return list(roster.members(roster.everyone & ~(self.accepted | new | gone | 1 << self._core.me)))

    # -- inputs ------------------------------------------------------------------------------------------------------

    def propose(self, given: Propose, step: InputResult) -> None:
        """Begin a change; one that has begun already is ignored."""
        core, joins, name = self._core, given.joins, given.process
        if self.begun(given):
            return
        if core.me != self.proposer:
            raise MisuseError(f"changes are proposed by {core.roster.name(self.proposer)}; ask it")
        if waiting := self.waits_for():
            raise MisuseError(f"{self.changes[-1]} is under way and waits for {', '.join(waiting)}; ask again later")
        if joins == (name in core.roster):
            known = ", ".join(core.roster)
            raise MisuseError(f"{name} {'is' if joins else 'is not'} among the processes already: {known}")
        if joins and len(core.roster) >= ROSTER_LIMIT:
            raise MisuseError(f"{len(core.roster)} processes; a live endpoint takes up to {ROSTER_LIMIT}")
        self.accepted = 0
        self._apply(MembershipChange(len(self.changes) + 1, joins, name, given.address, core.me), step)

    def begun(self, given: Propose) -> bool:
        """Return whether this change was applied here."""
        same = [change for change in self.changes if (change.joins, change.name) == (given.joins, given.process)]
        return bool(same) and (not given.joins or same[-1].address == given.address)

    def change(self, found: MembershipChange, step: InputResult) -> None:
        """Apply a change that a peer forwards."""
        if found.number <= len(self.changes):
            if self.changes[found.number - 1] != found:
                raise PeerError(f"change {found.number} is {self.changes[found.number - 1]} here, not {found}")
            return
        if found.number != len(self.changes) + 1 or found.by >= len(self._core.roster):
            raise PeerError(f"change {found.number} came after change {len(self.changes)}")
        if not self._core.member.grows:
            raise PeerError(f"{found}, but protocol {self._core.member.name} needs a fixed membership")
        self._apply(found, step)
        self._core.queue(found.by, accept_head(found.number), 0, b"", step)

    def accept(self, number: int, peer: int) -> None:
        """Record that a peer has accepted a change."""
        if not 0 < number <= len(self.changes) or self.changes[number - 1].by != self._core.me:
            raise PeerError(f"{self._core.roster.name(peer)} accepts change {number}, which was not proposed here")
        if number == len(self.changes):
            self.accepted |= 1 << peer

    def _apply(self, change: MembershipChange, step: InputResult) -> None:
        core = self._core
        if change.joins and change.name not in core.roster:
            core.member.join(change.name)
            core.received.append(0)
            core.outboxes.append(Outbox())
        elif not change.joins:
            if change.name not in core.roster:
                raise PeerError(f"{change.name} leaves, but is not among the processes")
            if core.roster.position(change.name) != core.me:
                core.member.leave(change.name)
        self.changes.append(change)
        core.rows.changed(str(change), step.time)
        new = core.roster.position(change.name) if change.joins else -1
        left = self.left if change.joins else self.left & ~(1 << core.roster.position(change.name))
        for peer in range(len(core.roster)):  # the leaving process gets the change too
            if peer != core.me and not left >> peer & 1:
                for each in self.changes if peer == new else [change]:
                    core.queue(peer, change_head(*each), 0, b"", step)
