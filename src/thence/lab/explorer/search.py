"""Visits every distinguishable execution of a setting.

Invariant: the reduced search visits, for every execution of the setting, an execution with the same local
histories: the same steps in the same order at each process. Both are judged alike,
because every property here reads local histories and the outcome at rest.

Reduction 1, order. A *silent* step hands nothing to the network and asks for no send: only its own process
can notice it. It commutes with every step at another process (`independent`). So it can be moved later, to
just before the next step of its own process that is not silent, or to the end of the execution. The search
makes only such executions: a silent step must be followed by a step that is not independent of it, or belong
to the *ending*, where all steps are silent and processes take turns in order of position.

Reduction 2, endings. Where no reception ever emits, no process crashes and nothing is lost, the ending of one
process can neither notice nor change that of another: each is searched alone and remembered by what it
depends on, and the endings of a system are their product. That no reception emits is checked at each one
made; the first that does starts the search over without this reduction. (Before the first emitting reception
of an execution all receptions are silent, so some ending contains it, and it is made.)

Reduction 3, names. Systems that differ by a renaming of processes are one (`key`).

Reduction 4, copies that are spent, if asked for (`drop_spent`). A copy that can never change or cause anything where it
goes (`Member.spent`: an OK of what is delivered and secured there) is taken out of flight at once, and not received. To
receive it, or to lose it, is a step that changes nothing else, so it can be moved to any later place and left out:
members, pasts and systems at rest are the same. Executions are then counted without those steps.

The naive search does none of this: every step of every process in every state. Tests hold the two equal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from itertools import product
from math import prod
from time import monotonic
from typing import TypedDict, Unpack

from thence.lab.explorer import properties as props
from thence.lab.explorer.canonical import Rest, SystemKeys
from thence.lab.explorer.coverage import Coverage, Failure
from thence.lab.explorer.judge import Problem
from thence.lab.explorer.judge_memory import Perm
from thence.lab.explorer.moves import Moves
from thence.lab.explorer.setting import Setting, Start, Step
from thence.lab.explorer.system import Move, System

Independence = Callable[[Step, Step], bool]
CLOCK_EVERY = 256


def independent(silent: Step, other: Step) -> bool:
    """Return whether a silent step and one that could follow it lead to the same system in either order.

    They do iff they happen at different processes. The silent step changes its own member, takes a copy
    addressed to its own process out of flight and marks it delivered; the other does that for another
    process, and may add copies, which neither disables the silent step nor, since channels are per pair,
    changes what is first in its channel.
    """
    return silent.process != other.process


class Options(TypedDict, total=False):
    """Options of `Explorer` beside the setting."""

    properties: frozenset[str] | None
    reduce: bool
    first: bool
    collect: bool
    time_limit: float | None
    independence: Independence
    drop_spent: bool
    progress: Callable[[Coverage], None] | None


class _Stop(Exception):
    """The exploration stops early."""


class _Emitted(Exception):
    """A reception emitted; reduction 2 does not apply."""


class Explorer:
    """One exploration; `run` it once."""

    def __init__(
        self,
        setting: Setting,
        *,
        properties: frozenset[str] | None = None,
        reduce: bool = True,
        first: bool = True,
        collect: bool = False,
        time_limit: float | None = None,
        independence: Independence = independent,
        drop_spent: bool = False,
        progress: Callable[[Coverage], None] | None = None,
    ) -> None:
        """Take the setting; `first` stops at the first failure, `collect` keeps the systems at rest."""
        self.setting = setting
        self.properties = properties or promised(setting)
        self.reduce, self.first, self.collect = reduce, first, collect
        self.independent, self.drop_spent, self.progress = independence, drop_spent, progress
        self.time_limit = time_limit
        self.reactive = setting.crashes > 0 or setting.links > 0
        self._begin()

    def _begin(self) -> None:
        self.setting.check_size()
        self.moves = Moves(self.setting, self.properties, drop_spent=self.drop_spent)
        self.names = SystemKeys(self.moves)
        self.coverage = Coverage(self.setting, tuple(sorted(self.properties)), self.reduce)
        self.seen: dict[Hashable, int] = {}
        self.endings: dict[Hashable, tuple[int, frozenset[Rest]]] = {}
        self.path: list[Step] = []
        self.start = Start()

    def run(self) -> Coverage:
        """Explore until everything is seen, a failure is found, or the time is over."""
        started = monotonic()
        self.deadline = None if self.time_limit is None else started + self.time_limit
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, 20_000))
        try:
            while True:
                try:
                    self._roots()
                    break
                except _Emitted:
                    self.reactive = True
                    self._begin()
        finally:
            sys.setrecursionlimit(limit)
        self.coverage.seconds = monotonic() - started
        self.coverage.reactive = self.reactive
        return self.coverage

    def _roots(self) -> None:
        try:
            for root in self.moves.roots():
                self.start = Start(root.faulty, root.trust)
                visit = self._visit if self.reduce else self._naive
                self.coverage.executions += visit(root, None)
        except _Stop as stop:
            self.coverage.complete, self.coverage.stopped = False, str(stop)

    # -- the reduced search ----------------------------------------------------------------------------------------

    def _visit(self, system: System, silent: Step | None) -> int:
        key = self.names.key(system, silent)
        found = self.seen.get(key)
        if found is not None:
            return found
        self._count()
        executions = 0
        if silent is None:
            executions += self._ending(system)
        for process in range(self.moves.n):
            if silent is not None and silent.process != process and self.independent is independent:
                continue
            for step in self._steps(system, process):
                if silent is not None and self.independent(silent, step):
                    continue
                move = self._take(system, step)
                if move is not None:
                    executions += self._visit(move.system, None if move.emitted else step)
                self.path.pop()
        self.seen[key] = executions
        return executions

    def _steps(self, system: System, process: int) -> list[Step]:
        if self.reactive or system.left:
            return self.moves.steps(system, process)
        return []  # no process can emit any more: all remaining steps are endings

    def _take(self, system: System, step: Step) -> Move | None:
        """Take a step and note it on the path; None if it broke a property."""
        move = self.moves.apply(system, step)
        self.path.append(step)
        if step.kind == "receive" and move.emitted and not self.reactive and self.reduce:
            raise _Emitted
        if move.problem is not None:
            self._fail(move.problem)
            return None
        return move

    def _ending(self, system: System) -> int:
        if not self.moves.settled(system):
            return 0
        if self.reactive or self.setting.loss:
            return self._ending_by_turns(system, 0)
        counts, rests = [], []
        for process in range(self.moves.n):
            count, nodes = self._ending_alone(system, process)
            counts.append(count)
            rests.append(nodes)
        if self.collect and all(counts):
            self._collect_product(rests, system.left)
        return prod(counts)

    def _ending_alone(self, system: System, process: int) -> tuple[int, frozenset[Rest]]:
        key = self.names.local(system, process)
        found = self.endings.get(key)
        if found is not None:
            return found
        self._count()
        executions, rests = 0, set()
        steps = self.moves.arrivals(system, process)
        if not steps:
            problem = self.moves.at_rest(system, process)
            if problem is not None:
                self._fail(problem, self._others(system, process))
            else:
                executions, rests = 1, {self._rest(system, process)}
        for step in steps:
            move = self._take(system, step)
            if move is not None:
                count, more = self._ending_alone(move.system, process)
                executions += count
                rests |= more if self.collect else set()
            self.path.pop()
        result = executions, frozenset(rests if self.collect else ())
        self.endings[key] = result
        return result

    def _others(self, system: System, process: int) -> list[Step]:
        """Return an ending of all processes but one, which has ended."""
        steps = []
        for other in range(self.moves.n):
            while arrivals := self.moves.arrivals(system, other):
                steps.append(arrivals[0])
                system = self.moves.apply(system, arrivals[0]).system
        return steps

    def _ending_by_turns(self, system: System, process: int) -> int:
        while process < self.moves.n and not self.moves.arrivals(system, process):
            process += 1
        if process == self.moves.n:
            return self._at_rest(system)
        key = (self.names.plain(system), process)
        found = self.seen.get(key)
        if found is not None:
            return found
        self._count()
        executions = 0
        for step in self.moves.arrivals(system, process):
            move = self._take(system, step)
            if move is not None and not move.emitted:
                executions += self._ending_by_turns(move.system, process)
            self.path.pop()
        self.seen[key] = executions
        return executions

    # -- the naive search ------------------------------------------------------------------------------------------

    def _naive(self, system: System, _: Step | None) -> int:
        key = self.names.plain(system)
        found = self.seen.get(key)
        if found is not None:
            return found
        self._count()
        executions = 0
        if not system.flight and self.moves.settled(system):
            executions += self._at_rest(system)
        for process in range(self.moves.n):
            for step in self.moves.steps(system, process):
                move = self._take(system, step)
                if move is not None:
                    executions += self._naive(move.system, None)
                self.path.pop()
        self.seen[key] = executions
        return executions

    # -- results ---------------------------------------------------------------------------------------------------

    def _at_rest(self, system: System) -> int:
        problem = self.moves.stuck(system)
        if problem is not None:
            self._fail(problem)
            return 0
        if self.collect:
            self._collect_product([frozenset([self._rest(system, p)]) for p in range(self.moves.n)], system.left)
        return 1

    def _rest(self, system: System, process: int) -> Rest:
        return system.nodes[process], system.past.lost & self.moves.space.about[process]

    def _collect_product(self, rests: list[frozenset[Rest]], left: int) -> None:
        for combo in product(*rests):
            self.coverage.terminals.add((self.names.orbit(combo), left))

    def _fail(self, problem: Problem, rest: Sequence[Step] = ()) -> None:
        space = self.moves.space

        def named(perm: Perm) -> tuple[str | int, ...]:
            slots = [-1 if slot < 0 else space.renamed_slot(slot, perm) for slot in problem[2:]]
            return (problem.property, perm[problem.process], *slots)

        kind = min(named(perm) for perm in self.names.perms)
        if kind in self.coverage.kinds:
            return
        self.coverage.kinds.add(kind)
        self.coverage.failures.append(Failure(self.setting, problem, self.start, (*self.path, *rest)))
        if self.first:
            raise _Stop("failure found")

    def _count(self) -> None:
        coverage = self.coverage
        coverage.states += 1
        coverage.depth = max(coverage.depth, len(self.path))
        if coverage.states % CLOCK_EVERY == 0:
            if self.deadline is not None and monotonic() > self.deadline:
                raise _Stop("time ran out")
            if self.progress is not None:
                self.progress(coverage)


def promised(setting: Setting) -> frozenset[str]:
    """Return the properties that the protocol of a setting is held to."""
    fault = None if setting.variant is None else setting.variant.fault
    return props.default(setting.entry, crashes=setting.crashes, fault=fault)


def explore(setting: Setting, **options: Unpack[Options]) -> Coverage:
    """Explore a setting; see `Explorer` for the options."""
    return Explorer(setting, **options).run()
