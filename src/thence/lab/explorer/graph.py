"""The state graph of a small system: every system that can be reached, every step between them; as JSON and as DOT.

Invariant: nodes are systems under the names of their processes, so that every path is an execution that can be made by
hand (`stepping.py`); an edge is a step that leads from one to the other. A node is marked with what the step to it
broke, which leads no further, or with what is broken if nothing more is sent there: a system with nothing in flight is
judged as the explorer judges it at rest. A graph of more than `MOST_STATES` nodes cannot be read, and is rejected.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from thence.core.model.plain import Row
from thence.errors import MisuseError
from thence.lab.explorer.canonical import RenamedSystem, SystemKeys
from thence.lab.explorer.moves import Moves
from thence.lab.explorer.search import promised
from thence.lab.explorer.setting import Setting
from thence.lab.explorer.stepping import flying_words, in_words
from thence.lab.explorer.system import UNTOLD, System

MOST_STATES = 20_000
LISTED_STATE = ("in flight", "held", "crashed", "will crash")


@dataclass
class StateGraph:
    """Systems as numbers from 0, the roots first found, and the steps between them."""

    setting: Setting
    nodes: list[Row] = field(default_factory=list)
    """of each system: what is in flight, what is held, who is gone or trusted, and what it broke"""
    edges: list[tuple[int, int, str]] = field(default_factory=list)
    """from, to, the step in words"""
    roots: list[int] = field(default_factory=list)

    def row(self) -> Row:
        """Return it as plain data."""
        edges = [{"from": source, "to": target, "step": step} for source, target, step in self.edges]
        return {"setting": self.setting.row(), "roots": self.roots, "nodes": self.nodes, "edges": edges}

    def dot(self) -> str:
        """Return it in the language of Graphviz."""
        lines = [f"digraph {_quoted(self.setting.protocol)} {{", "  node [shape=box, fontsize=9]; edge [fontsize=8];"]
        for number, node in enumerate(self.nodes):
            style = (", color=red" if node["breaks"] else "") + (", peripheries=2" if node["at rest"] else "")
            lines.append(f"  {number} [label={_quoted(_label(node))}{style}];")
        lines += [f"  {source} -> {target} [label={_quoted(step)}];" for source, target, step in self.edges]
        return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _label(node: Row) -> str:
    parts = [f"{node['left to send']} to send"] if node["left to send"] else []
    parts += [f"{what}: {', '.join(node[what])}" for what in LISTED_STATE if node[what]]
    parts += [f"{name} trusts {', '.join(trusted) or 'no process'}" for name, trusted in node["trust"].items()]
    parts += [f"breaks {node['breaks']}"] if node["breaks"] else []
    return "\n".join(parts) or "nothing under way"


def state_graph(setting: Setting, *, properties: frozenset[str] | None = None, most: int = MOST_STATES) -> StateGraph:
    """Return the whole graph; a step that breaks a property leads no further."""
    setting.check_size()
    moves = Moves(setting, properties or promised(setting))
    names, made = SystemKeys(moves), StateGraph(setting)
    numbers: dict[tuple[RenamedSystem, str | None], int] = {}
    waiting: deque[tuple[int, System]] = deque()

    def number(system: System, breaks: str | None) -> int:
        key = (names.plain(system), breaks)
        if key not in numbers:
            if len(numbers) == most:
                raise MisuseError(f"more than {most} states; draw a smaller system")
            numbers[key] = len(numbers)
            made.nodes.append(_node(moves, system, breaks))
            if breaks is None:
                waiting.append((numbers[key], system))
        return numbers[key]

    made.roots = sorted({number(root, None) for root in moves.roots()})
    while waiting:
        source, system = waiting.popleft()
        for process in range(moves.n):
            for step in moves.steps(system, process):
                move = moves.apply(system, step)
                target = number(move.system, None if move.problem is None else move.problem.property)
                made.edges.append((source, target, in_words(step, moves.roster)))
    return made


def _node(moves: Moves, system: System, breaks: str | None) -> Row:
    name, members = moves.roster.name, moves.roster.members
    held = [
        f"{pending.message or 'a send'} at {name(place)}"
        for place, node in enumerate(system.nodes) if node.member is not None
        for pending in node.member.pending()
    ]  # fmt: skip
    quiet = not system.flight and moves.settled(system)
    if breaks is None and quiet and (stuck := moves.stuck(system)) is not None:
        breaks = stuck.property
    living = [(place, mask) for place, mask in enumerate(system.trust) if not system.crashed >> place & 1]
    return {
        "in flight": [flying_words(flying.copy, moves.roster) for flying in system.flight],
        "held": held,
        "crashed": list(members(system.crashed)),
        "will crash": list(members(system.faulty & ~system.crashed)),
        "trust": {name(place): list(members(mask)) for place, mask in living if mask != UNTOLD},
        "left to send": system.left,
        "at rest": quiet and not system.left,
        "breaks": breaks,
    }
