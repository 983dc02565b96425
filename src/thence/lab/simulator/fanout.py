"""Destination sets of a workload: their sizes and members.

    FANOUT = "unicast" | "broadcast" | "uniform" | K

`uniform`: the number of destinations is drawn evenly from one to all others (mean n/2), then that many are chosen
evenly. `broadcast` means all others. With `to_self` a process may be among its own destinations: chosen like any other,
and always in a broadcast.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

from thence.core.model.roster import positions
from thence.errors import MisuseError

Choose = Callable[[int], int]
"""sender -> mask of destinations"""

TABLED = 12
"""up to this many possible destinations, all sets of them are listed once and drawn from the list"""

NAMED = ("uniform", "unicast", "broadcast")


def parse_fanout(text: str, size: int, *, to_self: bool = False, what: str = "processes") -> int | str:
    """Return the fixed number of destinations, or `uniform`; raise an error for an invalid text."""
    most = size if to_self else size - 1
    if most < 1:
        raise MisuseError("1 process has no other to send to; take at least 2 processes, or --self")
    if text == "uniform":
        return "uniform"
    if text in NAMED:
        return 1 if text == "unicast" else most
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) < 1:
        raise MisuseError(f"no fan-out {text!r}; uniform, unicast, broadcast or a number from 1 to {most} is accepted")
    if int(text) > most:
        among = f"{size} {what}" if to_self else f"{size - 1} others"
        raise MisuseError(f"fan-out {text} is larger than the {among} a process can send to")
    return int(text)


def destination_chooser(fanout: int | str, size: int, rng: Random, *, to_self: bool = False) -> Choose:
    """Return the choice of destinations for a parsed fan-out."""
    everyone, most = (1 << size) - 1, size if to_self else size - 1
    if fanout == most:
        return lambda sender: everyone if to_self else everyone & ~(1 << sender)
    random = rng.random
    if fanout == 1:
        others = size if to_self else 0  # from this position on, make room for the sender

        def one(sender: int) -> int:
            position = int(random() * most)
            return 1 << position + (position >= max(others, sender))

        return one
    if most <= TABLED:
        return _tabled(fanout, most, rng, to_self=to_self)
    bits, sample = [1 << position for position in range(size)], rng.sample

    def several(sender: int) -> int:
        number = fanout if isinstance(fanout, int) else 1 + int(random() * most)
        if to_self:
            return sum(sample(bits, number))
        chosen, own = sample(bits, number + 1), bits[sender]  # one more, and then not the sender, else not the last
        mask = sum(chosen)
        return mask ^ (own if mask & own else chosen[-1])

    return several


def _tabled(fanout: int | str, most: int, rng: Random, *, to_self: bool) -> Choose:
    """Choose from a table of all sets of each size; where the sender is not among them, make room for its bit."""
    sets: list[list[int]] = [[] for _ in range(most + 1)]
    for mask in range(1 << most):
        sets[mask.bit_count()].append(mask)
    random, fixed = rng.random, fanout if isinstance(fanout, int) else None

    def chosen(sender: int) -> int:
        table = sets[fixed or 1 + int(random() * most)]
        mask = table[int(random() * len(table))]
        low = mask & (1 << sender) - 1
        return mask if to_self else low | (mask ^ low) << 1

    return chosen


def choose_among(near: Sequence[int], fanout: int | str, rng: Random) -> Choose:
    """Return a choice among the processes that each sender can send to; a broadcast is to all of them."""
    bits = [[1 << position for position in positions(mask)] for mask in near]

    def chosen(sender: int) -> int:
        if fanout == "broadcast":
            return near[sender]
        number = fanout if isinstance(fanout, int) else rng.randint(1, len(bits[sender]))
        return sum(rng.sample(bits[sender], number))

    return chosen


def including(hot: Sequence[int], share: float, plain: Choose, near: Sequence[int], rng: Random) -> Choose:
    """Return a choice that, in that share of messages, has one of the hot processes among the destinations."""

    def chosen(sender: int) -> int:
        mask = plain(sender)
        able = [h for h in hot if near[sender] >> h & 1]
        if not able or rng.random() >= share:
            return mask
        bit = 1 << able[int(rng.random() * len(able))]
        if mask & bit:
            return mask
        members = [1 << position for position in positions(mask)]
        return mask & ~members[int(rng.random() * len(members))] | bit

    return chosen


def shapes(fanout: int | str, size: int, *, to_self: bool) -> frozenset[str]:
    """Return which special shapes every message has: `unicast`, `broadcast`, both or neither."""
    most = size if to_self else size - 1
    number = most if fanout == "uniform" and most == 1 else fanout
    found = {"unicast"} if number == 1 else set()
    if number == size - 1 and not to_self:
        found.add("broadcast")
    return frozenset(found)
