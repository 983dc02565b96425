"""Joining a running system: the four scenarios of section 4.4 of Rodrigues and Veríssimo.

Invariant: a process that joins

- (i) changes no separator: it stands on one side of each. Nothing is needed.
- (ii) links parts that were never linked before: it is a new separator. Nothing is needed, for there is nothing one
  part could know of the other.
- (iii) links both sides of a separator, and becomes a member of it. It takes over the histories of all its members.
- (iv) links both sides of a separator whose members have all failed. It takes over what they knew: from stable
  memory, or by a checkpoint of all processes on either side.

What R9 left out is known in the separator and nowhere else, so a newcomer may act only when it knows all of that. The
paper's text leaves open when that is so; each of these is needed, and tests show the violation without it:

- the members of a separator pass their histories on in the step in which they take the larger separator. Between
  the two a member would still leave out what the newcomer will never hear of;
- if a member has failed, "reported to" the survivors does not yet mean that they know. Either its own stable memory
  is read too, not only that of the last to fail; or the newcomer waits until the survivors have delivered whatever
  was under way to them at the failure (iii), or, before a checkpoint, until whatever the failed had sent is delivered
  (iv).

Witnesses (`with_witnesses`): a separator of f + 1 members outlives f failures, so that (iv) never comes.

A failure is final, and a failed process keeps its name and place. What it sent still arrives (Assumption 1 of the
paper). All processes learn of failures and joins at once: agreement about membership is the driver's business, one
change after the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from thence.core.model.message import Copy
from thence.core.model.message_names import name_of
from thence.core.model.roster import Roster, letters
from thence.core.protocols.ech_r9 import ECHR9
from thence.errors import MisuseError
from thence.lab.topology.extended import Extended
from thence.lab.topology.graph import Graph, components, known
from thence.lab.topology.separators import Separator, check_separator, option_text

JoinScenario = Literal["i", "ii", "iii", "iv"]
GRAVITY: tuple[JoinScenario, ...] = ("i", "ii", "iii", "iv")


@dataclass(frozen=True)
class JoinResult:
    """The effects of a join."""

    process: str
    scenario: JoinScenario
    separators: tuple[Separator, ...]
    """all that hold from now on"""
    entered: tuple[Separator, ...]
    """those it becomes a member of, as they were"""


class TopologyMembership:
    """A graph of living and failed processes, its separators, and a member of `ech-r9` on each process."""

    def __init__(self, graph: Graph, separators: Iterable[Separator], *, stable: bool = False) -> None:
        """Start with every process alive; `stable` says that what a process knew can be read after its failure."""
        self.graph, self.stable = Graph(graph), stable
        self.separators = tuple(check_separator(graph, separator) for separator in separators)
        self.roster = Roster(graph)
        self.members = {name: ECHR9(self.roster, name, separators=option_text(self.separators)) for name in graph}
        self.failed: dict[str, bytes] = {}
        """the history of each failed process when it failed"""
        self._under_way: dict[str, list[tuple[int, int, int]]] = {}

    def fail(self, process: str, under_way: Iterable[Copy] = ()) -> None:
        """Let a process fail for good; `under_way` are the copies the network holds at that time."""
        if process not in self.members:
            raise MisuseError(f"{process} cannot fail; alive are {', '.join(self.members)}")
        copies = [*under_way, *(copy for m in self.members.values() for copy, _ in m.receiver.pending())]
        self._under_way[process] = [(copy.sender, copy.count, copy.destination) for copy in copies]
        self.failed[process] = self.members.pop(process).hand_over()
        for member in self.members.values():
            member.leave(process)

    def plan(self, process: str, links: Iterable[str]) -> JoinResult:
        """Describe the consequences if a process joins with these links."""
        near = self._living(process, links)
        parts = [part for part in components(self.graph) if near & set(part)]
        linked = frozenset(name for part in parts for name in part)
        moved = [self._moved(separator, process, near, linked) for separator in self.separators]
        entered = tuple(old for old, new in zip(self.separators, moved, strict=True) if process in new.members)
        found: list[JoinScenario] = ["ii" if len(parts) > 1 else "i"]
        found += ["iii" if old.members & set(self.members) else "iv" for old in entered]
        if len(parts) > 1:
            rest = frozenset(self.graph)
            moved += [Separator(frozenset({process}), frozenset(part), rest - set(part)) for part in parts]
            moved += [separator.reversed for separator in moved[-len(parts) :]]
        return JoinResult(process, max(found, key=GRAVITY.index), tuple(dict.fromkeys(moved)), entered)

    def _living(self, process: str, links: Iterable[str]) -> frozenset[str]:
        if process in self.graph:
            raise MisuseError(f"{process} was here before; a process that comes back after a failure needs a new name")
        near = known(self.graph, links, f"the links of {process}")
        if not near or near & set(self.failed):
            found = ", ".join(sorted(near & set(self.failed))) or "no process"
            raise MisuseError(
                f"{process} is linked to {found}; it needs links to the living: {', '.join(self.members)}"
            )
        return near

    def _moved(self, separator: Separator, process: str, near: frozenset[str], linked: frozenset[str]) -> Separator:
        """Return the separator with the newcomer, and with it on its side whatever it is the first to link."""
        home = next(set(part) for part in components(self.graph) if separator.members & set(part))
        ahead, behind = bool(near & home & separator.forward), bool(near & home & separator.backward)
        members, forward, backward = separator.members, separator.forward, separator.backward
        others = linked - home if near & home else frozenset[str]()
        if ahead and behind:
            members, forward, backward = members | {process}, forward | others, backward - others
        elif behind:
            forward, backward = forward - others, backward | others | {process}
        else:
            forward, backward = forward | others | {process}, backward - others
        return Separator(members, forward, backward)

    def owed(self, join: JoinResult) -> list[str]:
        """List the messages to deliver before a join may take over histories; empty if all of these can be read."""
        if self.stable:
            return []
        found: dict[str, None] = {}
        for separator in join.entered:
            survivors = separator.members & set(self.members)
            for process in sorted(separator.members & set(self.failed)):
                for sender, count, destination in self._under_way[process]:
                    here, origin = self.roster.name(destination), self.roster.name(sender)
                    wanted = here in survivors if survivors else origin in self.failed
                    if wanted and here in self.members and self.members[here].receiver.delivered[sender] < count:
                        found.setdefault(f"{name_of(origin, count)} at {here}")
        return list(found)

    def sources(self, join: JoinResult) -> list[str]:
        """Return whose histories a join takes over."""
        found: dict[str, None] = {}
        for separator in join.entered:
            alive = separator.members & set(self.members)
            gone = separator.members & set(self.failed) if self.stable else frozenset[str]()
            sides = (separator.forward | separator.backward) & set(self.members)
            found.update(dict.fromkeys(sorted(alive | gone or sides)))
        return list(found)

    def join(self, process: str, links: Iterable[str]) -> JoinResult:
        """Let a process join: every process takes the new separators, and it takes over what it must know."""
        near = frozenset(links)
        join = self.plan(process, near)
        owed = self.owed(join)
        if owed:
            raise MisuseError(f"{process} joins a separator too early: first must be delivered {', '.join(owed)}")
        for separator in join.separators:
            check_separator(self._joined(process, near), separator)
        sources = self.sources(join)
        self.graph, self.roster, self.separators = (
            self._joined(process, near),
            self.roster.joined(process),
            join.separators,
        )
        text = option_text(self.separators)
        histories = [self.failed[name] for name in sources if name in self.failed]
        for name, member in self.members.items():
            member.join(process)
            member.place(text)
            if name in sources:
                histories.append(member.hand_over(process))
        newcomer = ECHR9(self.roster, process, separators=text)
        for name in self.failed:
            newcomer.leave(name)
        newcomer.take_over(*histories)
        self.members[process] = newcomer
        return join

    def _joined(self, process: str, near: Iterable[str]) -> Graph:
        graph = Graph(self.graph)
        graph.add_node(process)
        graph.add_edges_from((process, name) for name in near)
        return graph


def with_witnesses(extended: Extended, separator: str, faults: int, *, kind: str = "w") -> Extended:
    """Return a graph in which a separator has at least faults + 1 members; new witnesses are named wa, wb, ..."""
    if separator not in extended.separators:
        raise MisuseError(f"no separator {separator!r}; there are {', '.join(extended.separators)}")
    members = extended.separators[separator]
    if faults < 0:
        raise MisuseError(f"{faults} faults; 0 or more are accepted")
    ahead = [name for name in extended.forwarding if name in members]
    around = sorted({near for name in members for near in extended.graph[name]} - members)
    graph, witnesses = Graph(extended.graph), dict(extended.witnesses)
    fresh = [f"{kind}{letters(place)}" for place in range(faults + 1 - len(members))]
    for name in fresh:
        if name in graph:
            raise MisuseError(f"a process {name} is in the graph already; give witnesses another kind of name")
        graph.add_edges_from((name, near) for near in around)
    for name in ahead:
        witnesses[name] = witnesses.get(name, frozenset()) | set(fresh)
    named = {**extended.separators, separator: members | set(fresh)}
    return Extended(graph, extended.processes, extended.forwarding, witnesses, named)
