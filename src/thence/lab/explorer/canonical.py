"""Canonical keys: two systems have the same key if and only if renaming processes turns one into the other.

Member states, copies and pasts are replaced by small numbers, equal values by equal numbers, so that keys are
short, exact (nothing is hashed away) and can be compared. The key is the least over all renamings that the
setting allows; renamings that cannot be the least are left out by sorting processes by something every
renaming keeps.
"""

from __future__ import annotations

from collections.abc import Hashable

from thence.core.wire.sets import rename_mask
from thence.lab.explorer import judge_memory
from thence.lab.explorer.judge_memory import Perm
from thence.lab.explorer.moves import Moves
from thence.lab.explorer.setting import Step
from thence.lab.explorer.system import UNTOLD, Flying, Node, System

PLACE = 16
"""Bits for the place of a copy in its channel."""
SmallNumbers = tuple[int, ...]
RenamedSystem = tuple[SmallNumbers, SmallNumbers, SmallNumbers]
"""A system under some names: its nodes, what is in flight, and the rest, all as small numbers."""
SystemKey = tuple[RenamedSystem, tuple[int, str]]
"""The least of a system's names, and its last step if that was silent."""
Rest = tuple[Node, int]
"""A process at rest, and the lost facts about it."""
Orbit = frozenset[tuple[tuple[Hashable, int], ...]]


class SystemKeys:
    """Keys of the systems of one setting."""

    def __init__(self, moves: Moves) -> None:
        """Work out which renamings leave the setting as it is."""
        self.moves = moves
        self.perms = moves.setting.symmetries(moves.space.perms())
        self._pasts: dict[Perm, dict[judge_memory.CausalPast, int]] = {}
        self._masks: dict[Perm, dict[tuple[int, ...], int]] = {}

    def key(self, system: System, silent: Step | None) -> SystemKey:
        """Return the key of a system whose last step was this silent one, if any."""
        best: SystemKey | None = None
        for perm in self._candidates(system):
            mark = (-1, "") if silent is None else (perm[silent.process], silent.kind)
            key = (self._named(system, perm), mark)
            if best is None or key < best:
                best = key
        assert best is not None
        return best

    def plain(self, system: System) -> RenamedSystem:
        """Return the key of a system under its own names."""
        return self._named(system, self.moves.identity)

    def local(self, system: System, process: int) -> Hashable:
        """Return everything that decides the future of one process, and its judgement, if no other process emits."""
        moves = self.moves
        inbox = tuple(flying for flying in system.flight if flying.copy.destination == process)
        needed = None if system.needed is None else (system.needed.processes[process], system.needed.messages)
        return (
            process,
            moves.name(system.nodes[process], moves.identity),
            self._flight(inbox, moves.identity),
            judge_memory.local(system.past, moves.space, process),
            needed,
        )

    def orbit(self, rests: tuple[Rest, ...]) -> Orbit:
        """Return the members and lost facts of a system at rest under every renaming, comparable everywhere."""
        found = set()
        for perm in self.perms:
            named: list[tuple[Hashable, int]] = [(None, 0)] * len(rests)
            for p, (node, lost) in enumerate(rests):
                state = None if node.member is None else node.member.state(perm)
                named[perm[p]] = (state, self.moves.space.renamed(lost, perm))
            found.add(tuple(named))
        return frozenset(found)

    def _candidates(self, system: System) -> list[Perm]:
        if len(self.perms) == 1:
            return self.perms
        n = self.moves.n
        inbox, outbox = [0] * n, [0] * n
        for flying in system.flight:
            inbox[flying.copy.destination] += 1
            outbox[flying.copy.source] += 1
        about, past = self.moves.space.about, system.past
        marks = [
            (
                0 if node.member is None else node.member.count,
                inbox[p],
                outbox[p],
                past.known[p].bit_count(),
                (past.held & about[p]).bit_count(),
                system.faulty >> p & 1,
            )
            for p, node in enumerate(system.nodes)
        ]
        ranked = sorted(marks)
        fitting = [perm for perm in self.perms if all(ranked[perm[p]] == marks[p] for p in range(n))]
        return fitting or self.perms

    def _named(self, system: System, perm: Perm) -> RenamedSystem:
        moves = self.moves
        nodes = [0] * moves.n
        for p, node in enumerate(system.nodes):
            nodes[perm[p]] = node.ids.get(perm) or moves.name(node, perm)
        rest: tuple[int, ...] = (system.left, system.drops, system.links, self._past(system.past, perm))
        if system.needed is not None:
            rest += (moves.intern(system.needed.renamed(moves.space, perm)),)
        if moves.crashing:
            rest += (self._faults((system.faulty, system.crashed, *system.trust), perm),)
        if system.told:
            spoken = [0] * moves.n
            for p, times in enumerate(system.told):
                spoken[perm[p]] = times
            rest += tuple(spoken)
        if system.token is not None:
            rest += (moves.intern(self._token(system.token, perm)),)
        return tuple(nodes), self._flight(system.flight, perm), rest

    def _token(self, token: object, perm: Perm) -> Hashable:
        shape = self.moves.cls.tokens
        assert shape is not None, "a protocol that hands a token on says what it looks like"
        return "token", shape.freeze(token, None if perm == self.moves.identity else perm)

    def _past(self, past: judge_memory.CausalPast, perm: Perm) -> int:
        table = self._pasts.setdefault(perm, {})
        number = table.get(past)
        if number is None:
            number = table[past] = self.moves.intern(judge_memory.renamed_past(past, self.moves.space, perm))
        return number

    def _faults(self, masks: tuple[int, ...], perm: Perm) -> int:
        table = self._masks.setdefault(perm, {})
        number = table.get(masks)
        if number is None:
            moved = [mask if mask == UNTOLD else rename_mask(mask, perm) for mask in masks]
            trust = [0] * self.moves.n
            for p, mask in enumerate(moved[2:]):
                trust[perm[p]] = mask
            number = table[masks] = self.moves.intern((*moved[:2], *trust))
        return number

    def _flight(self, flight: tuple[Flying, ...], perm: Perm) -> SmallNumbers:
        name = self.moves.name
        if not self.moves.setting.fifo:
            return tuple(sorted([name(flying, perm) for flying in flight]))
        places: dict[tuple[int, int], int] = {}
        keys = []
        for flying in flight:
            channel = (flying.copy.source, flying.copy.destination)
            places[channel] = places.get(channel, 0) + 1
            keys.append(name(flying, perm) << PLACE | places[channel])
        return tuple(sorted(keys))
