"""What the explorer's moves lead to: the states of ks-ft, without what its judge remembers, and random executions."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from thence.core.model.events import Event
from thence.core.model.message_names import HOPS
from thence.lab.explorer.moves import Moves
from thence.lab.explorer.setting import Setting, Start
from thence.lab.explorer.system import System
from thence.lab.explorer.witness import replay


def explored_states(processes: int, crashes: int) -> int:
    """Count what one message to any processes leads to, with crashes and a detector that falls."""
    options = {"counts": False}  # what is kept beyond it changes no step
    setting = Setting("ks-ft", processes, 1, "any", crashes=crashes, detector="falling", options=options)
    moves = Moves(setting, frozenset())

    def key(system: System) -> tuple[object, ...]:
        flight = tuple(sorted(map(id, system.flight)))  # equal copies are one object, and so are equal members
        return tuple(map(id, system.nodes)), flight, system.left, system.faulty, system.crashed, system.trust

    found = {key(root): root for root in moves.roots()}
    left = list(found.values())
    while left:
        system = left.pop()
        for process in range(processes):
            for step in moves.steps(system, process):
                after = moves.apply(system, step).system
                if key(after) not in found:
                    found[key(after)] = after
                    left.append(after)
    return len(found)


def walked(setting: Setting, seed: int) -> list[Event]:
    """Take steps of the explorer by chance until none is left, and replay them."""
    chance, moves = Random(seed), Moves(setting, frozenset())
    system = chance.choice(list(moves.roots()))
    start, steps = Start(system.faulty, system.trust), []
    while possible := [step for process in range(setting.processes) for step in moves.steps(system, process)]:
        steps.append(chance.choice(possible))
        system = moves.apply(system, steps[-1]).system
    done = replay(setting, start, tuple(steps), frozenset())
    runs = {"run": f"walk {seed}", f"run{HOPS}": f"walk {seed}{HOPS}"}
    return [replace(event, run=runs[event.run]) for event in [*done.events, *done.hops]]
