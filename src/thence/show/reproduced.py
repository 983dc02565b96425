"""The result of `thence reproduce` as a folder: one page, rows, plots.

DIR/index.html            the page
DIR/reproduce.json        the command, and every claim with its verdict
DIR/data/PAPER.SET.csv    the rows behind it
DIR/plots/NAME.png, .svg
DIR/runs/                 simulations and measurements that need not be run again; may be removed

`side_by_side_page` runs protocols on one small simulated traffic: the runs differ in the protocol alone, each is
audited, and the same arguments give the same page.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from thence import __version__
from thence.core.model.events import Event
from thence.core.model.plain import Fields, Row
from thence.lab.papers.claims import DataRows, NoDataError
from thence.lab.papers.run import Reproduced, count_verdicts
from thence.lab.simulator import Scenario, simulate
from thence.show import plots
from thence.show.results_page import Links, Paragraph, Part, Picture, Section, results_page
from thence.show.spacetime.findings import findings_of
from thence.show.spacetime.pages import Recorded, one_page
from thence.tables.engines.local.audit import audit_events
from thence.tables.result_table import Cell, text


def side_by_side(protocols: Sequence[str], *, seed: int) -> Recorded:
    """Return what some protocols do on the same traffic, and what is wrong with it."""
    events: list[Event] = []
    for name in protocols:
        scenario = Scenario(protocol=name, processes=4, messages=24, seed=seed, run=name)
        events += [e for e in simulate(scenario, trace=True, stamps=True).events if e.run == name]
    with audit_events(events) as audit:
        verdicts = {run["run"]: run["verdict"] for run in audit.run_rows}
        return Recorded(events, findings_of(audit), verdicts, {}, " beside ".join(protocols))


def side_by_side_page(protocols: Sequence[str] = ("ks", "unordered"), *, seed: int = 1) -> str:
    """Return the page of some protocols on the same traffic."""
    lead = "The same messages, sent at the same times, under each protocol. Step with the arrow keys."
    return one_page(side_by_side(protocols, seed=seed), lead=lead)


def write_reproduced(out: Path, made: Sequence[Reproduced], command: str) -> Row:
    """Write all files, and return the content of reproduce.json."""
    result = {"command": command, "thence": __version__, "papers": [each.row() for each in made]}
    for folder in ("data", "plots"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    sections = [Section("Verdicts", [Paragraph(command, plain=True), count_verdicts(made)])]
    for each in made:
        for name, rows in each.data.items():
            _write_rows(out / "data" / f"{each.paper.name}.{name.replace(' ', '-')}.csv", rows)
        parts: list[Part] = [*map(Paragraph, each.paper.open), *([each.verdicts()] if each.findings else [])]
        try:
            for name, drawn in each.paper.plots(each.data, plots).items():
                image = plots.svg(drawn)  # once: matplotlib shifts elements slightly when a figure is drawn again
                (out / "plots" / f"{name}.svg").write_bytes(image)
                plots.save(drawn, out / "plots" / f"{name}.png")
                parts.append(Picture(image, name.replace("-", " ")))
            parts += each.paper.tables(each.data)
        except NoDataError as missing:
            parts.append(Paragraph(f"Some claims cannot be shown; not measured: {missing}."))
        sections.append(Section(each.paper.title, parts))
    (out / "space-time.html").write_text(side_by_side_page(PICTURED), encoding="utf-8")
    sections.append(Section("See it", [Links([(f"{', '.join(PICTURED)} on the same traffic", "space-time.html")])]))
    (out / "reproduce.json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / "index.html").write_text(results_page("The papers, measured again", sections, lead=LEAD), encoding="utf-8")
    return result


PICTURED = ("ks", "rst", "unordered")
"""Protocols that the page of pictures shows side by side."""

LEAD = (
    "What five papers on causal order publish, beside what the same experiments give here. Each verdict follows from "
    "the rows under data/ by the threshold in its last column; ± is half the width of a 95 % interval."
)


def _write_rows(path: Path, rows: DataRows) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        columns = list(rows[0]) if rows else []
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(row[column]) for column in columns] for row in rows)


def _cell(value: Cell | Fields) -> str:
    if isinstance(value, Mapping):
        return json.dumps(value, separators=(",", ":"))
    return f"{value:.6g}" if isinstance(value, float) else text(value)
