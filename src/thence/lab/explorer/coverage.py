"""Results of an exploration: what was covered, and what failed."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from thence.lab.explorer.judge import Problem
from thence.lab.explorer.setting import Setting, Start, Step


@dataclass
class Failure:
    """A property that does not hold, and an execution that shows it."""

    setting: Setting
    problem: Problem
    start: Start
    steps: tuple[Step, ...]


@dataclass
class Coverage:
    """The coverage and the failures of an exploration."""

    setting: Setting
    properties: tuple[str, ...]
    reduced: bool
    complete: bool = True
    """False if the time ran out, or it stopped at a failure"""
    stopped: str = ""
    states: int = 0
    executions: int = 0
    """complete executions visited, each standing for all that differ in the order of independent steps"""
    depth: int = 0
    seconds: float = 0.0
    reactive: bool = False
    failures: list[Failure] = field(default_factory=list)
    kinds: set[tuple[str | int, ...]] = field(default_factory=set)
    """every failure seen, up to renaming"""
    terminals: set[Hashable] = field(default_factory=set)
    """systems at rest, up to renaming, if asked for"""

    @property
    def counted(self) -> int | None:
        """The number of executions; None where the exploration stopped before it could count them."""
        return self.executions if self.complete else None

    @property
    def verdict(self) -> str:
        """`holds`, `fails`, or `unknown` when the time ran out before either was known."""
        return "fails" if self.failures else "holds" if self.complete else "unknown"
