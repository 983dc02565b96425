"""Rows of the trace, as a core makes them: those of the run, and those of its hops.

*Invariant.* `order` is a clock in which causes come first: it passes what it hears of, and moves with every row.
`index` and `hops` count the rows of the run and of its hops, whether or not rows are kept, so that they follow from the
inputs alone. Messages and hops are named as `thence.core.model.message` says; a hop's number is that of the link's
item.
"""

from __future__ import annotations

from thence.core.model.events import Event, Kind
from thence.core.model.message import Copy
from thence.core.model.message_names import HOPS, hop_name, name_of
from thence.core.protocols import Member
from thence.live.deliveries import InputResult
from thence.live.inputs import MessageKey

ROSTER_LIMIT = 1024
"""processes of a run: `order` in the trace is the clock, and among equal clocks the position"""


class TraceRows:
    """Writes the rows of one process into the steps that make them."""

    def __init__(self, member: Member, run: str, record: bool) -> None:
        """Start before the first row; without `record` rows are counted and not written."""
        self.member, self.run, self.record = member, run, record
        self.order = self.index = self.hops = 0

    def tick(self, heard: int = 0) -> int:
        """Move the clock, past what was heard of another."""
        self.order = max(self.order, heard) + 1
        return self.order

    def name(self, key: MessageKey) -> str:
        """Return the id of a message in the trace."""
        label, sender, count = key
        return name_of(self.member.roster.name(sender), count, label)

    def crash(self, time: float, step: InputResult) -> None:
        """Write that this process starts again after it was ended."""
        self.tick()
        self.index += 1
        self._keep(step, Event(self.run, self._me, self.index, "crash", order=self._place, time=time))

    def changed(self, what: str, time: float, step: InputResult) -> None:
        """Write that a process joins or leaves, as far as this process is concerned."""
        self.tick()
        self.index += 1
        self._keep(step, Event(self.run, self._me, self.index, "internal", what, order=self._place, time=time))

    def sent(self, key: MessageKey, destinations: int, time: float, step: InputResult) -> None:
        """Write a send."""
        self.index += 1
        if self.record:
            to = self.member.roster.members(destinations)
            place, name = self._place, self.name(key)
            self._keep(step, Event(self.run, self._me, self.index, "send", name, to, key[0], order=place, time=time))

    def came(self, kind: Kind, key: MessageKey, copy: Copy, stamp: int, time: float, step: InputResult) -> None:
        """Write an arrival or a delivery; `stamp` is the length of the stamp on the wire, 0 if it is not known."""
        self.index += 1
        if self.record:
            row = Event(
                self.run,
                self._me,
                self.index,
                kind,
                self.name(key),
                label=key[0],
                order=self._place,
                time=time,
                entries=self.member.entries(copy) if stamp else None,
                facts=self.member.facts(copy) if stamp else None,
                bytes=stamp or None,
            )
            self._keep(step, row)

    def hop(self, kind: Kind, copy: Copy, item: int, time: float, step: InputResult) -> None:
        """Write that a hop, an item of a link, was sent or received here."""
        self.hops += 1
        if self.record:
            name = self.member.roster.name
            message = hop_name(name(copy.source), item, name(copy.destination))
            to = (name(copy.destination),) if kind == "send" else None
            run, place = f"{self.run}{HOPS}", self._place
            self._keep(step, Event(run, self._me, self.hops, kind, message, to, copy.label, order=place, time=time))

    @property
    def _me(self) -> str:
        return self.member.roster.name(self.member.me)

    @property
    def _place(self) -> int:
        return self.order * ROSTER_LIMIT + self.member.me

    def _keep(self, step: InputResult, row: Event) -> None:
        if self.record:
            step.events.append(row)
