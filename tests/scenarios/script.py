"""Golden scripts: a protocol talking. Lines that begin with `> ` are commands, the lines below are what was said.

    > members PROTOCOL NAME... [option=value...]   make the members
    > log NAME ENTRY...                            set a dependency log; an entry is i7{2,3}: message i7, destinations
    > send NAME to NAME...                         send, and show the stamp of each copy
    > stamped MESSAGE to NAME... with ENTRY...     put copies on their way that nobody sent, with this stamp
    > arrive MESSAGE at NAME                       let one copy arrive, and show every effect
    > connect NAME to NAME                         open a link of the overlay
    > show NAME                                    show what a member keeps and what it holds
    > simulate key=value...                        run a scenario and show its events in the test notation

`python tests/scenarios/script.py` writes every script's answers anew; read the diff.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path
from typing import Any

from thence.core.model.events import render
from thence.core.model.message import MESSAGE, Copy
from thence.core.model.order import judge
from thence.core.model.roster import Roster
from thence.core.protocols.ci_dc import CiDc
from thence.core.protocols.ech import ECH
from thence.core.protocols.gossip import Gossip
from thence.core.wire.dependency_log_cy import Log
from thence.lab.simulator import Scenario, simulate
from thence.protocols import Deferred, Deliver, Duplicate, Effect, Hold, Member, Sent, Transmit, create

HERE = Path(__file__).parent
ENTRY = re.compile(r"([A-Za-z]+)(\d+)\{([^}]*)\}")


class Stage:
    """The members of a script and the copies that are under way."""

    def __init__(self) -> None:
        self.roster = Roster([])
        self.members: dict[str, Member] = {}
        self.network: list[Copy] = []

    def run(self, command: str) -> list[str]:
        verb, *words = command.split()
        return list(getattr(self, f"do_{verb}")(words))

    def do_members(self, words: list[str]) -> list[str]:
        protocol, *rest = words
        options = dict(_option(word) for word in rest if "=" in word)
        self.roster = Roster([word for word in rest if "=" not in word])
        self.members = {name: create(protocol, self.roster, name, **options) for name in self.roster}
        self.network = []
        return []

    def do_log(self, words: list[str]) -> list[str]:
        name, *entries = words
        self.members[name].log = self._log(entries)  # type: ignore[attr-defined]
        return self.do_show([name])

    def do_send(self, words: list[str]) -> list[str]:
        name, to, *destinations = words
        assert to == "to"
        done = self.members[name].send(destinations)
        if isinstance(done, Deferred):
            return [
                f"{name} defers a send to {_list(destinations)}: {done.reason}",
                f"  awaits {_list(done.waits_for)}",
            ]
        return [*self._effect(name, done), f"  {name} keeps {self._kept(self.members[name])}"]

    def do_connect(self, words: list[str]) -> list[str]:
        name, _, other = words
        lines = [line for effect in self.members[name].connect(other) for line in self._effect(name, effect)]
        return [*lines, f"  {name} keeps {self._kept(self.members[name])}"]

    def do_stamped(self, words: list[str]) -> list[str]:
        place = words.index("with")
        message, _, *destinations = words[:place]
        sender, count = self._message(message)
        mask, stamp = self.roster.mask(destinations), self._log(words[place + 1 :])
        positions = [self.roster.position(name) for name in destinations]
        self.network += [Copy(sender, count, mask, sender, d, stamp, None, MESSAGE) for d in positions]
        return []

    def do_arrive(self, words: list[str]) -> list[str]:
        message, _, name = words
        here = self.roster.position(name)
        copy = next(c for c in self.network if self._name(c) == message and c.destination == here)
        self.network.remove(copy)
        lines: list[str] = []
        for effect in self.members[name].receive(copy):
            lines += self._effect(name, effect)
        return [*lines, f"  {name} keeps {self._kept(self.members[name])}"]

    def do_show(self, words: list[str]) -> list[str]:
        (name,) = words
        member = self.members[name]
        lines = [f"{name} keeps {self._kept(member)}"]
        for held in member.pending():
            awaited = _list([str(cause) for cause in held.waits_for] or held.processes)
            lines.append(f"  holds {held.message or 'a send'}, which waits for {awaited}")
        return lines

    def do_simulate(self, words: list[str]) -> list[str]:
        result = simulate(Scenario(**dict(_option(word) for word in words)), trace=True)
        judgement = judge(result.events)
        lines = textwrap.wrap(render(result.events), 100, break_long_words=False, break_on_hyphens=False)
        outcome = result.outcome
        lines.append(f"{outcome.messages} messages, {outcome.deliveries} deliveries, {outcome.holds} held")
        lines.append(f"causal order: {len(judgement.violations)} violations")
        return lines

    def _effect(self, name: str, effect: Effect) -> list[str]:
        match effect:
            case Sent():
                self.network += effect.copies
                message = f"{name}{effect.message.count}"
                lines = [f"{name} sends {message} to {_list(self.roster.members(effect.destinations))}"]
                return lines + [f"  to {self.roster.name(c.destination)}: {self._stamp(c)}" for c in effect.copies]
            case Transmit():
                self.network += effect.copies
                ends = [f"{c.kind} for {self._name(c)} to {self.roster.name(c.destination)}" for c in effect.copies]
                return [f"{name} transmits {_list(ends)}"]
            case Deliver():
                return [f"{name} delivers {self._name(effect.copy)}"]
            case Hold():
                return [f"{name} holds {self._name(effect.copy)}: waits for {_list(map(str, effect.waits_for))}"]
            case Duplicate():
                return [f"{name} knows {self._name(effect.copy)} already"]

    def _stamp(self, copy: Copy) -> str:
        member = self.members[self.roster.name(copy.source)]
        if isinstance(member, Gossip):
            gossip, sent = copy.stamp[:2]
            return f"GOSSIP {_matrix(gossip)} SENT {_matrix(sent)}"
        facts = member.dependencies(copy)
        if facts is None:
            return f"stamp of {member.entries(copy)}"
        return " ".join(self._entry(m.sender, m.count, mask) for m, mask in facts) or "nothing"

    def _kept(self, member: Member) -> str:
        if isinstance(member, ECH):
            return self._histories(member)
        if isinstance(member, Gossip):
            return f"GOSSIP {_matrix(member.gossip)} SENT {_matrix(member.sent)} DELIV {_row(member.receiver.deliv)}"
        log = member.ci if isinstance(member, CiDc) else getattr(member, "log", None)
        if not isinstance(log, Log):
            return f"a log of {member.log_size()}"
        entries = [self._entry(s, c, mask) for s in sorted(log) for c, mask in log[s]]
        return " ".join(entries) or "nothing"

    def _histories(self, member: ECH) -> str:
        names, told = [], []
        for sender in sorted(member.history):
            for count, (address, carbon) in sorted(member.history[sender].items()):
                names.append(self._entry(sender, count, address))
                told.append(self._entry(sender, count, carbon))
        done = [f"{self.roster.name(s)}{c}" for s, c in enumerate(member.receiver.delivered) if c]
        return f"H [{' '.join(names)}] C [{' '.join(told)}] D [{' '.join(done)}]"

    def _entry(self, sender: int, count: int, mask: int) -> str:
        return f"{self.roster.name(sender)}{count}{{{','.join(self.roster.members(mask))}}}"

    def _name(self, copy: Copy) -> str:
        return f"{self.roster.name(copy.sender)}{copy.count}"

    def _message(self, text: str) -> tuple[int, int]:
        name = text.rstrip("0123456789")
        return self.roster.position(name), int(text[len(name) :])

    def _log(self, entries: list[str]) -> Log:
        groups: dict[int, list[tuple[int, int]]] = {}
        for entry in entries:
            found = ENTRY.fullmatch(entry)
            assert found, f"{entry} is no entry; i7{{2,3}} is"
            sender, count, names = found.groups()
            mask = self.roster.mask(filter(None, names.split(",")))
            groups.setdefault(self.roster.position(sender), []).append((int(count), mask))
        return Log({sender: tuple(sorted(group)) for sender, group in groups.items()})


def _list(words: Any) -> str:
    return ", ".join(words) or "nobody"


def _row(row: Any) -> str:
    return "".join(str(value) if value < 10 else f"({value})" for value in row)


def _matrix(rows: Any) -> str:
    return "/".join(_row(row) for row in rows)


def _option(word: str) -> tuple[str, Any]:
    name, _, value = word.partition("=")
    return name, int(value) if value.isdecimal() else value == "yes" if value in ("yes", "no") else value


def play(text: str) -> str:
    """Return a script with its answers as they are now."""
    stage, lines = Stage(), []
    for line in text.splitlines():
        if line.startswith("> "):
            lines += [line, *stage.run(line[2:])]
        elif not line or line.startswith("#"):
            lines.append(line)
    return "\n".join(lines) + "\n"


def scripts() -> list[Path]:
    """Return the scripts of this folder."""
    return sorted(HERE.glob("*.txt"))


if __name__ == "__main__":
    for path in scripts():
        before, after = path.read_text(), play(path.read_text())
        path.write_text(after)
        print(f"{'same' if before == after else 'CHANGED'} {path.name}", file=sys.stderr)
