"""KS98, section 6.2: how many entries SND and RCV process, in an execution built to fill logs.

Law. Everybody but the first two tells these two, sends a message to each of the others, tells both again, and the first
once more; none of those other messages arrives. The first two then have a log of nearly n² entries each, all of them
still needed, and no two groups of theirs are equal. Counted are entries: of SND(2) the whole log once for each
destination, as printed; of RCV how often the merge of `ks` looks at one; and the pairs of entries of one sender that
the first loop of RCV(4) goes through as printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, SupportsIndex

from thence.model.plain import Row
from thence.model.roster import Roster
from thence.protocols.dependency import Group, entry_count
from thence.protocols.effects import Sent
from thence.protocols.ks import KS

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


def full_logs(n: int) -> list[KS]:
    """Return n members of which the first two have heard of messages from everybody else to everybody else."""
    members = [KS(Roster.of(n), place) for place in range(n)]
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


def processing(n: int) -> Row:
    """Count what a send of the first to all others processes, and the delivery of its next message at the second."""
    first, second, *_ = full_logs(n)
    log = entry_count(first.log)
    (copy,) = _send(first, 0b10).copies
    groups: dict[int, Group] = second.log
    pairs = sum(len(group) * len(groups.get(sender, ())) for sender, group in copy.stamp.items())
    second.log = {sender: Watched(group) for sender, group in groups.items()}
    stamp = {sender: Watched(group) for sender, group in copy.stamp.items()}
    Watched.looks = 0
    second.receive(replace(copy, stamp=stamp))
    return {"processes": n, "log": log, "snd": (n - 1) * log, "hardware": log, "rcv": Watched.looks, "pairs": pairs}
