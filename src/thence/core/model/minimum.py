"""The necessary information, by definition: KS98 section 3, the propagation constraints.

Invariant: the fact "d is a destination of m" must be known up to, and only up to, the earliest events at which

- PC1: m has been delivered to d, that delivery being the event itself or in its causal past; or
- PC2: some message sent to d causally after m was sent in the causal past.

The FP2 exception: at the send of M' to d where neither held before, the fact travels on the copy to d, and on no other.
"""

from __future__ import annotations

from collections.abc import Iterable

from thence.core.model.events import Event
from thence.core.model.order import Execution, by_label
from thence.errors import MisuseError

Fact = tuple[str, str]
"""(message, destination)"""


class Minimum:
    """The facts that each copy must carry and each dependency log must hold, in one run under one label."""

    def __init__(self, events: Iterable[Event]) -> None:
        """Take usable rows of one run and one label."""
        labels = by_label(events)
        if len(labels) > 1:
            named = ", ".join(map(repr, labels))
            raise MisuseError(
                f"rows of {len(labels)} labels ({named}), each an order of its own; those of one are accepted"
            )
        self.execution = Execution(next(iter(labels.values()), []))
        self._delivery: dict[Fact, int] = {}
        for process, places in self.execution.deliveries.items():
            for place in places:
                self._delivery.setdefault((self.execution.events[place].message or "", process), place)
        self._to: dict[str, list[int]] = {}
        for place in self.execution.send.values():
            for destination in self.execution.events[place].destinations or ():
                self._to.setdefault(destination, []).append(place)
        masks = {d: sum(1 << place for place in places) for d, places in self._to.items()}
        self._sends_to = masks

    def _needed(self, fact: Fact, event: int, *, include: bool) -> bool:
        """Return whether neither constraint has ended the fact at an event; `include` counts the event's own send."""
        execution = self.execution
        message, destination = fact
        sent = execution.send[message]
        past = execution.past[event]
        if not past >> sent & 1:
            return False
        delivery = self._delivery.get(fact)
        if delivery is not None and past >> delivery & 1:  # PC1
            return False
        between = past & self._sends_to[destination] & ~(1 << sent)  # PC2: sends to d in the past ...
        if not include:
            between &= ~(1 << event)
        while between:
            low = between & -between
            if execution.before(sent, low.bit_length() - 1):  # ... that come causally after m
                return False
            between ^= low
        return True

    def facts(self) -> list[Fact]:
        """Return every fact of the run."""
        execution = self.execution
        return [(m, d) for m, place in execution.send.items() for d in execution.events[place].destinations or ()]

    def must_carry(self, fact: Fact, copy: Fact) -> bool:
        """Return whether a copy (message, destination) must carry a fact."""
        message, destination = copy
        event = self.execution.send[message]
        addressed = self.execution.events[event].destinations or ()
        return (
            fact[0] != message
            and (fact[1] == destination or fact[1] not in addressed)
            and self._needed(fact, event, include=False)
        )

    def on_copy(self, message: str, destination: str) -> set[Fact]:
        """Return the facts that the copy of `message` to `destination` must carry."""
        return {fact for fact in self.facts() if self.must_carry(fact, (message, destination))}

    def in_log(self, process: str, index: int) -> set[Fact]:
        """Return the facts that the dependency log of a process must hold right after its row `index`."""
        rows = [p for p in self.execution.rows[process] if self.execution.events[p].index <= index]
        if not rows:
            return set()
        return {fact for fact in self.facts() if self._needed(fact, rows[-1], include=True)}
