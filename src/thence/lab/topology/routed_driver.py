"""A clock for routed messages: processes send at random, hops take a random time.

Invariant: what happens next is the event with the smallest (time, counter). Each process asks to send in a Poisson
stream of its own rate and picks one of the groups it belongs to; the message goes to the others of that group. Every
copy of every hop takes a newly drawn time, so copies of one link overtake each other. A run depends on its arguments
and seed alone.

This is the small driver of the experiments of chapter 7 and of the tests of routing; `thence.lab.simulator` is the
simulator for everything that is not routed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count, islice
from random import Random

from thence.core.model.message import Copy
from thence.errors import MisuseError
from thence.lab.topology.routed import Routed

Delay = Callable[[Random], float]
"""seconds that one copy takes for one hop"""
Watch = Callable[[Routed, str, float], None]
"""called after each step with the process at which it happened and the time"""
Names = tuple[str, ...]


def exponential(mean: float) -> Delay:
    """Return delays that are exponential with this mean."""
    return lambda rng: rng.expovariate(1.0 / mean)


def requests(
    groups: Mapping[str, Sequence[str]], rate: float, rng: Random, paces: Mapping[str, float] | None = None
) -> Iterator[tuple[float, str, Names]]:
    """Yield (time, process, destinations) forever; every process that is in a group sends at that rate.

    `paces` makes some slower: the share of the rate at which a process sends.
    """
    if not rate > 0:
        raise MisuseError(f"rate {rate}; messages per second above 0 are accepted")
    of: dict[str, list[str]] = {}
    for group, members in groups.items():
        if len(set(members)) < 2:
            raise MisuseError(
                f"group {group} holds {', '.join(members) or 'no process'}; a group has at least two members"
            )
        for member in members:
            of.setdefault(member, []).append(group)
    processes, now = sorted(of), 0.0
    while True:
        now += rng.expovariate(rate * len(processes))
        process = rng.choice(processes)
        if paces and rng.random() >= paces.get(process, 1.0):
            continue
        group = rng.choice(of[process])
        yield now, process, tuple(name for name in groups[group] if name != process)


def drive(
    routed: Routed,
    groups: Mapping[str, Sequence[str]],
    seed: int,
    *,
    messages: int,
    rate: float = 10.0,
    delay: Delay | None = None,
    watch: Watch | None = None,
    paces: Mapping[str, float] | None = None,
) -> float:
    """Send that many messages of the application, let everything arrive, and return when the last hop did."""
    travel = delay or exponential(0.05)
    traffic, hops, tick = Random(f"traffic {seed}"), Random(f"hops {seed}"), count().__next__
    asked = islice(requests(groups, rate, traffic, paces), messages)
    heap: list[tuple[float, int, Copy | tuple[str, Names]]] = []

    def ask() -> None:
        for time, process, destinations in islice(asked, 1):
            heappush(heap, (time, tick(), (process, destinations)))

    ask()
    now = 0.0
    while heap:
        now, _, item = heappop(heap)
        if isinstance(item, Copy):
            here, copies = routed.roster.name(item.destination), routed.arrive(item, time=now)
        else:
            here, copies = item[0], routed.send(*item, time=now)
            ask()
        for copy in copies:
            heappush(heap, (now + travel(hops), tick(), copy))
        if watch is not None:
            watch(routed, here, now)
    return now
