"""What docs/deliver.md says of few rows and of the first use: made from `results/compiling.json`.

python benchmarks/deliver/shown.py
"""

from __future__ import annotations

import runpy
from pathlib import Path
from statistics import median
from typing import Any

from thence.delivery.local import PLAIN_UP_TO

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs" / "deliver.md"
FEW, FIRST = "few rows: ", "first use: "
CALLED = {"depends_on": "explicit causes", "clock": "clocks of 20 components", "stamp": "stamps of 20 entries"}


def said(found: dict[str, Any]) -> str:
    """Return both tables."""
    few = [_few(by, found[FEW + by]) for by in CALLED]
    first = [_first(name.removeprefix(FIRST), one) for name, one in found.items() if name.startswith(FIRST)]
    return "\n".join(
        [
            "| rows of one table | in plain Python up to | CPU seconds there, at half as many, all, and twice as many "
            "| by arrays, loaded from the cache |",
            "|---|---|---|---|",
            *few,
            "",
            "| first use, an empty cache | rows | CPU seconds for compiling | in all | the next time, in all "
            "| before: compiling, in all | load of the machine |",
            "|---|---|---|---|---|---|---|",
            *first,
            "",
        ]
    )


def _few(by: str, one: dict[str, Any]) -> str:
    sizes = one["CPU seconds"]
    limit = PLAIN_UP_TO[by]  # type: ignore[index]
    assert list(sizes) == [str(limit // 2), str(limit), str(2 * limit)], f"{by} was measured around another limit"
    plain, arrays = (", ".join(f"{each[way]:.1f}" for each in sizes.values()) for way in ("plain", "by arrays"))
    return f"| {CALLED[by]} | {limit:,} | {plain} | {arrays} |"


def _first(name: str, one: dict[str, Any]) -> str:
    now, before = one["now"], one.get("before", [])
    compiling, whole = (_middle(now, "first", what) for what in ("compiling_cpu_seconds", "cpu_seconds"))
    earlier = [_middle(before, "first", what) for what in ("compiling_cpu_seconds", "cpu_seconds")] if before else []
    return (
        f"| {name} | {one['rows']:,} | {compiling} | {whole} | {_middle(now, 'again', 'cpu_seconds')} "
        f"| {', '.join(earlier)} | {one['load of the machine']:.0f} |"
    )


def _middle(rounds: list[dict[str, Any]], which: str, what: str) -> str:
    return f"{median(each[which][what] for each in rounds):.1f}"


def written(text: str) -> str:
    """Return the page with what is made from results made anew."""
    replaced = runpy.run_path(str(HERE.parent / "audit" / "shown.py"))["replaced"]
    made: str = replaced(text, HERE, "compiling", said)
    return made


def main() -> None:
    """Write it into the page."""
    DOCS.write_text(written(DOCS.read_text()))


if __name__ == "__main__":
    main()
