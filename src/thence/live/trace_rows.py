"""Rows of the trace, as a core makes them: the recorder of all traces, with the clock of a live process.

*Invariant.* `order` is a clock in which causes come first: it passes what it hears of, and moves with every row but
that of a failure detector.
`index` and `hops` count the rows of the run and of its hops, whether or not rows are kept, so that they follow from the
inputs alone. A hop's number is that of the link's item.
"""

from __future__ import annotations

from thence.core.model.events import Event, EventKind
from thence.core.model.message import Copy
from thence.core.model.message_names import name_of
from thence.core.protocols import Member
from thence.live.inputs import MessageKey
from thence.tables.files.recorder import EventRows, Recorder, Sizes, about

ROSTER_LIMIT = 1024
"""processes of a run: `order` in the trace is the clock, and among equal clocks the position"""


class TraceRows(Recorder):
    """The rows of one process."""

    def __init__(self, member: Member, run: str, record: bool) -> None:
        """Start before the first row; without `record` rows are counted and not made."""
        super().__init__(run, member.roster)
        self.member, self.record, self.order = member, record, 0

    @property
    def index(self) -> int:
        """Index of the last row of the run."""
        return self.event_rows.indexes[self.member.me]

    @property
    def hops(self) -> int:
        """Index of the last row of the hops."""
        return self.hop_rows.indexes[self.member.me]

    def resume(self, order: int, index: int, hops: int) -> None:
        """Continue the counts after these rows."""
        self.order = order
        self.event_rows.indexes[self.member.me], self.hop_rows.indexes[self.member.me] = index, hops

    def tick(self, heard: int = 0) -> int:
        """Advance the clock, beyond a clock heard from another process."""
        self.order = max(self.order, heard) + 1
        return self.order

    def name(self, key: MessageKey) -> str:
        """Return the id of a message in the trace."""
        label, sender, count = key
        return name_of(self.member.roster.name(sender), count, label)

    def take(self) -> list[Event]:
        """Return the rows since the last call, those of hops last."""
        return self.event_rows.take(self.roster) + self.hop_rows.take(self.roster)

    def crash(self, time: float) -> None:
        """Record that this process starts again after it was ended."""
        self.tick()
        if self._wanted(self.event_rows):
            self.note_process(time, self.member.me, "crash")

    def changed(self, what: str, time: float) -> None:
        """Record that a process joins or leaves, as far as this process is concerned."""
        self.tick()
        if self._wanted(self.event_rows):
            self.note_process(time, self.member.me, "internal", what)

    def sent(self, key: MessageKey, destinations: int, time: float) -> None:
        """Record a send as a row of the trace, if one is written."""
        if self._wanted(self.event_rows):
            self.note_send(time, *key, destinations)

    def came(self, kind: EventKind, key: MessageKey, copy: Copy, stamp: int, time: float) -> None:
        """Record an arrival or a delivery; `stamp` is the length of the stamp on the wire, 0 if it is not known."""
        if self._wanted(self.event_rows):
            member = self.member
            sizes: Sizes = (member.entries(copy), member.facts(copy), stamp) if stamp else (None, None, None)
            self.note_copy(time, member.me, kind, key[0], self.row_of(*key, sizes))

    def hop(self, copy: Copy, number: int, time: float) -> None:
        """Record that a hop was sent here as an item of a link, or, by a negative number, that it was received."""
        if self._wanted(self.hop_rows):
            clear = about(copy, self.roster) if number < 0 else None
            self.hop_rows.flat += (time, copy.label, copy.source, copy.destination, number, clear)

    def trusted(self, mask: int, time: float) -> None:
        """Record the processes trusted from now on; the clock does not advance, since no other process learns of it."""
        if self._wanted(self.hop_rows):
            self.hop_rows.flat += (time, None, self.member.me, mask, 0, None)

    def _wanted(self, rows: EventRows) -> bool:
        """Count a row, and give it its place if it is to be made."""
        self.roster = self.member.roster  # it grows when a process joins
        if self.record:
            rows.places.append(self.order * ROSTER_LIMIT + self.member.me)
        else:
            rows.indexes[self.member.me] += 1
        return self.record
