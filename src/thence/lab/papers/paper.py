"""The interface of a paper's module, and the scales at which papers are measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from thence.lab.papers.claims import Claim, DataRows, DataSets
from thence.lab.simulator.confidence import Estimate
from thence.lab.sweep.grid import Grid
from thence.tables.result_table import ResultTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

T = TypeVar("T")
At = TypeVar("At", bound=float)
"""A place on the axis that a curve is drawn over."""
LevelSizes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""numbers of processes of each level"""
Level = Literal["quick", "default", "full"]


@dataclass(frozen=True, slots=True)
class Scale:
    """The amount of runs: seconds (quick), minutes (default), or the papers' own counts (full)."""

    level: Level = "default"
    processes: tuple[int, ...] = ()
    """only these numbers of processes; all that the level has, if empty"""
    seed: int = 1

    def pick(self, quick: T, default: T, full: T) -> T:
        """Return the value for this level."""
        return {"quick": quick, "default": default, "full": full}[self.level]

    def sizes(self, known: LevelSizes) -> list[int]:
        """Return the numbers of processes of this level that are wanted."""
        return [n for n in self.pick(*known) if not self.processes or n in self.processes]

    def seeds(self, quick: int, default: int, full: int) -> list[int]:
        """Return this many seeds, the first being the scale's own."""
        return list(range(self.seed, self.seed + self.pick(quick, default, full)))


def no_grid(scale: Scale) -> Grid | None:
    """Return None: the paper needs no simulations."""
    return None


def nothing_else(scale: Scale) -> dict[str, DataRows]:
    """Measure nothing beyond the simulations."""
    return {}


class Drawing(Protocol):
    """The drawing functions for a paper's plots; the caller passes in `show.plots`, which loads matplotlib."""

    COLORS: Sequence[str]
    GREY: str

    def figure(self, width: float = 8.0, height: float = 4.5, *, columns: int = 1) -> tuple[Figure, list[Axes]]:
        """Return an empty figure with panels side by side."""
        ...

    def curves(
        self, panel: Axes, lines: Mapping[str, Mapping[At, Estimate]], *, x: str, y: str, log: bool = False
    ) -> None:
        """Draw a line for each name."""
        ...

    def shares(self, panel: Axes, counts: Mapping[str, Mapping[int, int]], *, x: str) -> None:
        """Draw histograms beside each other."""
        ...

    def legend(self, made: Figure, panel: Axes, title: str = "") -> None:
        """Put the names of a panel's lines below the whole figure."""
        ...


@dataclass(frozen=True, slots=True)
class Paper:
    """One paper: what to run, what to measure beside it, and how to read it. Simulated rows are the data set `runs`."""

    name: str
    title: str
    open: tuple[str, ...]
    """what the paper leaves open, what was chosen, and how much it matters; a sentence each"""
    claims: tuple[Claim, ...]
    tables: Callable[[DataSets], list[ResultTable]]
    plots: Callable[[DataSets, Drawing], dict[str, Figure]]
    """pictures by file name, without ending"""
    grid: Callable[[Scale], Grid | None] = no_grid
    measure: Callable[[Scale], dict[str, DataRows]] = nothing_else
    sizes: LevelSizes | None = None
    """None where the paper does not speak of different n"""

    def has(self, scale: Scale) -> bool:
        """Return whether it has any of the numbers of processes that are wanted."""
        return self.sizes is None or bool(scale.sizes(self.sizes))
