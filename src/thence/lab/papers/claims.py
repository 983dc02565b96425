"""A claim of a paper, the threshold it is held to, and the verdict that the measured rows give.

Law. A verdict is a function of rows alone: alter the rows and it changes. There are three: *reproduced*, *differs*, and
*not determinable*, where an interval straddles the threshold, where the answer depends on what the paper leaves open,
or where the rows are not there. A question about rows is answered yes, no or None; one no makes `differs`, else one
None makes `not determinable`. Where a paper leaves something open, each choice of it is asked by itself (`every`), and
only what all of them answer alike counts (`several`): a no for one choice and a yes for another cannot be told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from thence.core.model.plain import Row
from thence.lab.simulator.confidence import Estimate

ClaimVerdict = Literal["reproduced", "differs", "not determinable"]
VERDICTS: tuple[ClaimVerdict, ...] = ("reproduced", "differs", "not determinable")
DataRows = Sequence[Row]
DataSets = Mapping[str, DataRows]
"""the data sets of one paper by name"""
ClaimAnswer = bool | None
At = TypeVar("At")
"""A value of the axis that estimates are over."""


class NoDataError(Exception):
    """What a claim needs was not measured."""


@dataclass(frozen=True, slots=True)
class ClaimJudgement:
    """What became of a claim: the verdict and our value, in words."""

    verdict: ClaimVerdict
    ours: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A value or statement of a paper."""

    id: str
    where: str
    published: str
    threshold: str
    """when it counts as reproduced, and when not, in words"""
    judge: Callable[[DataSets], ClaimJudgement]

    def find(self, data: DataSets) -> ClaimJudgement:
        """Judge the rows; what was not measured cannot be told."""
        try:
            return self.judge(data)
        except NoDataError as missing:
            return ClaimJudgement("not determinable", f"not measured: {missing}")


def found(answers: Iterable[ClaimAnswer], ours: str) -> ClaimJudgement:
    """Join answers: all yes is reproduced, one no differs, anything else cannot be told."""
    given = list(answers)
    if False in given:
        return ClaimJudgement("differs", ours)
    return ClaimJudgement("reproduced" if given and None not in given else "not determinable", ours)


def low(value: Estimate) -> float:
    """Return the lower end of the interval."""
    return value.mean - (value.half or 0.0)


def high(value: Estimate) -> float:
    """Return the upper end of the interval."""
    return value.mean + (value.half or 0.0)


def less(one: Estimate, other: Estimate) -> ClaimAnswer:
    """Tell whether one is below the other; None where the intervals overlap."""
    return True if high(one) < low(other) else False if low(one) > high(other) else None


def between(value: Estimate, least: float, most: float) -> ClaimAnswer:
    """Tell whether the interval lies within these bounds; None where it straddles one."""
    if least <= low(value) and high(value) <= most:
        return True
    return False if high(value) < least or low(value) > most else None


def near(value: Estimate, target: float, share: float) -> ClaimAnswer:
    """Tell whether the interval lies within this share of the target."""
    return between(value, target * (1 - share), target * (1 + share))


def every(answers: Sequence[ClaimAnswer]) -> ClaimAnswer:
    """Answer for one choice of what is open: no if one says no, yes if all say yes."""
    return False if False in answers else None if None in answers or not answers else True


def several(answers: Sequence[ClaimAnswer]) -> ClaimAnswer:
    """Answer for something open: yes or no if every choice says so, else None."""
    return answers[0] if answers and len(set(answers)) == 1 else None


def words(values: Mapping[At, Estimate]) -> str:
    """Return estimates as text: `10: 12.2 ± 0.3, 20: ...`."""
    return ", ".join(f"{key}: {shown(value)}" for key, value in values.items())


def shown(value: Estimate) -> str:
    """Return an estimate as text, without powers of ten."""
    if abs(value.mean) < 1000 and (value.half or 0.0) < 100:
        return str(value)
    return f"{value.mean:.0f}" + ("" if value.half is None else f" ± {value.half:.0f}")
