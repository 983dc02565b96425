"""The table of docs/explanation/audit.md: made from `results/table.json`.

python benchmarks/audit/shown.py
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs" / "explanation/audit.md"
END = "<!-- end -->\n"
TRACES = {"5k": "5 thousand events", "500k": "500 thousand", "10m": "10 million", "chains": "chains"}
WAYS = {
    "local, one core": ("thence", "local, one core"),
    "local, two cores": ("thence", "local, two cores"),
    "Spark, cold": ("thence", "Spark, cold"),
    "Spark, warm": ("thence", "Spark, the second audit in a session"),
    "a loop by hand": ("a loop by hand", "a loop by hand (`by_hand.py`)"),
    "Polars": ("Polars", "Polars (`by_polars.py`)"),
}


def table(found: dict[str, Any]) -> str:
    """Return the table."""
    lines = [f"| | lines | {' | '.join(TRACES.values())} | measured at |", "|---" * (len(TRACES) + 3) + "|"]
    for way, (code, called) in WAYS.items():
        rows = {trace: found.get(f"{trace}: {way}") for trace in TRACES}
        commits = sorted({row.get("commit", "a version that was not noted") for row in rows.values() if row})
        cells = [_cell(row, found.get(f"{trace}: local, two cores")) for trace, row in rows.items()]
        lines.append(f"| {called} | {found['lines of code'][code]} | {' | '.join(cells)} | {', '.join(commits)} |")
    return "\n".join(lines) + "\n"


def _cell(row: dict[str, Any] | None, known: dict[str, Any] | None) -> str:
    """Return the fastest round of a way on a trace, and what it missed of the violations that there are."""
    if row is None:
        return "not measured"
    best = min(row["rounds"], key=lambda each: float(each["seconds"]))
    said = f"{best['seconds']:.1f} s, {best['peak_mb']:,} MB"
    missed = known["violations"] - row["violations"] if known else 0
    return said + (f", misses {missed:,} of {known['violations']:,}" if known and missed else "")


def written(text: str) -> str:
    """Return the page with what is made from results made anew."""
    return replaced(text, HERE, "table", table)


def replaced(text: str, folder: Path, name: str, made: Callable[[dict[str, Any]], str]) -> str:
    """Return a page with what its folder of benchmarks makes of one of its results made anew."""
    begin = f"<!-- made by benchmarks/{folder.name}/shown.py from results/{name}.json -->\n"
    before, found, rest = text.partition(begin)
    assert found, f"the page has no line {begin}"
    _, _, after = rest.partition(END)
    results = json.loads((folder / "results" / f"{name}.json").read_text())
    return f"{before}{begin}\n{made(results)}\n{END}{after}"


def main() -> None:
    """Write it into the page."""
    DOCS.write_text(written(DOCS.read_text()))


if __name__ == "__main__":
    main()
