"""Minimal causes of each copy, computed afterwards from a trace or from explicit causes.

Invariant: Let m be sent to d. Its causes at d are the messages to d whose send happened before that of m; of these only
the last are kept, those with no other between them and m. A cause that is not sent to d is not among them, so it cannot
block d; the causes behind it are, so none is lost. Waiting for the last ones is waiting for all.

Two inputs: the events of one run (sends, and deliveries that carried causality on), or messages that name their causes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from thence.core.model.events import Event
from thence.core.model.message import Copy
from thence.core.model.roster import Roster
from thence.core.protocols.registry import lookup
from thence.core.protocols.wire import encode

LastMessages = dict[str, dict[str, int]]
"""{destination: {sender: its last message to there}}; inner dicts are shared and never changed"""
SWEEP = 4096
STAMPED_BY = "ks"
"""The protocol whose wire format the stamps have."""


class Stamped(NamedTuple):
    """One copy with its causes; `stamp` only where a roster was given."""

    run: str
    destination: str
    message: str
    sender: str
    label: str | None
    depends_on: tuple[str, ...]
    stamp: bytes | None


class _RunOrder:
    """One causal order of one run: what each process knows, and what each message carries."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = defaultdict(int)
        self.before: dict[str, LastMessages] = defaultdict(dict)
        self.clock: dict[str, dict[str, int]] = defaultdict(dict)
        self.carried: dict[str, tuple[LastMessages, dict[str, int], int]] = {}
        self.past: dict[tuple[str, int], dict[str, int]] = {}
        self.names: dict[tuple[str, int], str] = {}

    def send(self, event: Event) -> tuple[int, dict[str, list[tuple[str, int]]]]:
        """Return the number of a message and, for each destination, its last causes there."""
        who, destinations = event.process, event.destinations or ()
        self.counts[who] += 1
        count = self.counts[who]
        before = self.before[who]
        causes = {d: self._last(before.get(d, {})) for d in destinations}
        self.clock[who] = self.clock[who] | {who: count}
        newest = {who: count}
        self.before[who] = before | dict.fromkeys(destinations, newest)
        assert event.message is not None
        self.carried[event.message] = (self.before[who], self.clock[who], len(destinations))
        self.past[who, count] = self.clock[who]
        self.names[who, count] = event.message
        if len(self.past) % SWEEP == 0:
            self._sweep()
        return count, causes

    def _last(self, causes: dict[str, int]) -> list[tuple[str, int]]:
        pairs = list(causes.items())
        return [(s, c) for s, c in pairs if not any(t != s and self.past[t, k].get(s, 0) >= c for t, k in pairs)]

    def deliver(self, event: Event) -> None:
        """Let a process learn what a message carries."""
        assert event.message is not None
        found = self.carried.get(event.message)
        if found is None:
            return
        carried, clock, left = found
        if left == 1:
            del self.carried[event.message]
        else:
            self.carried[event.message] = (carried, clock, left - 1)
        here = event.process
        before = self.before[here].copy()
        for d, pairs in carried.items():
            before[d] = _later(before.get(d), pairs)
        self.before[here] = before
        self.clock[here] = _later(self.clock[here], clock)

    def _sweep(self) -> None:
        """Forget the pasts of messages that no later message can name."""
        known = [*self.before.values(), *(before for before, _, _ in self.carried.values())]
        live = {pair for before in known for pairs in before.values() for pair in pairs.items()}
        self.past = {pair: past for pair, past in self.past.items() if pair in live}
        self.names = {pair: name for pair, name in self.names.items() if pair in live}


def _later(known: dict[str, int] | None, carried: dict[str, int]) -> dict[str, int]:
    if known is None or known is carried:
        return carried
    return known | {s: c for s, c in carried.items() if known.get(s, 0) < c}


def stamp_run(events: Iterable[Event], roster: Roster | None = None) -> Iterator[Stamped]:
    """Stamp every copy of one run; events come in an order in which causes come first."""
    orders: dict[str | None, _RunOrder] = defaultdict(_RunOrder)
    for event in events:
        if event.message is None or event.kind not in ("send", "deliver"):
            continue
        order = orders[event.label]
        if event.kind == "deliver":
            order.deliver(event)
            continue
        count, causes = order.send(event)
        for d, pairs in causes.items():
            names = tuple(order.names[pair] for pair in pairs)
            stamp = None if roster is None else _encoded(event, count, d, pairs, roster)
            yield Stamped(event.run, d, event.message, event.process, event.label, names, stamp)


def _encoded(event: Event, count: int, destination: str, causes: list[tuple[str, int]], roster: Roster) -> bytes:
    me = roster.position(destination)
    log: dict[int, tuple[tuple[int, int], ...]] = {roster.position(s): ((c, 1 << me),) for s, c in causes}
    who = roster.position(event.process)
    copy = Copy(who, count, roster.mask(event.destinations or ()), who, me, log, event.label)
    return encode(lookup(STAMPED_BY).protocol, copy, roster)


def from_causes(
    destinations: Mapping[str, Iterable[str]], depends_on: Mapping[str, Iterable[str]]
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield (message, destination, its last causes there) from explicit causes among messages.

    An id that stands in no row is kept for every destination: it may be on its way.
    """
    goes_to = {message: frozenset(names) for message, names in destinations.items()}
    direct = {message: tuple(dict.fromkeys(depends_on.get(message) or ())) for message in goes_to}
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for message, names in goes_to.items():
        for d in sorted(names):
            yield message, d, _reduced(message, d, goes_to, direct, found)


def _reduced(
    message: str,
    d: str,
    goes_to: Mapping[str, frozenset[str]],
    direct: Mapping[str, tuple[str, ...]],
    found: dict[tuple[str, str], tuple[str, ...]],
) -> tuple[str, ...]:
    if (message, d) in found:
        return found[message, d]
    reached = _through(message, d, goes_to, direct)
    kept = tuple(c for c in reached if not any(c in _behind(o, d, goes_to, direct, c) for o in reached if o != c))
    found[message, d] = kept
    return kept


def _through(
    message: str, d: str, goes_to: Mapping[str, frozenset[str]], direct: Mapping[str, tuple[str, ...]]
) -> list[str]:
    """Return the nearest causes that d gets, looking through those it does not."""
    reached: dict[str, None] = {}
    seen = {message}
    stack = list(reversed(direct[message]))
    while stack:
        cause = stack.pop()
        if cause in seen:
            continue
        seen.add(cause)
        if cause not in goes_to or d in goes_to[cause]:
            reached[cause] = None
        else:
            stack.extend(reversed(direct[cause]))
    return list(reached)


def _behind(
    message: str, d: str, goes_to: Mapping[str, frozenset[str]], direct: Mapping[str, tuple[str, ...]], goal: str
) -> set[str]:
    """Return direct and indirect causes of a message, until a goal is among them."""
    seen: set[str] = set()
    stack = list(direct.get(message, ()))
    while stack and goal not in seen:
        cause = stack.pop()
        if cause not in seen:
            seen.add(cause)
            stack.extend(direct.get(cause, ()))
    return seen
