"""Directed search, for failures too deep to enumerate: long causal chains past one message that is slow.

Invariant: a hunt is a function of the setting and the seed. Whatever breaks causal order needs a message that
arrives late and a causal chain that overtakes it. So each walk makes one message slow to one destination,
delivers everything else soon, and lets the process that has just delivered something send next. A hunt that finds
nothing proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from thence.lab.explorer.coverage import Failure
from thence.lab.explorer.moves import Moves
from thence.lab.explorer.search import promised
from thence.lab.explorer.setting import Setting, Start, Step
from thence.lab.explorer.system import System


@dataclass
class Hunt:
    """The result of a hunt: walks, steps and the failure, if one was found."""

    walks: int
    steps: int
    failure: Failure | None


def hunt(setting: Setting, *, seed: int, walks: int, properties: frozenset[str] | None = None) -> Hunt:
    """Walk until something breaks, or this many times."""
    judged = properties or promised(setting)
    rng, taken = Random(seed), 0
    for walk in range(1, walks + 1):
        moves = Moves(setting, judged)
        found, path = _walk(moves, rng)
        taken += len(path)
        if found is not None:
            return Hunt(walk, taken, found)
    return Hunt(walks, taken, None)


def _walk(moves: Moves, rng: Random) -> tuple[Failure | None, list[Step]]:
    system = next(iter(moves.roots()))
    path: list[Step] = []
    slow = rng.randint(1, moves.setting.messages), rng.randrange(moves.n)
    speaker = rng.randrange(moves.n)
    while True:
        step = _choose(moves, system, rng, path, slow, speaker)
        if step is None:
            return None, path
        move = moves.apply(system, step)
        path.append(step)
        if move.problem is not None:
            start = Start(system.faulty, system.trust)
            return Failure(moves.setting, move.problem, start, tuple(path)), path
        system = move.system
        if step.kind == "receive":
            speaker = step.process


def _choose(
    moves: Moves, system: System, rng: Random, path: list[Step], slow: tuple[int, int], speaker: int
) -> Step | None:
    """Prefer a quick arrival, then a send by the process that delivered last, then the slow ones."""
    arrivals = [step for p in range(moves.n) for step in moves.arrivals(system, p)]
    quick = [step for step in arrivals if not _slow(step, path, slow)]
    if quick and (rng.random() < 0.8 or not system.left):
        return rng.choice(quick)
    if system.left:
        sender = speaker if rng.random() < 0.8 else rng.randrange(moves.n)
        sends = [step for step in moves.steps(system, sender) if step.kind == "send"]
        if sends:
            return rng.choice(sends)
    return rng.choice(arrivals) if arrivals else None


def _slow(step: Step, path: list[Step], slow: tuple[int, int]) -> bool:
    """Return whether a step receives the slow message (the nth that was sent) at its slow destination."""
    nth, destination = slow
    if step.copy is None or step.process != destination:
        return False
    sends = [taken for taken in path if taken.kind == "send"]
    if len(sends) < nth:
        return False
    sender = sends[nth - 1].process
    number = sum(taken.process == sender for taken in sends[:nth])
    return (step.copy.sender, step.copy.number) == (sender, number)
