"""Executions that once failed, kept as files; `python -m support.corpus` (from the folder tests) finds and adds more.

A file is never written anew: it shows what once went wrong, and whatever changes since must still not go wrong there.
"""

from __future__ import annotations

from pathlib import Path

from check.test_errata_found import FOUND

from thence.check.shrink import find
from thence.papers.variants import setting_of

FOLDER = Path(__file__).parents[1] / "data" / "executions"
SHOWN = Path(__file__).parents[2] / "benchmarks" / "explore" / "results"


def files() -> list[Path]:
    """Return the corpus: what is kept here, and the executions that docs/errata.md replays."""
    return sorted([*FOLDER.glob("*.json"), *(path for path in SHOWN.glob("*.json") if path.stem != "speed")])


if __name__ == "__main__":
    for _, name, size, _, _ in FOUND:
        target = FOLDER / f"{name}.json"
        if not target.exists():
            _, smallest = find(setting_of(name, **size))
            assert smallest is not None, name
            target.write_text(smallest.witness.dumps(), encoding="utf-8")
            print(f"added {target.name}")
