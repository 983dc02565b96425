"""Where a fact ends, and why a copy must or need not carry it: KS98 definitions 3 and 4, in one recorded run.

Invariant: a fact is (m, d): "d is a destination of m". Its *fixed points* are FP1, the delivery of m at d, and FP2,
each send to d after m with no other send to d, and no delivery of m at d, between. Fixed points of one fact are
concurrent. Its *endpoints* are on every causal path from m the earliest events that are a fixed point or come after
one. The fact is needed before its endpoints, on the copy to d that is sent at an FP2, and nowhere else.

Everything is computed from happened-before, without any protocol: slow and obvious.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from thence.core.model.events import Event
from thence.core.model.minimum import Fact, Minimum
from thence.errors import MisuseError


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """An event that ends a fact: m delivered at d (FP1), or a message that takes over the duty to wait for m (FP2)."""

    kind: Literal["FP1", "FP2"]
    event: Event


@dataclass(frozen=True, slots=True)
class Why:
    """Whether a copy must carry a fact: the path that brings it there, or the event that made it unnecessary."""

    fact: Fact
    copy: Fact
    """the message and the destination of the copy in question"""
    needed: bool
    path: tuple[Event, ...]
    """a shortest causal path from the send of m to the send of the copy; () if there is none"""
    ended: FixedPoint | None
    """a fixed point before the copy was sent; None if the fact is needed, or never got there"""

    def sentence(self) -> str:
        """Return the reason as one sentence."""
        (message, destination), (carrier, to) = self.fact, self.copy
        what = f'"{destination} is a destination of {message}"'
        where = f"the copy of {carrier} to {to}"
        if self.needed:
            way = "; ".join(_step(event) for event in self.path)
            return (
                f"{where} must carry {what}, by way of: {way}; when {carrier} was sent, nothing in its causal past was "
                f"the delivery of {message} at {destination}, or sent to {destination} after {message}"
            )
        return f"{where} need not carry {what}: {self._reason(message, destination, carrier)}"

    def _reason(self, message: str, destination: str, carrier: str) -> str:
        """Explain why the fact is not needed on the copy."""
        if message == carrier:
            return "a copy names the destinations of its own message anyway"
        if not self.path:
            return f"{message} was not sent causally before {carrier}"
        if self.ended is None:
            return f"the copy of {carrier} to {destination} must"
        if self.ended.kind == "FP1":
            return f"{destination} had delivered {message} in the causal past of {carrier}"
        return f"{self.ended.event.message}, sent to {destination} after {message}, waits for it there"


def never_sent(message: str, sent: list[str]) -> MisuseError:
    """Return the error for a message that a run does not send, with some that it does."""
    known = ", ".join(sent[:5]) + (f" and {len(sent) - 5} more" if len(sent) > 5 else "")
    return MisuseError(f"no message {message!r} was sent in this run; there are {known or 'none'}")


def _step(event: Event) -> str:
    if event.kind == "send":
        return f"{event.process} sent {event.message} to {', '.join(event.destinations or ())}"
    return f"{event.process} delivered {event.message}"


class FixedPoints(Minimum):
    """The facts of one run under one label, and where each of them ends."""

    def fixed_points(self, message: str, destination: str) -> list[FixedPoint]:
        """Return the fixed points of a fact, in the order of the rows."""
        execution, sent, delivery = self.execution, *self._ends(message, destination)
        after = [place for place in self._to[destination] if execution.before(sent, place)]
        stops = [*after, *([] if delivery is None else [delivery])]
        found = [
            (place, FixedPoint("FP2", execution.events[place]))
            for place in after
            if not any(execution.before(sent, stop) and execution.before(stop, place) for stop in stops)
        ]
        if delivery is not None:
            found.append((delivery, FixedPoint("FP1", execution.events[delivery])))
        return [point for _, point in sorted(found, key=lambda each: each[0])]

    def endpoints(self, message: str, destination: str) -> list[Event]:
        """Return the constraint propagation endpoints of a fact: definition 4."""
        execution, (sent, _) = self.execution, self._ends(message, destination)
        fixed = [execution.events.index(point.event) for point in self.fixed_points(message, destination)]
        ended = {
            place
            for place in range(len(execution.events))
            if execution.before(sent, place) and any(place == f or execution.before(f, place) for f in fixed)
        }

        def earliest(place: int) -> bool:
            before = [cause for cause in execution.causes[place] if cause == sent or execution.before(sent, cause)]
            return place in fixed or any(cause not in ended for cause in before)

        return [execution.events[place] for place in sorted(ended) if earliest(place)]

    def why(self, fact: Fact, copy: Fact) -> Why:
        """Return whether a copy (message, destination) must carry a fact, and why."""
        sent, delivery = self._ends(*fact)
        carrier, _ = self._ends(*copy)
        execution, path = self.execution, self._path(sent, carrier)
        needed = self.must_carry(fact, copy)
        ended = None
        if path and not needed:
            for point in self.fixed_points(*fact):
                place = delivery if point.kind == "FP1" else execution.send[point.event.message or ""]
                if place is not None and execution.before(place, carrier):
                    ended = point
        return Why(fact, copy, needed, path, ended)

    def _ends(self, message: str, destination: str) -> tuple[int, int | None]:
        """Return the rows at which a fact begins and is delivered; raise an error if it is not a fact."""
        place = self.execution.send.get(message)
        if place is None:
            raise never_sent(message, list(self.execution.send))
        if destination not in (to := self.execution.events[place].destinations or ()):
            raise MisuseError(f"{message} does not go to {destination!r}; it goes to {', '.join(to) or 'no process'}")
        return place, self._delivery.get((message, destination))

    def _path(self, first: int, last: int) -> tuple[Event, ...]:
        """Return the sends and deliveries of a shortest causal path, both ends included."""
        if not self.execution.before(first, last):
            return ()
        back: dict[int, int] = {last: last}
        layer = [last]
        while first not in back:
            after: list[int] = []
            for place in layer:
                for cause in self.execution.causes[place]:
                    if cause not in back and (cause == first or self.execution.before(first, cause)):
                        back[cause] = place
                        after.append(cause)
            layer = after
        places = [first]
        while places[-1] != last:
            places.append(back[places[-1]])
        return tuple(_turns([self.execution.events[place] for place in places]))


def _turns(events: list[Event]) -> Iterable[Event]:
    """Leave out the rows of a process between the one at which a path comes to it and the one at which it leaves."""
    for place, event in enumerate(events):
        inside = 0 < place < len(events) - 1 and events[place - 1].process == event.process == events[place + 1].process
        if not inside:
            yield event
