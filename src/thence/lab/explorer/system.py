"""A system as one immutable value: members, copies in flight, what is left of each bound, and the judge's past.

Invariant: a step happens at one process. `receive` takes a copy that is in flight to it (on FIFO channels the
oldest of its channel), `send` hands copies to the network, `lose` takes a copy away, `crash` ends the
process, `trust` is the failure detector speaking to it, `link` opens a link of an overlay. The same value and
the same step always give the same next value: members are deterministic, so each local move (member state,
input) is computed once and remembered.

The failure detector gives each process one of its least legal outputs, from the start or, having trusted
every process, from any time on; in the end it names exactly the living processes. The detector `any` gives each
process any legal outputs at any times, this many of them; in the end it names no process that crashed, but not all
that live.

A crash loses any subset of the copies of the crashed process that are in flight; here they are lost one by
one, when their destination would receive them, which comes to the same (`core/model/faults.py`).
"""

from __future__ import annotations

from typing import NamedTuple

from thence.core.model.message import Copy
from thence.core.protocols.base import Member
from thence.core.protocols.effects import Answer
from thence.lab.explorer.judge import Problem
from thence.lab.explorer.judge_memory import CausalPast, Needed, Perm

UNTOLD = 1 << 62
"""What a process knows from the failure detector before its first output: all processes are trusted."""


class Node:
    """A member in one of its states; equal states are one node, which remembers its names under renamings."""

    __slots__ = ("ids", "member")

    def __init__(self, member: Member | None) -> None:
        """Wrap a member that will never change again; None has crashed."""
        self.member = member
        self.ids: dict[Perm, int] = {}


class Flying:
    """A copy in flight; equal copies are one, which remembers its names under renamings."""

    __slots__ = ("copy", "ids")

    def __init__(self, copy: Copy) -> None:
        self.copy = copy
        self.ids: dict[Perm, int] = {}


class System(NamedTuple):
    """Everything that decides what can happen next and how it will be judged."""

    nodes: tuple[Node, ...]
    flight: tuple[Flying, ...]
    """in the order in which they were handed to the network"""
    left: int
    drops: int
    past: CausalPast
    needed: Needed | None
    faulty: int = 0
    crashed: int = 0
    trust: tuple[int, ...] = ()
    told: tuple[int, ...] = ()
    """how often the failure detector `any` has spoken to each process"""
    token: object = None
    links: int = 0
    """how many links of the overlay may still be opened"""


class Move(NamedTuple):
    """The result of a step."""

    system: System
    emitted: bool
    """whether the step can be noticed elsewhere: it sent copies, asked for a send, crashed, or changed trust"""
    problem: Problem | None
    effects: tuple[Answer, ...] = ()
