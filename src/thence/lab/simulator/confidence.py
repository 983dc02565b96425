"""Means with confidence: batch means within a run, independent means over seeds.

Invariant: `estimate` of k values that are independent (runs with different seeds), or nearly so (means of long batches
of one run), gives their mean and the half width of the two-sided 95 % interval by Student's t with k - 1 degrees of
freedom; with fewer than two values there is no interval, and it says None, not 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum, sqrt

from thence.core.model.plain import Row

_T = (
    *(12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281),
    *(2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860),
    *(2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423),
)
_NORMAL = 1.959964


def student(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t; beyond the table by its expansion around the normal one."""
    if freedom <= len(_T):
        return _T[freedom - 1]
    z = _NORMAL
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean, the half width of its 95 % interval, and the number of values behind it."""

    mean: float
    half: float | None
    values: int

    def __str__(self) -> str:
        return f"{self.mean:.4g}" if self.half is None else f"{self.mean:.4g} ± {self.half:.2g}"

    def row(self) -> Row:
        """Return it as plain data."""
        return {"mean": self.mean, "ci95": self.half, "values": self.values}


def estimate(values: Sequence[float]) -> Estimate | None:
    """Return the mean of independent values with its interval; None of none."""
    count = len(values)
    if count == 0:
        return None
    mean = fsum(values) / count
    if count == 1:
        return Estimate(mean, None, 1)
    spread = sqrt(fsum((value - mean) ** 2 for value in values) / (count - 1))
    return Estimate(mean, student(count - 1) * spread / sqrt(count), count)


def batch_means(sums: Iterable[float], counts: Iterable[int]) -> Estimate | None:
    """Return the overall mean with the interval that the means of the batches give; empty batches do not count."""
    pairs = [(total, count) for total, count in zip(sums, counts, strict=True) if count]
    if not pairs:
        return None
    means = estimate([total / count for total, count in pairs])
    assert means is not None
    mean = fsum(total for total, _ in pairs) / sum(count for _, count in pairs)
    return Estimate(mean, means.half, means.values)
