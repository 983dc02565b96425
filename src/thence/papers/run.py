"""From papers to a folder: run what is wanted, judge every claim, write rows, pictures and one page.

    DIR/index.html            the page
    DIR/reproduce.json        the command, and every claim with its verdict
    DIR/data/PAPER.SET.csv    the rows behind it
    DIR/plots/NAME.png, .svg
    DIR/runs/                 simulations and measurements that need not be run again; may be removed

Law. The files depend on the scale, its seed and the version of thence alone, whoever ran the simulations.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from thence import __version__
from thence.model.plain import Fields, Row
from thence.papers import bounded, ci_dc, costs, genuine, ks98, separators
from thence.papers.claims import VERDICTS, Claim, Data, Finding, NoDataError, Rows
from thence.papers.paper import Paper, Scale
from thence.papers.rows import KEPT
from thence.report.results_page import Links, Part, Picture, Section, Words, page
from thence.report.spacetime.simulated import side_by_side_page
from thence.report.tables import Cell, Table, text
from thence.sim.grid import Grid

PAPERS: dict[str, Paper] = {
    module.PAPER.name: module.PAPER for module in (ks98, ci_dc, separators, genuine, bounded, costs)
}
Run = Callable[[Grid, Path], Iterable[Row]]
"""runs a grid, keeping its files in a folder, and returns a row for each scenario"""
During = Callable[[str], AbstractContextManager[object]]


def _silent(what: str) -> AbstractContextManager[object]:
    return nullcontext()


@dataclass(slots=True)
class Reproduced:
    """A paper with its rows and what became of its claims."""

    paper: Paper
    data: Data
    findings: list[tuple[Claim, Finding]]
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

    def verdicts(self) -> Table:
        """Return published beside ours."""
        rows = tuple((c.where, c.published, f.ours, f.verdict, c.threshold) for c, f in self.findings)
        return Table("Claims", ("where", "published", "ours", "verdict", "reproduced if"), rows)


def reproduce(paper: Paper, scale: Scale, run: Run, folder: Path, *, during: During = _silent) -> Reproduced:
    """Measure a paper and judge its claims; what is in `folder` is not run again. `during` shows what is measured."""
    data: dict[str, Rows] = {}
    broken: list[str] = []
    grid = paper.grid(scale)
    if grid is not None:
        rows = list(run(grid, folder))
        broken = [f"{row['run']}: {problem}" for row in rows if (problem := _problem(row))]
        data["runs"] = [{key: row[key] for key in KEPT} for row in rows if row["status"] == "done"]
    with during(f"Measuring {paper.name}"):
        data |= _measured(paper, scale, folder)
    return Reproduced(paper, data, [(claim, claim.find(data)) for claim in paper.claims], broken)


def _problem(row: Row) -> str:
    if row["status"] != "done":
        return str(row["error"])
    return "delivered before a cause" if row["early"] else "waits for ever" if row["stuck"] else ""


def _measured(paper: Paper, scale: Scale, folder: Path) -> dict[str, Rows]:
    """Measure what is not simulated, or take it from the folder; the same either way, so it passes through JSON."""
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


def counted(made: Sequence[Reproduced]) -> Table:
    """Return how many claims of each paper came out how."""
    rows: list[tuple[Cell, ...]] = [
        (each.paper.title, *(sum(f.verdict == verdict for _, f in each.findings) for verdict in VERDICTS))
        for each in made if each.findings
    ]  # fmt: skip
    return Table("Verdicts", ("paper", *VERDICTS), tuple(rows))


def write(out: Path, made: Sequence[Reproduced], command: str) -> Row:
    """Write everything, and return what is in reproduce.json."""
    from thence.report.plots import save, svg

    result = {"command": command, "thence": __version__, "papers": [each.row() for each in made]}
    for folder in ("data", "plots"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    sections = [Section("Verdicts", [Words(command, plain=True), counted(made)])]
    for each in made:
        for name, rows in each.data.items():
            _write_rows(out / "data" / f"{each.paper.name}.{name.replace(' ', '-')}.csv", rows)
        parts: list[Part] = [*map(Words, each.paper.open), *([each.verdicts()] if each.findings else [])]
        try:
            for name, drawn in each.paper.plots(each.data).items():
                image = svg(drawn)  # once: a second drawing moves things by a hair
                (out / "plots" / f"{name}.svg").write_bytes(image)
                save(drawn, out / "plots" / f"{name}.png")
                parts.append(Picture(image, name.replace("-", " ")))
            parts += each.paper.tables(each.data)
        except NoDataError as missing:
            parts.append(Words(f"The rest cannot be shown; not measured: {missing}."))
        sections.append(Section(each.paper.title, parts))
    (out / "space-time.html").write_text(side_by_side_page(SHOWN), encoding="utf-8")
    sections.append(Section("See it", [Links([(f"{', '.join(SHOWN)} on the same traffic", "space-time.html")])]))
    (out / "reproduce.json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / "index.html").write_text(page("The papers, measured again", sections, lead=LEAD), encoding="utf-8")
    return result


SHOWN = ("ks", "rst", "unordered")
"""Protocols that the page of pictures shows side by side."""

LEAD = (
    "What five papers on causal order publish, beside what the same experiments give here. Each verdict follows from "
    "the rows under data/ by the threshold in its last column; ± is half the width of a 95 % interval."
)


def _write_rows(path: Path, rows: Rows) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        columns = list(rows[0]) if rows else []
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(row[column]) for column in columns] for row in rows)


def _cell(value: Cell | Fields) -> str:
    if isinstance(value, Mapping):
        return json.dumps(value, separators=(",", ":"))
    return f"{value:.6g}" if isinstance(value, float) else text(value)
