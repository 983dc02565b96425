"""Reproduces papers: runs the measurements and judges every claim; `show.reproduced` writes the page.

Invariant: the rows depend on the scale, its seed and the version of thence alone, not on who ran the simulations.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from thence import __version__
from thence.core.model.plain import Row
from thence.lab.papers import bounded, ci_dc, costs, genuine, ks98, separators
from thence.lab.papers.claims import CLAIM_VERDICTS, Claim, ClaimJudgement, DataRows, DataSets
from thence.lab.papers.estimates import KEPT_COLUMNS
from thence.lab.papers.paper import Paper, Scale
from thence.lab.sweep.grid import Grid
from thence.tables.result_table import Cell, ResultTable

PAPERS: dict[str, Paper] = {
    module.PAPER.name: module.PAPER for module in (ks98, ci_dc, separators, genuine, bounded, costs)
}
RunGrid = Callable[[Grid, Path], Iterable[Row]]
"""runs a grid, keeping its files in a folder, and returns a row for each scenario"""
During = Callable[[str], AbstractContextManager[object]]


@dataclass(slots=True)
class Reproduced:
    """A paper with its rows and the verdicts on its claims."""

    paper: Paper
    data: DataSets
    findings: list[tuple[Claim, ClaimJudgement]]
    broken: list[str] = field(default_factory=list)
    """protocols that broke their promise on the way: nothing that follows can be trusted"""

    def row(self) -> Row:
        """Return it as plain data, the rows left out."""
        claims = [
            {"claim": claim.id, "where": claim.where, "published": claim.published, "threshold": claim.threshold,
             "verdict": finding.verdict, "ours": finding.ours}
            for claim, finding in self.findings
        ]  # fmt: skip
        return {"paper": self.paper.name, "title": self.paper.title, "open": list(self.paper.open), "claims": claims}

    def verdicts(self) -> ResultTable:
        """Return the table of claims: the published value beside ours."""
        rows = tuple((c.where, c.published, f.ours, f.verdict, c.threshold) for c, f in self.findings)
        return ResultTable("Claims", ("where", "published", "ours", "verdict", "reproduced if"), rows)


def reproduce(paper: Paper, scale: Scale, run: RunGrid, folder: Path, *, during: During = nullcontext) -> Reproduced:
    """Measure a paper and judge its claims; what is in `folder` is not run again. `during` shows what is measured."""
    data: dict[str, DataRows] = {}
    broken: list[str] = []
    grid = paper.grid(scale)
    if grid is not None:
        rows = list(run(grid, folder))
        broken = [f"{row['run']}: {problem}" for row in rows if (problem := _problem(row))]
        data["runs"] = [{key: row[key] for key in KEPT_COLUMNS} for row in rows if row["status"] == "done"]
    with during(f"Measuring {paper.name}"):
        data |= _measured(paper, scale, folder)
    return Reproduced(paper, data, [(claim, claim.find(data)) for claim in paper.claims], broken)


def _problem(row: Row) -> str:
    if row["status"] != "done":
        return str(row["error"])
    return "delivered before a cause" if row["early"] else "waits forever" if row["stuck"] else ""


def _measured(paper: Paper, scale: Scale, folder: Path) -> dict[str, DataRows]:
    """Measure what is not simulated, or read it from the folder; both pass through JSON, so that the rows are equal."""
    key = {"version": __version__, "level": scale.level, "processes": list(scale.processes), "seed": scale.seed}
    kept = folder / "measured.json"
    if kept.exists():
        before = json.loads(kept.read_text(encoding="utf-8"))
        if before["key"] == key:
            return dict(before["data"])
    written = json.dumps({"key": key, "data": paper.measure(scale)})
    folder.mkdir(parents=True, exist_ok=True)
    kept.write_text(written, encoding="utf-8")
    return dict(json.loads(written)["data"])


def count_verdicts(made: Sequence[Reproduced]) -> ResultTable:
    """Return the number of claims of each paper with each verdict."""
    rows: list[tuple[Cell, ...]] = [
        (each.paper.title, *(sum(f.verdict == verdict for _, f in each.findings) for verdict in CLAIM_VERDICTS))
        for each in made if each.findings
    ]  # fmt: skip
    return ResultTable("Verdicts", ("paper", *CLAIM_VERDICTS), tuple(rows))
