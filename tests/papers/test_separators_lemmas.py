"""Rodrigues and Veríssimo, appendix A: theorems 1, 2 and 8 and lemmas 1 to 12, about its rules line by line.

The rules are those of the appendix on sets of uids, with no compression but R9: what `ech` and `ech-r9` are held to
elsewhere is not looked at here. Two words are added. Lemmas 4 and 7 are about messages that are addressed to p: by R5
an earlier one to somebody else "is in" too. And R9 asks of the *other* members of S whether they were told, as the
sentence before it says; by the letter of A.5 it never applies, for nobody's carbon copy ever names its owner (errata
33).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import pytest

from thence.lab.topology.separators import Separator

SEEDS = range(12)
NAMES = tuple("abcde")


@dataclass(frozen=True, order=True)
class Uid:
    """A message: sender, count, address."""

    sender: str
    count: int
    address: frozenset[str] = field(compare=False)


@dataclass
class Message:
    """A message with its history, and by definition the messages that precede it."""

    uid: Uid
    history: frozenset[Uid]
    past: frozenset[Uid]


@dataclass
class Process:
    """One process under the rules of the appendix; `compressed` is R5, a separator turns on R9."""

    name: str
    compressed: bool
    separator: Separator | None = None
    literal: bool = False
    count: int = 0
    history: set[Uid] = field(default_factory=set)
    delivery: set[Uid] = field(default_factory=set)
    carbon: dict[Uid, set[str]] = field(default_factory=dict)
    known: set[Uid] = field(default_factory=set)
    """what precedes the next message, by definition"""
    delivered: set[Uid] = field(default_factory=set)
    filtered: int = 0

    def send(self, address: frozenset[str]) -> Message:
        self.count += 1
        uid = Uid(self.name, self.count, address)
        left_out = {each for each in self.history if self._omits(each, address)}
        self.filtered += len(left_out)
        message = Message(uid, frozenset(self.history - left_out), frozenset(self.known))  # R2, R9
        for each in self.history:  # R6.2
            self.carbon[each] |= address
        self.history.add(uid)  # R4
        self.carbon[uid] = set()
        self.known.add(uid)
        return message

    def _omits(self, element: Uid, address: frozenset[str]) -> bool:
        cut = self.separator
        if cut is None or self.name not in cut.members:
            return False
        told = self.carbon[element] | (set() if self.literal else {self.name})
        return address <= cut.forward and element.address <= cut.backward and cut.members <= told

    def is_in(self, uid: Uid) -> bool:
        if not self.compressed:
            return uid in self.delivery
        return any(other.sender == uid.sender and uid.count <= other.count for other in self.delivery)  # R5

    def ready(self, message: Message) -> bool:
        return all(self.is_in(each) for each in message.history if self.name in each.address)  # R3

    def deliver(self, message: Message) -> None:
        if self.compressed:
            self.delivery = {each for each in self.delivery if each.sender != message.uid.sender}  # R5
        self.delivery.add(message.uid)  # R4
        for each in (*message.history, message.uid):
            self.history.add(each)
            self.carbon.setdefault(each, set())  # R6.3 of A.5
        self.delivered.add(message.uid)
        self.known |= {message.uid, *message.past}


@dataclass
class Run:
    """What happened: every message, and after each event its process and the message it was about."""

    processes: dict[str, Process]
    messages: dict[Uid, Message] = field(default_factory=dict)
    held: int = 0
    early: int = 0

    def steps(self, seed: int, near: dict[str, list[str]]) -> Iterator[tuple[str, Process, Message]]:
        """Send and deliver at random, quick copies before slow ones; yield each event as it has happened."""
        rng = Random(f"rules {seed}")
        flight: list[tuple[bool, str, Message]] = []
        waiting: list[tuple[str, Message]] = []
        left, last = 40, rng.choice(sorted(near))
        while left or flight:
            if left and (not any(quick for quick, *_ in flight) or rng.random() < 0.4):
                left -= 1
                here = self.processes[last if rng.random() < 0.6 else rng.choice(sorted(near))]
                to = frozenset(
                    rng.sample(near[here.name], 1 if rng.random() < 0.6 else rng.randint(1, len(near[here.name])))
                )
                message = here.send(to)
                self.messages[message.uid] = message
                flight += [(rng.random() < 0.7, name, message) for name in sorted(to)]
                yield "send", here, message
            else:
                lane = [item for item in flight if item[0]] or flight
                item = rng.choice(lane)
                flight.remove(item)
                waiting.append(item[1:])
                last = item[1]
                while ready := [(name, m) for name, m in waiting if self.processes[name].ready(m)]:
                    name, message = ready[0]
                    waiting.remove((name, message))
                    here = self.processes[name]
                    missing = [m for m in message.past if name in m.address and m not in here.delivered]
                    self.early += bool(missing)
                    here.deliver(message)
                    yield "deliver", here, message
        self.held = len(waiting)


def anywhere(compressed: bool) -> tuple[Run, dict[str, list[str]]]:
    run = Run({name: Process(name, compressed) for name in NAMES})
    return run, {name: [other for other in NAMES if other != name] for name in NAMES}


@pytest.mark.parametrize("compressed", [False, True], ids=["R1 to R4", "R1 to R5"])
@pytest.mark.parametrize("seed", SEEDS)
def test_theorems_1_and_2_and_lemmas_1_to_6(seed: int, compressed: bool) -> None:
    run, near = anywhere(compressed)
    for _, here, message in run.steps(seed, near):
        _delivery_histories(run, here)
        assert all(each in message.past for each in message.history)  # lemmas 2, 5
    assert (run.early, run.held) == (0, 0)  # theorems 1, 2: safety, liveness


def _delivery_histories(run: Run, here: Process) -> None:
    for uid in run.messages:
        if here.name in uid.address:
            assert not here.is_in(uid) or uid in here.delivered  # lemmas 1, 4, 7
    assert all(here.is_in(uid) for uid in here.delivered)  # lemmas 3, 6, 9


def test_with_r5_an_earlier_message_to_others_is_in_too() -> None:
    """So lemma 4 holds of what is addressed to p, and of nothing else."""
    a, b = Process("a", True), Process("b", True)
    other, mine = a.send(frozenset("c")), a.send(frozenset("b"))
    b.deliver(mine)
    assert b.is_in(other.uid)
    assert other.uid not in b.delivered


def separated(seed: int, *, literal: bool = False) -> tuple[Run, dict[str, list[str]], Separator]:
    """Return one or two members of S between up to three processes on either side, who speak to neighbours alone."""
    rng = Random(f"sides {seed}")
    sides = [
        [f"{kind}{place}" for place in range(rng.randint(1, most))] for kind, most in (("s", 2), ("f", 3), ("b", 3))
    ]
    cut = Separator(*map(frozenset, sides))
    near: dict[str, list[str]] = {}
    for name in (each for side in sides for each in side):
        reach = cut.members | (cut.forward if name not in cut.backward else set())
        reach |= cut.backward if name not in cut.forward else set()
        near[name] = sorted(reach - {name})
    return Run({name: Process(name, True, cut, literal) for name in near}), near, cut


def cited(uid: Uid, message: Message, cut: Separator, messages: dict[Uid, Message]) -> bool:
    """Definition 4, for the members of S other than the sender, who has what it cites."""
    if uid in message.history:
        return True
    if not (uid.address <= cut.backward and message.uid.address <= cut.forward):
        return False
    told = [each for each in message.history if uid in messages[each].history]
    return all(any(x in each.address for each in told) for x in cut.members - {message.uid.sender})


@pytest.mark.parametrize("seed", SEEDS)
def test_theorem_8_and_lemmas_7_to_12(seed: int) -> None:
    run, near, cut = separated(seed)
    for kind, here, message in run.steps(seed, near):
        _delivery_histories(run, here)
        assert all(each in message.past for each in message.history)  # lemma 8
        _lemma_10(run, here, cut)
        if kind == "send" and here.name in cut.members:
            for uid in here.history - {message.uid}:
                assert cited(uid, message, cut, run.messages)  # lemma 11
        if kind == "deliver" and here.name in cut.members:
            for uid in message.past:
                assert not cited(uid, message, cut, run.messages) or uid in here.history  # lemma 12
    assert (run.early, run.held) == (0, 0)  # theorem 8


def _lemma_10(run: Run, here: Process, cut: Separator) -> None:
    """Whoever was told of m was sent a message that has it: of members of S, for what goes to F may leave it out."""
    for uid, told in here.carbon.items():
        for name in told & cut.members:
            own = [run.messages[each] for each in here.history if name in each.address]
            assert any(uid in message.history for message in own)


def test_r9_leaves_something_out_in_these_runs() -> None:
    filtered = 0
    for seed in SEEDS:
        run, near, _ = separated(seed)
        assert sum(1 for _ in run.steps(seed, near))
        filtered += sum(process.filtered for process in run.processes.values())
    assert filtered > 50


def test_erratum_33_lemma_10_as_printed_overlooks_r9() -> None:
    """Of a process of F: the message that is said to have told it of m left m out."""
    cut = Separator(frozenset("s"), frozenset("f"), frozenset("b"))
    b, s = Process("b", True), Process("s", True, cut)
    about_b = s.send(frozenset("b"))
    to_f = s.send(frozenset("f"))
    assert about_b.uid not in to_f.history
    assert s.carbon[about_b.uid] == {"f"}
    assert not any(about_b.uid in m.history for m in (about_b, to_f) if "f" in m.uid.address)
    assert b.history == set()


def test_erratum_33_by_the_letter_of_a5_r9_never_applies() -> None:
    """S is a part of C_p(n), and p is in S; but by R6.2 of A.5 only whom p writes to enters C_p."""
    for seed in SEEDS:
        run, near, _ = separated(seed, literal=True)
        assert sum(1 for _ in run.steps(seed, near))
        assert sum(process.filtered for process in run.processes.values()) == 0
