"""The report of a cost replay, on either engine: rows for each run, protocol and need, and a recommendation.

Invariant: Totals add up over the causal runs alone; means are quotients of totals, by the one list `MEANS`. The same
rows give the same report, whether this process or Spark made them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from thence.core.model.plain import Fields, Row
from thence.tables.costing.recommend import Recommendation, recommend
from thence.tables.costing.replay import Cost
from thence.tables.costing.traffic import NeedFinding

_STAMPS = ("entries", "facts", "bytes", "paper_bytes")
MEANS: dict[str, tuple[tuple[str, ...], str]] = {
    **{f"{name}_per_copy": ((name,), "copies") for name in _STAMPS},
    **{f"{name}_per_message": ((name,), "messages") for name in _STAMPS},
    "all_bytes_per_message": (("bytes", "hop_bytes"), "messages"),
    "warm_bytes_per_message": (("third_bytes", "last_bytes"), "warm_messages"),
    "log_size": (("log",), "messages"),
    "held_share": (("held",), "deliveries"),
    "hold_per_copy": (("held_seconds",), "deliveries"),
}
"""each mean: the totals that are added, and the total by which their sum is divided"""


def means(totals: Fields) -> dict[str, float | None]:
    """Return the means of a row of totals; null where a total is unknown or there is nothing to divide by."""
    found: dict[str, float | None] = {}
    for name, (parts, by) in MEANS.items():
        added = [totals[part] for part in parts]
        found[name] = sum(added) / totals[by] if totals[by] and None not in added else None
    return found


@dataclass(slots=True)
class CostReport:
    """The tables of a replay, sorted for people, and the recommendation."""

    recommendation: Recommendation
    protocols: list[Row]
    """one row per protocol over the causal runs, the recommended ones first: totals and means"""
    needs: dict[str, Row]
    """of each need, whether every causal run meets it, and why"""
    runs: list[Row]
    """one row per run and label: its profile"""
    costs: list[Row]
    """one row per run, label and protocol"""
    quarantine: list[Row] = field(default_factory=list)
    """file, line and reason of what could not be read"""

    @property
    def causal(self) -> bool:
        """Whether there are runs, every run is causal, and everything could be read."""
        return bool(self.runs) and not self.quarantine and all(run["verdict"] == "causal" for run in self.runs)

    def close(self) -> None:
        """Release the frames behind the result on Spark; in this process there is nothing to release."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def json(self) -> Row:
        """Return it as `cost --json` writes it."""
        return {
            "recommendation": self.recommendation.row(),
            "protocols": self.protocols,
            "needs": self.needs,
            "runs": self.runs,
            "costs": self.costs,
            "quarantine": self.quarantine,
        }


def report_of(runs: Sequence[Row], costs: Sequence[Row], summary: Sequence[Row], needs: Sequence[Row]) -> CostReport:
    """Put the rows of a replay together."""
    choice = choice_of(summary, needs)
    place = {name: number for number, (name, _) in enumerate(choice.ranking)}
    return CostReport(
        choice,
        sorted(summary, key=lambda row: (place.get(row["protocol"], len(place)), row["protocol"])),
        {
            row["need"]: {"met": row["met"], "why": row["why"]}
            for row in sorted(needs, key=lambda row: str(row["need"]))
        },
        sorted(runs, key=_run_and_label),
        sorted(costs, key=lambda row: (_run_and_label(row), row["protocol"])),
    )


def choice_of(summary: Sequence[Fields], needs: Sequence[Fields]) -> Recommendation:
    """Choose from the rows of a summary and of its needs."""
    if not summary:
        return Recommendation(None, "no run is causal, so there is nothing to recommend from")
    found = {row["need"]: NeedFinding(row["met"], row["why"]) for row in needs}
    return recommend(found, {row["protocol"]: Cost(**{name: row[name] for name in Cost.__slots__}) for row in summary})


def _run_and_label(row: Fields) -> tuple[str, str]:
    return row["run"] or "", row["label"] or ""
