"""Snapshots of a core in its journal, and the pruning of inputs that nothing needs any more.

Invariant: the cost of a snapshot depends on what has changed since the last one, not on the size of the inbox. The
inbox has a table of its own: a snapshot adds the deliveries that came since the last one and are not done, and marks
those that are done since. Pruning looks at the inputs that the older snapshot has passed since the last time, and at
`SWEEP` more, in turn, of those that were needed when it last looked.
"""

from __future__ import annotations

from collections.abc import Iterable

from thence.live.core import Core
from thence.live.group import InboxEntry
from thence.live.journal import RELEASE, Journal, Snapshot
from thence.live.state import dump

SWEEP = 4000


class Snapshots:
    """Writes the snapshots of one core."""

    def __init__(self, core: Core, journal: Journal) -> None:
        """Take what recovery gave; the first snapshot compares the inbox with its table."""
        self._core, self._journal = core, journal
        self._upto: int | None = None
        """number of the last delivery that the table knows of; None before the first snapshot"""
        self._done: list[InboxEntry] = []
        self._passed = self._hand = 0
        """inputs that were looked at: those up to the one, and in turn those up to the other"""

    def done(self, deliveries: Iterable[InboxEntry]) -> None:
        """Note that the application is done with deliveries."""
        self._done += deliveries

    def take(self) -> None:
        """Write a snapshot into the open group, and prune."""
        core, journal = self._core, self._journal
        core.forget()
        self._write_inbox(core.number)
        older = journal.snapshot(Snapshot(core.number, core.rows.index, RELEASE, dump(core, inbox=False)))
        if older is not None:
            self._prune(older)

    def _write_inbox(self, number: int) -> None:
        inbox = self._core.inbox
        if self._upto is None:
            known = {each.number: each for each in self._journal.inbox()}
            fresh = [each for each in inbox.values() if each.number not in known]
            done = [each for each in known.values() if each.number not in inbox]
        else:
            fresh = []
            for each in reversed(inbox.values()):
                if each.number <= self._upto:
                    break
                fresh.append(each)
            done = [each for each in self._done if each.number <= self._upto]
        self._journal.keep_inbox(number, fresh, done)
        self._upto, self._done = self._core.deliveries, []

    def _prune(self, older: int) -> None:
        journal = self._journal
        fresh = journal.numbers(self._passed, older)
        again = journal.numbers(self._hand, self._passed, SWEEP)
        self._hand = again[-1] if len(again) == SWEEP else 0
        self._passed = older
        core = self._core
        front = {entry.ref for outbox in core.outboxes for entry in outbox.front}
        front.update(core.deferred.values())
        journal.prune([number for number in (*again, *fresh) if number not in core.kept and number not in front])
