"""What docs/explanation/delivery-rule.md says of the rule's own cost: made from `results/rule.json`.

python benchmarks/deliver/shown.py
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs" / "explanation/delivery-rule.md"
START, END = "<!-- made by benchmarks/deliver/shown.py from results/rule.json -->", "<!-- end -->"


def said(found: dict[str, dict[str, list[float]]]) -> str:
    """Return the table."""
    lines = ["| microseconds of CPU a row, unless seconds are named | now | 0.1.0 |", "|---|---|---|"]
    for case, times in found.items():
        now, before = (f"{median(times[name]):.2f}" if name in times else "" for name in ("now", "before"))
        lines.append(f"| {case} | {now} | {before} |")
    return "\n".join(lines)


def written(page: str) -> str:
    """Return the page with the table as the results have it."""
    found = json.loads((HERE / "results" / "rule.json").read_text())
    head, _, rest = page.partition(START)
    _, _, tail = rest.partition(END)
    return f"{head}{START}\n\n{said(found['microseconds of CPU a row, unless seconds are named'])}\n\n{END}{tail}"


if __name__ == "__main__":
    DOCS.write_text(written(DOCS.read_text(encoding="utf-8")), encoding="utf-8")
