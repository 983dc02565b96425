"""KS98 section 4.3 line by line on sets of tuples, with the one correction of errata 2: the slow twin of `ks`."""

from __future__ import annotations

from collections.abc import Iterable

Entry = tuple[int, int, frozenset[int]]
"""(sender, clock, Dests)"""


def purge(entries: set[Entry]) -> set[Entry]:
    """PURGE_NULL_ENTRIES."""
    return {(s, t, d) for s, t, d in entries if d or not any(s2 == s and t < t2 for s2, t2, _ in entries)}


class LiteralKS:
    """One process."""

    def __init__(self, me: int, size: int) -> None:
        self.me, self.clock, self.log = me, 0, set[Entry]()
        self.sr = [0] * size

    def snd(self, dests: Iterable[int]) -> dict[int, set[Entry]]:
        """SND: return O_M for each destination."""
        dests = frozenset(dests)
        self.clock += 1  # 1
        stamps = {}
        for d in dests:  # 2
            stamps[d] = purge({(s, t, (o - dests) | {d}) if d in o else (s, t, o - dests) for s, t, o in self.log})
        self.log = {(s, t, o - dests) for s, t, o in self.log}  # 3
        self.log |= {(self.me, self.clock, dests)}  # 4
        self.log = purge(self.log)  # 5
        return stamps

    def deliverable(self, stamp: set[Entry]) -> bool:
        """RCV(1)."""
        return all(t <= self.sr[m] for m, t, dests in stamp if self.me in dests)

    def rcv(self, k: int, tk: int, dests: Iterable[int], stamp: set[Entry]) -> None:
        """RCV(2) to RCV(5)."""
        self.sr[k] = tk  # 2
        o = {(m, t, d - {self.me}) for m, t, d in stamp | {(k, tk, frozenset(dests))}}  # 3
        mine, theirs = {(s, t) for s, t, _ in self.log}, {(m, t) for m, t, _ in o}
        drop_o = {(m, t) for m, t in theirs for s, t2 in mine if s == m and t < t2 and (s, t) not in mine}  # 4
        drop_l = {(s, t2) for m, t in theirs for s, t2 in mine if s == m and t2 < t and (m, t2) not in theirs}
        o = {e for e in o if e[:2] not in drop_o}
        log = {e for e in self.log if e[:2] not in drop_l}
        table = {e[:2]: e[2] for e in o}
        log = {(s, t, d & table.pop((s, t)) if (s, t) in table else d) for s, t, d in log}
        self.log = purge(log | {(m, t, d) for (m, t), d in table.items()})  # 4, 5
