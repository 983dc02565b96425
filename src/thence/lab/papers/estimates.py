"""Rows of runs to estimates: choose, join the seeds, fit the growth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import hypot, log
from typing import Any

from thence.core.model.plain import Row
from thence.lab.papers.claims import DataRows, NoDataError
from thence.lab.simulator.confidence import Estimate, estimate
from thence.tables.result_table import Cell

SETTING_COLUMNS = ("protocol", "processes", "fanout", "workload", "delay", "fifo", "messages", "seed")
STAMP_SIZES = ("entries", "facts", "bytes", "paper_bytes")
MEASURED = tuple(f"{name}_per_{what}" for what in ("copy", "message") for name in STAMP_SIZES)
KEPT_COLUMNS = (*SETTING_COLUMNS, *(f"{name}{end}" for name in MEASURED for end in ("", "_ci95")), "log_size",
                "log_size_max", "measured_copies", "early", "stuck")  # fmt: skip
"""what of a simulated run is kept as a row"""


def rows_with(rows: DataRows, **where: Cell) -> list[Row]:
    """Return the rows with these values."""
    return [row for row in rows if all(row[key] == value for key, value in where.items())]


def mean_of(rows: Sequence[Row], measure: str) -> Estimate:
    """Return the mean of a measure over seeds with its interval; of one seed, that of its batch means."""
    values = [row[measure] for row in rows if row[measure] is not None]
    over = estimate(values)
    if over is None:
        raise NoDataError(measure)
    half = rows[0].get(f"{measure}_ci95") if len(values) == 1 else over.half
    return Estimate(over.mean, half, over.values)


def curve(rows: DataRows, measure: str, x: str = "processes", **where: Cell) -> dict[Any, Estimate]:
    """Return a measure over an axis, joined over the seeds."""
    chosen = rows_with(rows, **where)
    if not chosen:
        raise NoDataError(", ".join(f"{key} {value}" for key, value in where.items()))
    return {at: mean_of([row for row in chosen if row[x] == at], measure) for at in _values(chosen, x)}


def growth(rows: DataRows, measure: str, **where: Cell) -> Estimate:
    """Return the exponent with which a measure grows with n, fitted for each seed; needs three sizes."""
    chosen = rows_with(rows, **where)
    fits = [fit([row for row in chosen if row["seed"] == seed], measure) for seed in _values(chosen, "seed")]
    found = estimate(fits)
    if found is None:
        raise NoDataError(", ".join(f"{key} {value}" for key, value in where.items()))
    return found


def fit(rows: DataRows, measure: str) -> float:
    """Return the slope of log(measure) over log(n), by least squares."""
    points = [(log(row["processes"]), log(row[measure])) for row in rows if row[measure]]
    if len({x for x, _ in points}) < 3:
        raise NoDataError("growth needs at least three numbers of processes")
    middle_x, middle_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    above = sum((x - middle_x) * (y - middle_y) for x, y in points)
    return float(above / sum((x - middle_x) ** 2 for x, _ in points))


def exact(values: Iterable[float]) -> Estimate:
    """Return a mean of values that chance has no part in."""
    given = list(values)
    if not given:
        raise NoDataError("nothing counted")
    return Estimate(sum(given) / len(given), 0.0, len(given))


def quotient(one: Estimate, other: Estimate) -> Estimate:
    """Return the quotient of two means with the interval that theirs give, to first order, if they are independent."""
    share = one.mean / other.mean
    if one.half is None or other.half is None:
        return Estimate(share, None, min(one.values, other.values))
    return Estimate(share, share * hypot(one.half / one.mean, other.half / other.mean), min(one.values, other.values))


def total(rows: DataRows, column: str) -> int:
    """Add up a column of counts."""
    if not rows:
        raise NoDataError(column)
    return sum(int(row[column]) for row in rows)


def _values(rows: DataRows, key: str) -> list[Any]:
    return sorted({row[key] for row in rows})
