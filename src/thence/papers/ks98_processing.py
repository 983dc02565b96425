"""KS98, section 6.2: how many entries SND and RCV process, in an execution built to fill logs.

Law. Everybody but the first two tells these two, sends a message to each of the others, tells both again, and the first
once more; none of those other messages arrives. The first two then have a log of nearly n² entries each, all of them
still needed, and no two groups of theirs are equal. Counted is how often an entry of log or stamp is looked at, by `ks`
and by `ks-hardware`: when the first sends to all others, and when the second delivers a message of the first to it
alone. Beside them stand the pairs of entries of one sender that the first loop of RCV(4) goes through as printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, SupportsIndex

from thence.model.plain import Row
from thence.model.roster import Roster
from thence.protocols.dependency import Log, entry_count
from thence.protocols.effects import Sent
from thence.protocols.ks import KS
from thence.protocols.ks_hardware import KSHardware

LISTENERS = 0b11


class Watched(tuple[Any, ...]):
    """The entries of one sender, counting how often one of them is looked at."""

    looks = 0

    def __iter__(self) -> Iterator[Any]:
        """Hand out entries one by one, and count them."""
        for entry in tuple.__iter__(self):
            Watched.looks += 1
            yield entry

    def __getitem__(self, at: SupportsIndex | slice) -> Any:
        """Hand out an entry, or several."""
        found = tuple.__getitem__(self, at)
        Watched.looks += len(found) if isinstance(at, slice) else 1
        return found


def full_logs(n: int, kind: type[KS] = KS) -> list[KS]:
    """Return n members of which the first two have heard of messages from everybody else to everybody else."""
    members = [kind(Roster.of(n), place) for place in range(n)]
    for sender in range(2, n):
        copies = [*_send(members[sender], LISTENERS).copies]
        for other in range(2, n):
            if other != sender:
                _send(members[sender], 1 << other)
        copies += _send(members[sender], LISTENERS).copies
        copies += _send(members[sender], 0b01).copies
        for copy in copies:
            members[copy.destination].receive(copy)
    return members


def _send(member: KS, destinations: int) -> Sent:
    sent = member.send(destinations)
    assert isinstance(sent, Sent)
    return sent


def _watched(log: Log) -> Log:
    return {sender: Watched(group) for sender, group in log.items()}


def looks_at_send(n: int, kind: type[KS]) -> int:
    """Count the looks of a send of the first to all others."""
    first = full_logs(n, kind)[0]
    first.log = _watched(first.log)
    Watched.looks = 0
    _send(first, (1 << n) - 2)
    return Watched.looks


def looks_at_delivery(n: int, kind: type[KS]) -> int:
    """Count the looks of the delivery at the second of a message of the first."""
    first, second, *_ = full_logs(n, kind)
    (copy,) = _send(first, 0b10).copies
    second.log = _watched(second.log)
    copy = replace(copy, stamp=_watched(copy.stamp))
    Watched.looks = 0
    second.receive(copy)
    return Watched.looks


def processing(n: int) -> Row:
    """Count what a send and a delivery process, the stamps made for each destination and by hardware multicast."""
    first, second, *_ = full_logs(n)
    (copy,) = _send(first.fork(), 0b10).copies
    pairs = sum(len(group) * len(second.log.get(sender, ())) for sender, group in copy.stamp.items())
    return {
        "processes": n, "log": entry_count(first.log),
        "snd": looks_at_send(n, KS), "rcv": looks_at_delivery(n, KS),
        "hardware snd": looks_at_send(n, KSHardware), "hardware rcv": looks_at_delivery(n, KSHardware),
        "pairs": pairs,
    }  # fmt: skip
