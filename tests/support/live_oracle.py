"""Judges a run of live processes by what their applications noted, and by nothing that `thence` says of itself.

Every application appends lines to a file of its own; texts of its own name the messages, and travel in the payloads:

    start                       a new life of this process
    begin UID DESTINATIONS      UID is about to be sent to these processes, separated by commas
    within UID KEY              UID is sent by KEY, one attempt at a transaction
    sent UID                    the send of UID has returned
    committed KEY               the block of that transaction has been left without an error
    handed UID MESSAGE AGAIN    a message was handed over; AGAIN is 1 if it may have been before

Happened-before is drawn from these lines alone: what was handed to a process before it began to send comes before that
message, and so does what it had sent, or had sent in an earlier life and arrived anywhere. It is less than the order
that the endpoints keep (a delivery comes before its hand-over), so what it calls early is early.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Effects = Mapping[str, Mapping[str, int]]
"""for each process, how many rows each transaction that committed has left"""


@dataclass
class Findings:
    """What is wrong, and how much was looked at."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    early: list[str] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)
    """transactions of which a part happened"""
    messages: int = 0
    hand_overs: int = 0
    pairs: int = 0
    """pairs of a message and one that happened before it, for the same process"""

    @property
    def wrong(self) -> list[str]:
        """All sentences."""
        return [*self.lost, *self.doubled, *self.early, *self.torn]


class Oracle:
    """Reads the lines of all processes, each in its order, sends before their hand-overs."""

    def __init__(self, lines: Mapping[str, Sequence[str]], effects: Effects) -> None:
        self.lines = {name: [line.split() for line in found] for name, found in lines.items()}
        self.effects = effects
        self.found = Findings()
        self.bits: dict[str, int] = {}
        """each message as one bit of a number; sets of messages are such numbers"""
        self.uids: list[str] = []
        self.past: dict[str, int] = {}
        self.to = dict.fromkeys(lines, 0)
        self.handed = dict.fromkeys(lines, 0)
        self.known = dict.fromkeys(lines, 0)
        """what happened at a process, or before something that happened there"""
        self.begun = {name: list[str]() for name in lines}
        self.transactions: dict[str, list[str]] = {}
        self.confirmed: set[str] = set()
        self.destinations: dict[str, list[str]] = {}
        seen = (words[1] for found in self.lines.values() for words in found if words[0] == "handed")
        self.arrived = set(seen)

    def judge(self) -> Findings:
        at = dict.fromkeys(self.lines, 0)
        moved = True
        while moved:
            moved = False
            for name, lines in self.lines.items():
                while at[name] < len(lines) and self._take(name, lines[at[name]]):
                    at[name] += 1
                    moved = True
        for name, lines in self.lines.items():
            if at[name] < len(lines):
                self.found.doubled.append(f"{name} was handed {lines[at[name]][1]}, which no process began to send")
        self._lost()
        self._torn()
        self.found.messages = len(self.arrived)
        return self.found

    def _take(self, name: str, words: list[str]) -> bool:
        what = words[0]
        if what == "start":
            for uid in self.begun[name]:
                if uid in self.arrived:
                    self.known[name] |= self.bits[uid]
        elif what == "begin":
            self._begin(name, words[1], words[2].split(","))
        elif what == "within":
            self.transactions.setdefault(words[2], []).append(words[1])
        elif what == "sent":
            self.confirmed.add(words[1])
            self.known[name] |= self.bits[words[1]]
        elif what == "committed":
            for uid in self.transactions.get(words[1], ()):
                self.confirmed.add(uid)
                self.known[name] |= self.bits[uid]
        elif words[1] not in self.bits:
            return False
        else:
            self._handed(name, *words[1:])
        return True

    def _begin(self, name: str, uid: str, destinations: list[str]) -> None:
        assert uid not in self.bits, f"{uid} was begun twice"
        self.bits[uid] = bit = 1 << len(self.uids)
        self.uids.append(uid)
        self.past[uid] = self.known[name]
        self.begun[name].append(uid)
        self.destinations[uid] = destinations
        for each in destinations:
            self.to[each] |= bit

    def _handed(self, name: str, uid: str, message: str, again: str) -> None:
        bit = self.bits[uid]
        self.found.hand_overs += 1
        if self.handed[name] & bit:
            if again == "0":
                self.found.doubled.append(f"{name} was handed {uid} ({message}) twice without a word")
            return
        if not self.to[name] & bit:
            self.found.doubled.append(f"{name} was handed {uid} ({message}), which is for {self.destinations[uid]}")
        before = self.past[uid] & self.to[name]
        self.found.pairs += before.bit_count()
        if missing := before & ~self.handed[name]:
            first = self.uids[(missing & -missing).bit_length() - 1]
            self.found.early.append(f"{name} was handed {uid} ({message}) before {first}")
        self.handed[name] |= bit
        self.known[name] |= self.past[uid] | bit

    def _lost(self) -> None:
        for uid, destinations in self.destinations.items():
            if uid in self.confirmed or uid in self.arrived:
                for name in destinations:
                    if not self.handed[name] & self.bits[uid]:
                        self.found.lost.append(f"{name} was never handed {uid}")

    def _torn(self) -> None:
        committed = {key for rows in self.effects.values() for key in rows}
        for name, rows in self.effects.items():
            self.found.doubled += [f"{name}: {key} left {n} rows" for key, n in rows.items() if n != 1]
        for key, uids in self.transactions.items():
            arrived = sum(uid in self.arrived for uid in uids)
            expected = len(uids) if key in committed else 0
            if arrived != expected:
                self.found.torn.append(f"of transaction {key}, {arrived} sends of {expected} happened")
