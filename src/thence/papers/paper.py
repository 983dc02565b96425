"""What a paper's module provides, and the scale at which it is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

from thence.papers.claims import Claim, Data, Rows
from thence.report.tables import Table
from thence.sim.grid import Grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")
Sizes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""numbers of processes of each level"""
Level = Literal["quick", "default", "full"]


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is run: seconds (quick), minutes (default), or the papers' own counts (full)."""

    level: Level = "default"
    processes: tuple[int, ...] = ()
    """only these numbers of processes; all that the level has, if empty"""
    seed: int = 1

    def pick(self, quick: T, default: T, full: T) -> T:
        """Return what this level takes."""
        return {"quick": quick, "default": default, "full": full}[self.level]

    def sizes(self, known: Sizes) -> list[int]:
        """Return the numbers of processes of this level that are wanted."""
        return [n for n in self.pick(*known) if not self.processes or n in self.processes]

    def seeds(self, quick: int, default: int, full: int) -> list[int]:
        """Return so many seeds, the first being the scale's own."""
        return list(range(self.seed, self.seed + self.pick(quick, default, full)))


def no_grid(scale: Scale) -> Grid | None:
    """Return no simulations."""
    return None


def nothing_else(scale: Scale) -> dict[str, Rows]:
    """Measure nothing beyond the simulations."""
    return {}


@dataclass(frozen=True, slots=True)
class Paper:
    """One paper: what to run, what to measure beside it, and how to read it. Simulated rows are the data set `runs`."""

    name: str
    title: str
    open: tuple[str, ...]
    """what the paper leaves open, what was chosen, and how much it matters; a sentence each"""
    claims: tuple[Claim, ...]
    tables: Callable[[Data], list[Table]]
    plots: Callable[[Data], dict[str, Figure]]
    """pictures by file name, without ending"""
    grid: Callable[[Scale], Grid | None] = no_grid
    measure: Callable[[Scale], dict[str, Rows]] = nothing_else
    sizes: Sizes | None = None
    """None where the paper does not speak of different n"""

    def has(self, scale: Scale) -> bool:
        """Tell whether it has any of the numbers of processes that are wanted."""
        return self.sizes is None or bool(scale.sizes(self.sizes))
