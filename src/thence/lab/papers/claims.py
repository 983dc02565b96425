"""A claim of a paper, the threshold it is held to, and the verdict that the measured rows give.

Invariant: a verdict is a function of rows alone; alter the rows and it changes. *Reproduced* and *differs* need an
interval that lies wholly on one side of the threshold. *Not determinable*: the interval straddles the threshold, there
is no interval (one run alone), the answer depends on what the paper leaves open, or there are no rows. *Fitted*: the
rows meet the threshold, but they come from a reconstruction whose rules were chosen to match this paper's figures.

A question about rows is answered yes, no or None; one no makes `differs`, else one None makes `not determinable`. Where
a paper leaves something open, each choice is asked by itself (`every`), and only an answer that all choices share
counts (`several`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from thence.core.model.plain import Row
from thence.lab.simulator.confidence import Estimate

ClaimVerdict = Literal["reproduced", "fitted", "differs", "not determinable"]
CLAIM_VERDICTS: tuple[ClaimVerdict, ...] = ("reproduced", "fitted", "differs", "not determinable")
DataRows = Sequence[Row]
DataSets = Mapping[str, DataRows]
"""the data sets of one paper by name"""
ClaimAnswer = bool | None
At = TypeVar("At")
"""A value of the axis that estimates are over."""


class NoDataError(Exception):
    """The measurements that a claim needs are missing."""


@dataclass(frozen=True, slots=True)
class ClaimJudgement:
    """The verdict on a claim and our value, in words."""

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
    fitted: bool = False
    """rests on a reconstruction that was fitted to the paper's own figures: it can differ, but confirms nothing"""

    def find(self, data: DataSets) -> ClaimJudgement:
        """Judge the rows; without rows the verdict is `not determinable`."""
        try:
            judged = self.judge(data)
        except NoDataError as missing:
            return ClaimJudgement("not determinable", f"not measured: {missing}")
        return ClaimJudgement("fitted", judged.ours) if self.fitted and judged.verdict == "reproduced" else judged


def found(answers: Iterable[ClaimAnswer], ours: str) -> ClaimJudgement:
    """Combine answers: all yes means reproduced, one no means differs, anything else is not determinable."""
    given = list(answers)
    if False in given:
        return ClaimJudgement("differs", ours)
    return ClaimJudgement("reproduced" if given and None not in given else "not determinable", ours)


def less(one: Estimate, other: Estimate) -> ClaimAnswer:
    """Return whether one is below the other; None where the intervals overlap or one is missing."""
    if one.half is None or other.half is None:
        return None
    apart = other.mean - one.mean
    return None if abs(apart) <= one.half + other.half else apart > 0


def interval_within(value: Estimate, least: float, most: float) -> ClaimAnswer:
    """Return whether the interval lies within these bounds; None where it straddles one or is missing."""
    if value.half is None:
        return None
    low, high = value.mean - value.half, value.mean + value.half
    if least <= low and high <= most:
        return True
    return False if high < least or low > most else None


def near(value: Estimate, target: float, share: float) -> ClaimAnswer:
    """Return whether the interval lies within this share of the target."""
    return interval_within(value, target * (1 - share), target * (1 + share))


def every(answers: Sequence[ClaimAnswer]) -> ClaimAnswer:
    """Combine the answers for one choice of what is open: no if one is no, yes if all are yes."""
    return False if False in answers else None if None in answers or not answers else True


def several(answers: Sequence[ClaimAnswer]) -> ClaimAnswer:
    """Combine the answers of all choices of what is open: yes or no if they agree, else None."""
    return answers[0] if answers and len(set(answers)) == 1 else None


def words(values: Mapping[At, Estimate]) -> str:
    """Return estimates as text: `10: 12.2 ± 0.3, 20: ...`."""
    return ", ".join(f"{key}: {estimate_text(value)}" for key, value in values.items())


def estimate_text(value: Estimate) -> str:
    """Return an estimate as text, without powers of ten."""
    if abs(value.mean) < 1000 and (value.half or 0.0) < 100:
        return str(value)
    return f"{value.mean:.0f}" + ("" if value.half is None else f" ± {value.half:.0f}")
