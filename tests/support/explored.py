"""The states of ks-ft that the explorer's moves reach, without reductions and without what its judge remembers."""

from __future__ import annotations

from thence.lab.explorer.moves import Moves
from thence.lab.explorer.setting import Setting
from thence.lab.explorer.system import System


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
