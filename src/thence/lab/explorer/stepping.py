"""One execution made by hand: the possible next steps in words, and the result of a chosen one.

Invariant: a walk holds the system, the steps taken and the systems before them; taking a step changes it as the
explorer would, and `back` undoes exactly that. It never chooses by itself.
"""

from __future__ import annotations

from thence.core.model.message import MESSAGE, Copy
from thence.core.model.message_names import name_of
from thence.core.model.roster import Roster
from thence.core.protocols.effects import Answer, Deliver, Sent
from thence.errors import MisuseError
from thence.lab.explorer.judge import Problem
from thence.lab.explorer.moves import Moves
from thence.lab.explorer.search import promised
from thence.lab.explorer.setting import CopyName, Setting, Start, Step
from thence.lab.explorer.system import System
from thence.lab.explorer.witness import Witness


def in_words(step: Step, roster: Roster) -> str:
    """Describe a step in words."""
    here = roster.name(step.process)
    if step.kind == "send":
        return f"{here} sends to {', '.join(roster.members(step.target))}"
    if step.kind == "trust":
        return f"{here} now trusts {', '.join(roster.members(step.target)) or 'no process'}"
    if step.kind == "link":
        return f"{here} opens a link to {', '.join(roster.members(step.target))}"
    if step.copy is None:
        return f"{here} crashes"
    copy = step.copy
    again = f" (copy {copy.nth + 1})" if copy.nth else ""
    return f"{here} {'receives' if step.kind == 'receive' else 'loses'} {_copy_words(copy, roster)}{again}"


def flying_words(copy: Copy, roster: Roster) -> str:
    """List the messages in flight, with their destinations."""
    words = _copy_words(CopyName(copy.source, copy.sender, copy.count, copy.kind), roster)
    return f"{words} to {roster.name(copy.destination)}"


def _copy_words(copy: CopyName, roster: Roster) -> str:
    what = name_of(roster.name(copy.sender), copy.number)
    what = what if copy.kind == MESSAGE else f"the {copy.kind} of {what}"
    return what + (f" from {roster.name(copy.source)}" if copy.source != copy.sender or copy.kind != MESSAGE else "")


def starts(setting: Setting) -> list[Start]:
    """Return the choices before the first step, first that without faults; only that one where no process may crash."""
    setting.check_size()
    return sorted(Moves(setting, promised(setting)).starts(), key=lambda each: (each.faulty.bit_count(), each))


class Stepper:
    """An execution of a setting that a process makes step by step."""

    def __init__(self, setting: Setting, properties: frozenset[str] | None = None, start: Start | None = None) -> None:
        """Begin before the first step; `start` names the processes that will crash, none by default."""
        setting.check_size()
        self.properties = properties or promised(setting)
        self.setting, self.moves = setting, Moves(setting, self.properties)
        roots = self.moves.starts()
        if start is not None and start not in roots:
            raise MisuseError(f"no execution of the setting starts with {start}")
        self.start = start or min(roots, key=lambda each: (each.faulty.bit_count(), each.trust))
        self.system: System = roots[self.start]
        self.steps: list[Step] = []
        self.problem: Problem | None = None
        self.notes: list[str] = []
        """The stamps of the copies that the last step sent, and how it changed the log of its process."""
        self._before: list[System] = []

    def choices(self) -> list[Step]:
        """Return the possible next steps; none after a property broke."""
        if self.problem is not None:
            return []
        return [step for process in range(self.moves.n) for step in self.moves.steps(self.system, process)]

    def take(self, step: Step) -> list[str]:
        """Take a possible step; return descriptions of what it sent and delivered."""
        if step not in self.choices():
            raise MisuseError(f"not possible here: {in_words(step, self.moves.roster)}")
        self._before.append(self.system)
        known = self._log(step.process)
        move = self.moves.apply(self.system, step)
        self.system, self.problem = move.system, move.problem
        self.steps.append(step)
        sent = [copy for effect in move.effects if isinstance(effect, Sent) for copy in effect.copies]
        self.notes = [self._stamp(step.process, copy) for copy in sent]
        self.notes += self._changed(step.process, known, self._log(step.process))
        if not self.system.left:
            self.problem = self.broken()
        return [words for effect in move.effects if (words := self._led_to(step.process, effect))]

    def _stamp(self, process: int, copy: Copy) -> str:
        """Describe the content of a copy's stamp."""
        member, roster = self.system.nodes[process].member, self.moves.roster
        where = f"stamp of {name_of(roster.name(copy.sender), copy.count)} to {roster.name(copy.destination)}"
        if member is None:
            return f"{where}: its sender has crashed"
        found = member.dependencies(copy)
        if found is None:
            return f"{where}: {member.entries(copy)} entries"
        facts = [
            f"{name_of(roster.name(message.sender), message.count)} for {', '.join(roster.members(mask)) or 'none'}"
            for message, mask in found
        ]
        return f"{where}: {'; '.join(facts) or 'no causes'}"

    def _log(self, process: int) -> set[str] | None:
        """Return the facts in the log of a process in words; None where its protocol keeps no such log."""
        member, roster = self.system.nodes[process].member, self.moves.roster
        facts = None if member is None else member.log_facts()
        if facts is None:
            return None
        return {
            f"{name_of(roster.name(message.sender), message.count)} for {roster.name(destination)}"
            for message, destination in facts
        }

    def _changed(self, process: int, before: set[str] | None, after: set[str] | None) -> list[str]:
        if before is None or after is None or before == after:
            return []
        words = [
            f"{verb} {', '.join(sorted(some))}"
            for verb, some in (("adds", after - before), ("drops", before - after))
            if some
        ]
        facts = f"{len(after)} fact{'s' * (len(after) != 1)} now"
        return [f"log of {self.moves.roster.name(process)} {' and '.join(words)}: {facts}"]

    def _led_to(self, process: int, effect: Answer) -> str:
        roster = self.moves.roster
        if isinstance(effect, Deliver):
            return f"{roster.name(process)} delivers {name_of(roster.name(effect.copy.sender), effect.copy.count)}"
        if isinstance(effect, Sent):
            message = name_of(roster.name(effect.message.sender), effect.message.count)
            return f"{message} is on its way to {', '.join(roster.members(effect.destinations))}"
        return ""

    def broken(self) -> Problem | None:
        """Return the broken property, now or if no process sent any more, as a replay is judged."""
        quiet = not self.system.flight and self.moves.settled(self.system)
        return self.moves.stuck(self.system) if self.problem is None and quiet else self.problem

    def back(self) -> None:
        """Undo the last step; raise `MisuseError` at the start."""
        if not self.steps:
            raise MisuseError("nothing was done yet")
        self.steps.pop()
        self.notes = []
        self.system, self.problem = self._before.pop(), None

    def witness(self) -> Witness:
        """Return the steps so far, to be shown, stored and replayed."""
        return Witness(self.setting, tuple(sorted(self.properties)), self.start, tuple(self.steps))

    def waiting(self) -> list[str]:
        """List what each process holds back, with the reason."""
        lines = []
        for place, node in enumerate(self.system.nodes):
            for pending in node.member.pending() if node.member is not None else ():
                what = f"{pending.message}" if pending.message is not None else "a send"
                why = ", ".join(map(str, pending.waits_for)) or pending.reason or ", ".join(pending.processes)
                lines.append(f"{self.moves.roster.name(place)} holds {what}, waiting for {why}")
        return lines
