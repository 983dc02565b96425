"""KS98, section 6.2: how many entries SND and RCV process, in an execution built to fill logs.

Invariant: every process but the first two sends to these two, sends a message to each of the others, sends to both
again, and to the first once more; none of those other messages arrives. The first two then have a log of nearly n²
entries each, all of them still needed, and no two groups of theirs are equal. Counted are the entries of log and
stamp that operations go over, in `ks` and in `ks-hardware`: when the first sends to all others, and when the second
delivers a message of the first to it alone. Beside them stand the pairs of entries of one sender that the first loop
of RCV(4) goes through as printed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from thence.core.model.plain import Row
from thence.core.model.roster import Roster
from thence.core.protocols.effects import Sent
from thence.core.protocols.ks import KS
from thence.core.protocols.ks_hardware import KSHardware
from thence.core.wire.dependency_log_cy import Log

LISTENERS = 0b11


class Watched:
    """A log whose operations count the entries they go over: each goes over those of its operands once."""

    looks = 0

    def __init__(self, log: Log) -> None:
        """Take the log that does the work."""
        self.log = log

    def _look(self, *others: Log) -> Log:
        Watched.looks += sum(log.entries for log in (self.log, *others))
        return self.log

    def needs(self, me: int) -> list[tuple[int, int]]:
        """Return what is on its way to a position."""
        return self._look().needs(me)

    def beyond(self, me: int, sent: int, sender: int, count: int) -> bool:
        """Return whether it names what was not sent; a check of ours, no part of SND or RCV."""
        return bool(self.log.beyond(me, sent, sender, count))

    def union(self) -> int:
        """Return the union of all destinations, counted as one look at the log."""
        return int(self._look().union())

    def without(self, mask: int) -> Watched:
        """Return the log without these destinations, counted as one look at it."""
        return Watched(self._look().without(mask))

    def appended(self, sender: int, count: int, mask: int) -> Watched:
        """Return the log with one entry more, counted as one look at it."""
        return Watched(self._look().appended(sender, count, mask))

    def merged(self, other: Watched, ended: int = 0) -> Watched:
        """Return the log merged with another, counted as one look at both."""
        return Watched(self._look(other.log).merged(other.log, ended))


def full_logs(n: int, kind: type[KS] = KS) -> list[KS]:
    """Return n members of which the first two have heard of messages from every other process to every other."""
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


def looks_at_send(n: int, kind: type[KS]) -> int:
    """Count the looks of a send of the first to all others."""
    first = full_logs(n, kind)[0]
    first.log = cast(Log, Watched(first.log))
    Watched.looks = 0
    _send(first, (1 << n) - 2)
    return Watched.looks


def looks_at_delivery(n: int, kind: type[KS]) -> int:
    """Count the looks of the delivery at the second of a message of the first."""
    first, second, *_ = full_logs(n, kind)
    (copy,) = _send(first, 0b10).copies
    second.log = cast(Log, Watched(second.log))
    copy = replace(copy, stamp=Watched(copy.stamp))
    Watched.looks = 0
    second.receive(copy)
    return Watched.looks


def processing(n: int) -> Row:
    """Count what a send and a delivery process, the stamps made for each destination and by hardware multicast."""
    first, second, *_ = full_logs(n)
    (copy,) = _send(first.fork(), 0b10).copies
    pairs = sum(len(group) * len(second.log.get(sender, ())) for sender, group in copy.stamp.items())
    return {
        "processes": n, "log": first.log.entries,
        "snd": looks_at_send(n, KS), "rcv": looks_at_delivery(n, KS),
        "hardware snd": looks_at_send(n, KSHardware), "hardware rcv": looks_at_delivery(n, KSHardware),
        "pairs": pairs,
    }  # fmt: skip
