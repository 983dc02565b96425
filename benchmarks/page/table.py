"""Print the table of docs/how-to/show.md from results/page.json: medians of rounds, the worst p95 of any window."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "results" / "page.json"


def rows_of(result: dict[str, Any]) -> list[str]:
    lines = ["| events | way | first picture | p95 of frames, worst window | file |", "|---|---|---|---|---|"]
    for way, size in dict.fromkeys((row["way"], row["events"]) for row in result["rows"]):
        mine = [row for row in result["rows"] if (row["way"], row["events"]) == (way, size)]
        firsts = [row["first_picture_ms"] for row in mine]
        first = f"not in {result['limit_s']:.0f} s" if None in firsts else f"{statistics.median(firsts) / 1000:.2f} s"
        windows = [name for name in mine[0] if name.startswith("frames_")]
        worst = [statistics.median(row[name]["p95_ms"] for row in mine if row[name]) for name in windows]
        frames = f"{max(worst):.0f} ms" if worst else "none measured"
        lines.append(f"| {size:,} | {way} | {first} | {frames} | {mine[0]['bytes'] / 1e6:.2f} MB |")
    return lines


if __name__ == "__main__":
    print("\n".join(rows_of(json.loads(RESULT.read_text()))))
