"""Workloads: iterators of send requests in order of time, with a hook for answers.

Invariant: requests depend on the seed and on the workload's own text, never on the protocol or the network; only
answers, which follow deliveries, come when the protocol lets them.

    WORKLOAD = "poisson"                           each process asks at exponential intervals, FANOUT decides to whom
             | "hotspot" [":" HOT ["," SHARE]]     as poisson; SHARE (0.8) of them go to one of the first HOT (1)
             | "bursts" [":" TALK "," SILENCE]     as poisson, but only while a process talks; mean seconds (1, 3)
             | "groups:" COUNT "x" SIZE            drawn at random; a member sends to the others of one of its groups
             | "groups:" NAMES ("/" NAMES)...      given, as in groups:abc/cd
             | "request-reply" [":" SERVERS ["," THINK]]   the others ask one of the first SERVERS (n/4), which answers
             | "replicated" [":" ITEMS "," COPIES] (n, 3)  a holder updates an item at all other holders

The mean rate of a process is the same under each, answers left out. The last three choose destinations themselves. On a
topology each process draws among its neighbours, and a process without neighbours does not send; sets are given, not
drawn.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from heapq import merge
from itertools import islice
from random import Random
from typing import NamedTuple

from thence.core.model.roster import Roster, positions
from thence.errors import MisuseError
from thence.lab.simulator.delays import LONGEST
from thence.lab.simulator.fanout import (
    NAMED,
    Choose,
    choose_among,
    destination_chooser,
    including,
    parse_fanout,
    shapes,
)
from thence.lab.simulator.random_streams import Streams


class Request(NamedTuple):
    """At `time`, the application at `process` asks to send to these destinations."""

    time: float
    process: int
    destinations: int
    label: str | None = None


OWN_DESTINATIONS = ("groups", "request-reply", "replicated")
WORKLOADS = ("poisson", "hotspot", "bursts", *OWN_DESTINATIONS)
MOST_SETS = 100_000
"""groups and items that are drawn"""
LEAST_IN_A_BURST = 0.001
"""requests, on the mean"""


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
        self.labels = labels
        self.senders = list(range(self.size))
        self.near: tuple[int, ...] = ()
        """whom each process can send to"""
        self.choose: Choose

    def requests(self) -> Iterator[Request]:
        """Yield every request of the run: a Poisson process over all senders is one over each."""
        random, labels = self.streams.destinations.random, self.labels
        for time, process in islice(self.moments(), self.messages):
            mask = self.choose(process)
            number = int(random() * labels) if labels > 1 else 0
            yield Request(time, process, mask, f"l{number + 1}" if labels else None)

    def moments(self) -> Iterator[tuple[float, int]]:
        """Yield when a process sends, and who."""
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
    servers = 0
    answers_left = 0

    def answer(self, now: float, process: int, sender: int, label: str | None) -> Request | None:
        """Let a server answer under the label of the request, after a while."""
        if process >= self.servers or not self.answers_left:
            return None
        self.answers_left -= 1
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
    """Return a workload; raise an error for invalid texts.

    With `groups`, disjoint ones that a protocol knows, messages address whole groups, and a fan-out counts groups. With
    `reach`, whom each process can send to, no process sends to any other, and a fan-out counts neighbours.
    """
    name, _, rest = text.partition(":")
    if name not in WORKLOADS:
        raise MisuseError(f"no workload {name!r}; there are {', '.join(WORKLOADS)}")
    if name in OWN_DESTINATIONS and fanout is not None:
        raise MisuseError(f"workload {name} chooses destinations itself; leave out fan-out {fanout}")
    if name == "poisson" and rest:
        raise MisuseError(f"workload {text!r}: {name} takes no arguments")
    if name in ("request-reply", "replicated") and len(roster) < 2:
        raise MisuseError(f"workload {name} with {len(roster)} process; 2 or more are accepted")
    kind = {"bursts": _Bursts, "request-reply": _RequestReply}.get(name, Workload)
    made = kind(roster, streams, messages=messages, rate=rate, labels=labels)
    made.near = tuple(
        mask | 1 << p if to_self else mask & ~(1 << p) for p, mask in enumerate(reach or (roster.everyone,) * made.size)
    )
    if groups:
        _whole_groups(made, name, fanout or "uniform", groups, to_self)
    elif name == "groups":
        _groups(made, rest, bool(reach))
    elif name == "replicated":
        _replicated(made, rest, text, bool(reach))
    elif isinstance(made, _RequestReply):
        _request_reply(made, rest, text, to_self)
    else:
        _by_fanout(made, fanout or "uniform", bool(reach), to_self)
        if name == "hotspot":
            _hotspot(made, rest, text)
        elif isinstance(made, _Bursts):
            _bursts(made, rest, text)
    return made


def _by_fanout(made: Workload, fanout: str, topology: bool, to_self: bool) -> None:
    size, rng = made.size, made.streams.destinations
    number = parse_fanout(fanout, size, to_self=to_self)
    if not topology:
        made.shapes = shapes(number, size, to_self=to_self)
        made.choose = destination_chooser(number, size, rng, to_self=to_self)
        return
    made.senders = [process for process, mask in enumerate(made.near) if mask]
    if not made.senders:
        raise MisuseError(
            "no process has a neighbour to send to; separators that leave neighbours are accepted, as in d:abc|efg"
        )
    fewest = min(made.senders, key=lambda process: made.near[process].bit_count())
    most = made.near[fewest].bit_count()
    if fanout not in NAMED and int(number) > most:
        raise MisuseError(
            f"fan-out {fanout} is larger than the {most} that {made.roster.name(fewest)} can send to; "
            f"uniform, unicast, broadcast or a number from 1 to {most} is accepted"
        )
    made.choose = choose_among(made.near, fanout if fanout == "broadcast" else number, rng)
    made.shapes = frozenset({"unicast"}) if number == 1 else frozenset()


def _hotspot(made: Workload, rest: str, text: str) -> None:
    hot, share = _numbers(rest, text, (1.0, 0.8))
    if hot not in range(1, made.size + 1) or not 0 <= share <= 1:
        raise MisuseError(f"workload {text!r}: HOT from 1 to {made.size} and SHARE from 0 to 1 are accepted")
    first = (1 << int(hot)) - 1
    if not any(made.near[sender] & first for sender in made.senders):
        raise MisuseError(
            f"workload {text!r}: no process can send to one of the first {int(hot)}; a larger HOT is accepted"
        )
    made.choose = including(range(int(hot)), share, made.choose, made.near, made.streams.destinations)


def _bursts(made: _Bursts, rest: str, text: str) -> None:
    talk, silence = made.talk, made.silence = _numbers(rest, text, (1.0, 3.0))
    if talk <= 0 or silence > talk * 1e6:
        raise MisuseError(f"workload {text!r}: TALK above 0, and SILENCE up to a million times TALK, are accepted")
    if (each := made.rate * (talk + silence)) < LEAST_IN_A_BURST:
        raise MisuseError(
            f"workload {text!r} at rate {made.rate} makes {each:.3g} requests in a burst; "
            f"from {LEAST_IN_A_BURST} are accepted: longer bursts, or a higher rate"
        )


def _numbers(text: str, whole: str, defaults: tuple[float, ...]) -> list[float]:
    try:
        given = [float(part) for part in text.split(",")] if text else []
    except ValueError:
        raise MisuseError(f"workload {whole!r} holds something that is not a number") from None
    if len(given) > len(defaults) or not all(0 <= g <= LONGEST for g in given):
        raise MisuseError(f"workload {whole!r}: at most {len(defaults)} numbers, from 0 to {LONGEST:g}, are accepted")
    return [*given, *defaults[len(given) :]]


def _groups(made: Workload, text: str, topology: bool) -> None:
    found = re.fullmatch(r"([0-9]{1,99})x([0-9]{1,99})", text)
    if found:
        _not_drawn(f"groups:{text}", topology)
        count, size = int(found[1]), int(found[2])
        if not 1 <= size <= made.size or not 1 <= count <= MOST_SETS:
            raise MisuseError(f"groups:{text}: 1 to {MOST_SETS} groups of 1 to {made.size} processes are accepted")
        masks = [_draw(made, size) for _ in range(count)]
    elif text:
        parts = (part.split(",") if "," in part else list(part) for part in text.split("/"))
        masks = [made.roster.mask(name.strip() for name in names if name.strip()) for names in parts]
    else:
        raise MisuseError("workload groups names none; groups:4x3 or groups:abc/cd is accepted")
    _from_sets(made, masks, f"groups:{text}")


def _replicated(made: Workload, rest: str, text: str, topology: bool) -> None:
    _not_drawn("replicated", topology)
    items, copies = _numbers(rest, text, (made.size, min(3, made.size)))
    if items not in range(1, MOST_SETS + 1) or copies not in range(2, made.size + 1):
        raise MisuseError(
            f"workload {text!r}: ITEMS from 1 to {MOST_SETS} and COPIES from 2 to {made.size} are accepted"
        )
    _from_sets(made, [_draw(made, int(copies)) for _ in range(int(items))], text)


def _not_drawn(text: str, topology: bool) -> None:
    """Refuse sets that are drawn from all processes where not all are neighbours."""
    if topology:
        raise MisuseError(
            f"workload {text} draws sets of processes that separators may divide; groups:abc/cd, which names sets of "
            "neighbours, poisson, hotspot, bursts and request-reply are accepted"
        )


def _whole_groups(made: Workload, name: str, fanout: str, groups: tuple[int, ...], to_self: bool) -> None:
    if name != "poisson":
        raise MisuseError(f"workload {name} does not address whole groups; poisson does")
    if to_self:
        raise MisuseError("messages address whole groups, the sender's own among them; leave out --self")
    made.groups = groups
    number = parse_fanout(fanout, len(groups), to_self=True, what="groups")
    pick = destination_chooser(number, len(groups), made.streams.destinations, to_self=True)
    made.choose = lambda sender: sum(groups[number] for number in positions(pick(sender)))


def _from_sets(made: Workload, masks: list[int], text: str) -> None:
    """Let every process send to the others of one of its sets; to itself as well, where it may."""
    own_sets: list[list[int]] = []
    for process, near in enumerate(made.near):
        bit = 1 << process
        joined = [mask for mask in masks if mask & bit]
        for mask in joined:
            if beyond := mask & ~near & ~bit:
                names, here = made.roster.members, made.roster.name(process)
                raise MisuseError(
                    f"workload {text}: {here} cannot send to {', '.join(names(beyond))} past a separator; "
                    f"groups of neighbours are accepted, those of {here}: {', '.join(names(near & ~bit)) or 'none'}"
                )
        own_sets.append([mask & near for mask in joined if mask & near])
    made.groups = tuple(dict.fromkeys(masks))
    made.senders = [process for process, own in enumerate(own_sets) if own]
    if not made.senders:
        raise MisuseError(f"workload {text}: no process has another to send to; a set of two, or --self, is accepted")
    random = made.streams.destinations.random
    made.choose = lambda sender: own_sets[sender][int(random() * len(own_sets[sender]))]
    if all(mask.bit_count() == 1 for own in own_sets for mask in own):
        made.shapes = frozenset({"unicast"})


def _draw(made: Workload, count: int) -> int:
    return sum(made.streams.layout.sample([1 << p for p in positions(made.roster.everyone)], count))


def _request_reply(made: _RequestReply, rest: str, text: str, to_self: bool) -> None:
    if to_self:
        raise MisuseError("workload request-reply: no process asks itself; leave out --self")
    servers, made.think = _numbers(rest, text, (max(1, made.size // 4), 0.0))
    if servers not in range(1, made.size):
        raise MisuseError(f"workload {text!r}: SERVERS from 1 to {made.size - 1} is accepted")
    made.servers = int(servers)
    asked = [list(positions(mask & (1 << made.servers) - 1)) for mask in made.near]
    made.senders = [process for process in range(made.servers, made.size) if asked[process]]
    if not made.senders:
        raise MisuseError(f"workload {text!r}: no process can send to a server; more SERVERS are accepted")
    made.messages, made.answers_left = (made.messages + 1) // 2, made.messages // 2
    random = made.streams.destinations.random
    made.choose = lambda sender: 1 << asked[sender][int(random() * len(asked[sender]))]
