"""The moves of a setting: the possible steps of a system and their results, judged as they happen."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import product

from thence.core.model.faults import least, may_be_lost, nobody_receives, outputs
from thence.core.model.message import MESSAGE, Copy
from thence.core.model.roster import positions
from thence.core.protocols.base import Member
from thence.core.protocols.effects import Answer, Deferred, Deliver, Sent, Transmit
from thence.core.protocols.wire import CopyShape
from thence.lab.explorer import judge_memory
from thence.lab.explorer.judge import Judge, Problem
from thence.lab.explorer.judge_memory import CausalPast, Needed, Perm, Space
from thence.lab.explorer.setting import CopyName, Setting, Start, Step
from thence.lab.explorer.system import UNTOLD, Flying, Move, Node, System


class Moves:
    """The moves of a setting, judged as they are made."""

    def __init__(self, setting: Setting, properties: frozenset[str], *, drop_spent: bool = False) -> None:
        """Prepare tables; `properties` are those that are judged, see `properties.py`; `drop_spent` is reduction 4."""
        self.setting, self.properties, self.drop_spent = setting, properties, drop_spent
        self.n = setting.processes
        self.space = Space(self.n, max(setting.messages, 1))
        self.cls = setting.entry.protocol
        self.shape = CopyShape(self.cls.kinds)
        self.identity: Perm = tuple(range(self.n))
        self.everyone = (1 << self.n) - 1
        self.groups = setting.group_masks()
        self.roster = setting.roster()
        self.judge = Judge(self.space, self.cls, properties)
        self.guarantee = self.judge.guarantee
        self.to = [setting.addressable(p) for p in range(self.n)]
        self.crashing = setting.crashes > 0
        self._names: dict[Hashable, int] = {}
        self._nodes: dict[int, Node] = {}
        self._flying: dict[int, Flying] = {}
        self._local: dict[Hashable, tuple[Node, tuple[Answer, ...]]] = {}
        self._spent: dict[tuple[int, int], bool] = {}
        self.dead = Node(None)

    def roots(self) -> Iterator[System]:
        """Yield the systems before any step: one for each choice of crashing processes and first detector outputs."""
        nodes = tuple(self._node(self.setting.member(p)) for p in range(self.n))
        empty = CausalPast((0,) * self.n)
        needed = Needed(((0, 0),) * self.n) if "exact facts" in self.properties else None
        for faulty in sorted(range(1 << self.n), key=lambda mask: (-mask.bit_count(), mask)):
            if faulty.bit_count() > self.setting.crashes:
                continue
            root = System(nodes, (), self.setting.messages, self.setting.loss, empty, needed, faulty)
            root = root._replace(links=self.setting.links)
            if not self.crashing:
                yield root
            elif self.setting.detector == "falling":
                yield root._replace(trust=(UNTOLD,) * self.n)
            elif self.setting.detector == "any":
                yield root._replace(trust=(UNTOLD,) * self.n, told=(0,) * self.n)
            else:
                outputs = list(least(self.groups, faulty, per_group=self.setting.per_group))
                for trust in product(outputs, repeat=self.n):
                    yield self._told(root, trust)

    def starts(self) -> dict[Start, System]:
        """Return these systems by the choices made in them."""
        return {Start(system.faulty, system.trust): system for system in self.roots()}

    def _told(self, root: System, trust: tuple[int, ...]) -> System:
        nodes = tuple(self._move(node, "trust", output)[0] for node, output in zip(root.nodes, trust, strict=True))
        return root._replace(nodes=nodes, trust=trust)

    # -- possible steps --------------------------------------------------------------------------------------------

    def receivable(self, system: System, process: int) -> list[tuple[CopyName, Flying]]:
        """Return the copies that a process can receive next, equal copies once."""
        found: dict[int, tuple[CopyName, Flying]] = {}
        channels: set[int] = set()
        names: dict[tuple[int, int, int, str], int] = {}
        for flying in system.flight:
            copy = flying.copy
            if copy.destination != process:
                continue
            key = (copy.source, copy.sender, copy.count, copy.kind)
            nth = names.get(key, 0)
            names[key] = nth + 1
            if self.setting.fifo:
                if copy.source in channels:
                    continue
                channels.add(copy.source)
            found.setdefault(self.name(flying, self.identity), (CopyName(*key, nth), flying))
        return list(found.values())

    def steps(self, system: System, process: int) -> list[Step]:
        """Return the steps a process can take."""
        if system.crashed >> process & 1:
            return []
        steps = self.arrivals(system, process)
        if system.left:
            steps += [Step("send", process, to) for to in self.to[process]]
        return steps + self.openings(system, process) + self.faults(system, process)

    def openings(self, system: System, process: int) -> list[Step]:
        """Return the links that a process can open."""
        if not system.links:
            return []
        others = positions(self.everyone & ~(1 << process))
        member = system.nodes[process].member
        have = getattr(member, "links", 0) | sum(1 << target for target in getattr(member, "opening", ()))
        return [Step("link", process, 1 << target) for target in others if not have >> target & 1]

    def arrivals(self, system: System, process: int) -> list[Step]:
        """Return the receptions and losses possible at a process."""
        steps = []
        for name, flying in self.receivable(system, process):
            steps.append(Step("receive", process, copy=name))
            if system.drops or may_be_lost(flying.copy, system.crashed):
                steps.append(Step("lose", process, copy=name))
        return steps

    def faults(self, system: System, process: int) -> list[Step]:
        """Return the crash of a process and the possible next outputs of its failure detector."""
        if not self.crashing or system.crashed >> process & 1:
            return []
        steps = []
        if (system.faulty & ~system.crashed) >> process & 1:
            steps.append(Step("crash", process))
        now, alive = system.trust[process], self.everyone & ~system.crashed
        if system.told:
            return steps + self._any_output(system, process)
        if now == UNTOLD:
            fewest = least(self.groups, system.faulty, per_group=self.setting.per_group)
            steps += [Step("trust", process, output) for output in fewest if output not in (self.everyone, alive)]
        if system.crashed == system.faulty and self._trusts(now) != alive:
            steps.append(Step("trust", process, alive))
        return steps

    def _any_output(self, system: System, process: int) -> list[Step]:
        """Return the outputs of the detector `any`: any legal set while changes are left, then a complete one."""
        now, alive = self._trusts(system.trust[process]), self.everyone & ~system.crashed
        legal = [o for o in outputs(self.groups, system.faulty, per_group=self.setting.per_group) if o != now]
        if system.told[process] >= self.setting.changes:
            late = system.crashed == system.faulty and now & ~alive
            legal = [output for output in legal if not output & ~alive] if late else []
        return [Step("trust", process, output) for output in legal]

    def _trusts(self, output: int) -> int:
        return self.everyone if output == UNTOLD else output

    def settled(self, system: System) -> bool:
        """Return whether every fault has happened and been noticed; completeness makes every execution end so."""
        if not self.crashing:
            return True
        alive = self.everyone & ~system.crashed
        if system.told:
            complete = all(not self._trusts(system.trust[p]) & ~alive for p in positions(alive))
            return system.crashed == system.faulty and complete
        return system.crashed == system.faulty and all(self._trusts(system.trust[p]) == alive for p in positions(alive))

    # -- moving ----------------------------------------------------------------------------------------------------

    def apply(self, system: System, step: Step) -> Move:
        """Take a step and judge it."""
        if step.kind == "receive":
            return self._receive(system, step)
        if step.kind == "send":
            return self._send(system, step)
        if step.kind == "lose":
            return self._lose(system, step)
        if step.kind == "crash":
            return self._crash(system, step.process)
        if step.kind == "link":
            node, effects = self._move(system.nodes[step.process], "link", step.target)
            system = system._replace(links=system.links - 1)
            return self._settle(system, step.process, node, effects, barrier=True)
        trust = (*system.trust[: step.process], step.target, *system.trust[step.process + 1 :])
        if system.told:
            times = system.told[step.process] + 1
            system = system._replace(told=(*system.told[: step.process], times, *system.told[step.process + 1 :]))
        node, effects = self._move(system.nodes[step.process], "trust", step.target)
        return self._settle(system._replace(trust=trust), step.process, node, effects, barrier=True)

    def find(self, system: System, step: Step) -> int:
        """Return the place in flight of the copy that a step names, or -1."""
        name, nth = step.copy, 0
        assert name is not None
        for place, flying in enumerate(system.flight):
            copy = flying.copy
            if copy.destination == step.process and name[:4] == (
                copy.source,
                copy.sender,
                copy.count,
                copy.kind,
            ):
                if nth == name.nth:
                    return place
                nth += 1
        return -1

    def _receive(self, system: System, step: Step) -> Move:
        place = self.find(system, step)
        flying = system.flight[place]
        node, effects = self._move(system.nodes[step.process], "receive", flying)
        past, copy = system.past, flying.copy
        if copy.kind == MESSAGE:
            past = past._replace(held=past.held | self.space.bit(self._slot(copy), step.process) & past.out)
        flight = system.flight[:place] + system.flight[place + 1 :]
        return self._settle(system._replace(flight=flight, past=past), step.process, node, effects, barrier=False)

    def _send(self, system: System, step: Step) -> Move:
        node, effects = self._move(system.nodes[step.process], "send", step.target, system.token)
        return self._settle(system._replace(left=system.left - 1), step.process, node, effects, barrier=True)

    def _lose(self, system: System, step: Step) -> Move:
        place = self.find(system, step)
        copy = system.flight[place].copy
        flight = system.flight[:place] + system.flight[place + 1 :]
        system = system._replace(flight=flight)
        if not may_be_lost(copy, system.crashed):
            bit = self.space.bit(self._slot(copy), step.process) & system.past.out
            system = system._replace(drops=system.drops - 1, past=system.past._replace(lost=system.past.lost | bit))
        return Move(system, False, None)

    def _crash(self, system: System, process: int) -> Move:
        nodes = (*system.nodes[:process], self.dead, *system.nodes[process + 1 :])
        trust = (*system.trust[:process], 0, *system.trust[process + 1 :])
        crashed = system.crashed | 1 << process
        flight = tuple(f for f in system.flight if not nobody_receives(f.copy, crashed))
        past = judge_memory.gone(system.past, self.space, process)
        return Move(system._replace(nodes=nodes, flight=flight, past=past, crashed=crashed, trust=trust), True, None)

    def _move(self, node: Node, kind: str, what: Flying | int, token: object = None) -> tuple[Node, tuple[Answer, ...]]:
        key = (id(node), kind, id(what) if isinstance(what, Flying) else what, repr(token) if token else None)
        found = self._local.get(key)
        if found is None:
            assert node.member is not None
            member = node.member.fork()
            effects: Sequence[Answer]
            if isinstance(what, Flying):
                effects = member.receive(what.copy)
            elif kind == "send":
                effects = [member.send(what, token=token)]
            elif kind == "link":
                effects = member.connect(*self.roster.members(what))
            else:
                effects = member.trusted(self.roster.members(what))
            found = self._local[key] = (self._node(member), tuple(effects))
        return found

    def _settle(self, system: System, process: int, node: Node, effects: tuple[Answer, ...], *, barrier: bool) -> Move:
        nodes = (*system.nodes[:process], node, *system.nodes[process + 1 :])
        past, needed, token = system.past, system.needed, system.token
        flight = list(system.flight)
        problem: Problem | None = None
        for effect in effects:
            if isinstance(effect, Deliver):
                slot = self._slot(effect.copy)
                problem = problem or self.judge.delivery(past, process, slot)
                if problem is not None:
                    continue
                past = judge_memory.after_delivery(past, self.space, process, slot, self.guarantee, tell=self.crashing)
                if needed is not None:
                    last = not any(other == slot for other, _ in past.carried)
                    needed = needed.delivered(self.space, process, slot, last=last)
            elif isinstance(effect, Sent):
                barrier = True
                slot = (
                    self._slot(effect.copies[0])
                    if effect.copies
                    else self.space.slot(effect.message.sender, effect.message.count)
                )
                past = judge_memory.sent(past, self.space, process, slot, effect.destinations, self.guarantee)
                past = judge_memory.never_arriving(past, self.space, system.crashed)
                if needed is not None:
                    problem = problem or self.judge.copies(needed, process, effect)
                    needed = needed.sent(self.space, process, slot, effect.destinations)
                flight += self._launch(system, effect.copies)
                token = effect.token if effect.token is not None else token
                problem = problem or self.judge.genuine(effect.copies)
            elif isinstance(effect, Transmit):
                barrier = True
                flight += self._launch(system, effect.copies)
                problem = problem or self.judge.genuine(effect.copies)
            elif isinstance(effect, Deferred):
                barrier = True
        if self.drop_spent:
            flight = [flying for flying in flight if not self._is_spent(nodes[flying.copy.destination], flying)]
        after = system._replace(nodes=nodes, flight=tuple(flight), past=past, needed=needed, token=token)
        if problem is None:
            problem = (
                self.judge.waiting(past, process)
                or self.judge.log(needed, process, node.member)
                or self.judge.bound(process, node.member)
            )
        return Move(after, barrier, problem, effects)

    def _is_spent(self, node: Node, flying: Flying) -> bool:
        key = (id(node), id(flying))  # both are kept for good, so their ids are not reused
        found = self._spent.get(key)
        if found is None:
            found = self._spent[key] = node.member is not None and node.member.spent(flying.copy)
        return found

    def _launch(self, system: System, copies: tuple[Copy, ...]) -> list[Flying]:
        """Return copies that are handed to the network, equal ones as one; none to processes that have crashed."""
        found = (copy for copy in copies if not nobody_receives(copy, system.crashed))
        return [self._flying.setdefault(self.intern(self.shape.freeze(copy, None)), Flying(copy)) for copy in found]

    def at_rest(self, system: System, process: int) -> Problem | None:
        """Judge a process at which nothing more will happen unless a process sends."""
        member = system.nodes[process].member
        if member is None:
            return None
        return self.judge.at_rest(system.past, process, member, system.crashed if self.crashing else None)

    def deadlocked(self, system: System) -> Problem | None:
        """Judge all processes together: with nothing in flight, does every one of them have to hold back a send?"""
        if "progress" not in self.properties:
            return None
        living = [node.member for node in system.nodes if node.member is not None]
        stuck = living and all(any(p.what == "send" for p in member.pending()) for member in living)
        return Problem("progress", 0) if stuck else None

    def stuck(self, system: System) -> Problem | None:
        """Judge a system in which nothing more will happen; return the first violation, if any."""
        problems = [self.deadlocked(system), *(self.at_rest(system, process) for process in range(self.n))]
        return next((problem for problem in problems if problem is not None), None)

    # -- names -----------------------------------------------------------------------------------------------------

    def _slot(self, copy: Copy) -> int:
        return self.space.slot(copy.sender, copy.count)

    def intern(self, value: Hashable) -> int:
        """Return a small number for a hashable value, the same for equal values."""
        return self._names.setdefault(value, len(self._names))

    def _node(self, member: Member) -> Node:
        number = self.intern(member.state())
        return self._nodes.setdefault(number | member.me << 40, Node(member))

    def name(self, thing: Node | Flying, perm: Perm) -> int:
        """Return the number of a member's state, or of a copy, after processes changed names."""
        number = thing.ids.get(perm)
        if number is None:
            if isinstance(thing, Flying):
                number = self.intern(self.shape.freeze(thing.copy, None if perm == self.identity else perm))
            elif thing.member is None:
                number = -1
            else:
                number = self.intern(thing.member.state(None if perm == self.identity else perm))
            thing.ids[perm] = number
        return number
