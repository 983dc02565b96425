"""Who sends what when: a workload is an iterator of requests in order of time, and a hook for answers.

Law. Requests depend on the seed and on the workload's own text, never on the protocol or the network; only answers,
which follow deliveries, come when the protocol lets them.

    WORKLOAD = "poisson"                           each process asks at exponential intervals, FANOUT decides to whom
             | "hotspot" [":" HOT ["," SHARE]]     as poisson; SHARE (0.8) of them go to one of the first HOT (1)
             | "bursts" [":" TALK "," SILENCE]     as poisson, but only while a process talks; mean seconds (1, 3)
             | "groups:" COUNT "x" SIZE            drawn at random; a member sends to the others of one of its groups
             | "groups:" NAMES ("/" NAMES)...      given, as in groups:abc/cd
             | "request-reply" [":" SERVERS ["," THINK]]   the others ask one of the first SERVERS (n/4), which answers
             | "replicated" [":" ITEMS "," COPIES] (n, 3)  a holder updates an item at all other holders

The mean rate of a process is the same under each, answers left out. The last three choose destinations themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from heapq import merge
from itertools import islice
from random import Random
from typing import NamedTuple

from thence.errors import MisuseError
from thence.model.roster import Roster, positions
from thence.sim.fanout import Choose, choose, including, parse_fanout, shapes
from thence.sim.streams import Streams


class Request(NamedTuple):
    """At `time`, the application at `process` asks to send to these destinations."""

    time: float
    process: int
    destinations: int
    label: str | None = None


OWN_DESTINATIONS = ("groups", "request-reply", "replicated")
WORKLOADS = ("poisson", "hotspot", "bursts", *OWN_DESTINATIONS)


class Workload:
    """A compiled workload: `requests()` in order of time, and `answer()` to what is delivered."""

    shapes: frozenset[str] = frozenset()
    """`unicast`, `broadcast`: what holds of every message"""
    answers = False
    groups: tuple[int, ...] = ()
    """the lasting sets it sends to, if any"""

    def __init__(self, roster: Roster, streams: Streams, *, messages: int, rate: float, labels: int) -> None:
        """Keep what every workload has."""
        self.roster, self.size, self.streams = roster, len(roster), streams
        self.messages, self.rate = messages, rate
        self.labels: list[str | None] = [f"l{number}" for number in range(1, labels + 1)] or [None]
        self.senders = list(range(self.size))
        self.choose: Choose

    def requests(self) -> Iterator[Request]:
        """Yield every request of the run: a Poisson process over all senders is one over each."""
        random, labels = self.streams.destinations.random, self.labels
        for time, process in islice(self.moments(), self.messages):
            mask = self.choose(process)
            label = labels[int(random() * len(labels))] if len(labels) > 1 else labels[0]
            yield Request(time, process, mask, label)

    def moments(self) -> Iterator[tuple[float, int]]:
        """Yield when somebody sends, and who."""
        random, log = self.streams.times.random, math.log
        senders, count, scale = self.senders, len(self.senders), -1.0 / (self.rate * len(self.senders))
        time = 0.0
        while True:
            time += scale * log(1.0 - random())
            yield time, senders[int(random() * count)]

    def answer(self, now: float, process: int, sender: int, label: str | None) -> Request | None:
        """Return what a process asks to send because it delivered a message of that sender."""
        return None


class _Bursts(Workload):
    talk = 1.0
    silence = 3.0

    def moments(self) -> Iterator[tuple[float, int]]:
        """Merge the talk spurts of all processes."""
        return merge(*(self._spurts(p, self.streams.of(f"times of {p}")) for p in self.senders))

    def _spurts(self, process: int, rng: Random) -> Iterator[tuple[float, int]]:
        rate = self.rate * (self.talk + self.silence) / self.talk
        now = 0.0
        while True:
            now += rng.expovariate(1.0 / self.silence) if self.silence else 0.0
            end = now + rng.expovariate(1.0 / self.talk)
            while (now := now + rng.expovariate(rate)) < end:
                yield now, process
            now = end


class _RequestReply(Workload):
    answers = True
    shapes = frozenset({"unicast"})
    think = 0.0

    def answer(self, now: float, process: int, sender: int, label: str | None) -> Request | None:
        """Let a server answer under the label of the request, after a while."""
        if process >= self.senders[0]:
            return None
        pause = self.streams.replies.expovariate(1.0 / self.think) if self.think else 0.0
        return Request(now + pause, process, 1 << sender, label)


def compile_workload(
    text: str,
    fanout: str | None,
    roster: Roster,
    streams: Streams,
    *,
    messages: int,
    rate: float,
    to_self: bool = False,
    labels: int = 0,
    groups: tuple[int, ...] = (),
    reach: tuple[int, ...] = (),
) -> Workload:
    """Return a workload, or say what is wrong with the texts.

    With `groups`, disjoint ones that a protocol knows, messages address whole groups, and a fan-out counts groups. With
    `reach`, whom each process can send to, a fan-out counts neighbours.
    """
    name, _, rest = text.partition(":")
    if name not in WORKLOADS:
        raise MisuseError(f"no workload {name!r}; there are {', '.join(WORKLOADS)}")
    if name in OWN_DESTINATIONS and fanout is not None:
        raise MisuseError(f"workload {name} chooses destinations itself; leave out fan-out {fanout}")
    kind = {"bursts": _Bursts, "request-reply": _RequestReply}.get(name, Workload)
    made = kind(roster, streams, messages=messages, rate=rate, labels=labels)
    if groups:
        _whole_groups(made, name, fanout or "uniform", groups)
    elif reach and name == "poisson":
        _among_neighbours(made, fanout or "uniform", reach)
    elif name == "groups":
        _groups(made, rest, to_self)
    elif name == "replicated":
        _replicated(made, rest)
    elif isinstance(made, _RequestReply):
        _request_reply(made, rest)
    else:
        size, rng = len(roster), streams.destinations
        number = parse_fanout(fanout or "uniform", size, to_self=to_self)
        made.shapes = shapes(number, size, to_self=to_self)
        made.choose = choose(number, size, rng, to_self=to_self)
        if name == "hotspot":
            hot, share = _numbers(rest, text, (1.0, 0.8))
            if not 1 <= hot <= size or not 0 <= share <= 1:
                raise MisuseError(f"workload {text!r}: HOT from 1 to {size} and SHARE from 0 to 1 are accepted")
            if number != size - 1 + to_self:
                made.choose = including(list(range(int(hot))), share, number, size, rng, to_self=to_self)
        elif isinstance(made, _Bursts):
            made.talk, made.silence = _numbers(rest, text, (1.0, 3.0))
            if made.talk <= 0:
                raise MisuseError(f"workload {text!r}: TALK must be above 0")
        elif rest:
            raise MisuseError(f"workload {text!r}: {name} takes no arguments")
    return made


def _numbers(text: str, whole: str, defaults: tuple[float, ...]) -> list[float]:
    try:
        given = [float(part) for part in text.split(",")] if text else []
    except ValueError:
        raise MisuseError(f"workload {whole!r} holds something that is no number") from None
    if len(given) > len(defaults) or not all(math.isfinite(g) and g >= 0 for g in given):
        raise MisuseError(f"workload {whole!r}: at most {len(defaults)} numbers, none negative, are accepted")
    return [*given, *defaults[len(given) :]]


def _groups(made: Workload, text: str, to_self: bool) -> None:
    count, cross, size = text.partition("x")
    if cross and count.isdecimal() and size.isdecimal():
        if not 1 <= int(size) <= made.size or int(count) < 1:
            raise MisuseError(f"groups:{text}: at least 1 group of 1 to {made.size} processes is accepted")
        masks = [_draw(made, int(size)) for _ in range(int(count))]
    elif text:
        parts = (part.split(",") if "," in part else list(part) for part in text.split("/"))
        masks = [made.roster.mask(name.strip() for name in names if name.strip()) for names in parts]
    else:
        raise MisuseError("workload groups names none; groups:4x3 or groups:abc/cd is accepted")
    sets = [[g if to_self else g & ~(1 << p) for g in masks if g >> p & 1] for p in range(made.size)]
    _from_sets(made, [[mask for mask in own if mask] for own in sets], masks, f"groups:{text}")


def _replicated(made: Workload, text: str) -> None:
    items, copies = (int(n) for n in _numbers(text, f"replicated:{text}", (made.size, min(3, made.size))))
    if items < 1 or not 2 <= copies <= made.size:
        raise MisuseError(f"replicated:{text}: ITEMS from 1 and COPIES from 2 to {made.size} are accepted")
    masks = [_draw(made, copies) for _ in range(items)]
    sets = [[item & ~(1 << p) for item in masks if item >> p & 1] for p in range(made.size)]
    _from_sets(made, sets, masks, f"replicated:{text}")


def _whole_groups(made: Workload, name: str, fanout: str, groups: tuple[int, ...]) -> None:
    if name != "poisson":
        raise MisuseError(f"workload {name} does not address whole groups; poisson does")
    made.groups = groups
    pick = choose(parse_fanout(fanout, len(groups), to_self=True), len(groups), made.streams.destinations, to_self=True)
    made.choose = lambda sender: sum(groups[number] for number in positions(pick(sender)))


def _among_neighbours(made: Workload, fanout: str, reach: tuple[int, ...]) -> None:
    """Draw destinations among those that a process can send to; a broadcast is to all of them."""
    near = [[1 << d for d in positions(mask & ~(1 << p))] for p, mask in enumerate(reach)]
    number = parse_fanout(fanout, made.size)
    rng = made.streams.destinations
    made.senders = [process for process, own in enumerate(near) if own]
    if not made.senders:
        raise MisuseError("nobody has a neighbour to send to; see the protocol's option separators")

    def choose_near(sender: int) -> int:
        own = near[sender]
        count = rng.randint(1, len(own)) if number == "uniform" else min(int(number), len(own))
        return sum(rng.sample(own, count))

    made.choose = choose_near
    made.shapes = frozenset({"unicast"}) if number == 1 else frozenset()


def _from_sets(made: Workload, sets: list[list[int]], masks: list[int], text: str) -> None:
    made.groups = tuple(dict.fromkeys(masks))
    made.senders = [process for process, own in enumerate(sets) if own]
    if not made.senders:
        raise MisuseError(f"workload {text}: nobody has anybody to send to")
    random = made.streams.destinations.random
    made.choose = lambda sender: sets[sender][int(random() * len(sets[sender]))]
    if all(mask.bit_count() == 1 for own in sets for mask in own):
        made.shapes = frozenset({"unicast"})


def _draw(made: Workload, count: int) -> int:
    return sum(made.streams.layout.sample([1 << p for p in positions(made.roster.everyone)], count))


def _request_reply(made: _RequestReply, text: str) -> None:
    servers, made.think = _numbers(text, f"request-reply:{text}", (max(1, made.size // 4), 0.0))
    count = int(servers)
    if not 1 <= count < made.size:
        raise MisuseError(f"request-reply:{text}: SERVERS from 1 to {made.size - 1} is accepted")
    made.senders = list(range(count, made.size))
    made.messages = (made.messages + 1) // 2  # the other half are answers
    random = made.streams.destinations.random
    made.choose = lambda sender: 1 << int(random() * count)
