"""What is left to the soak, and its results, kept where they can be committed: benchmarks/soak/results/NAME.json."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from thence.core.wire import reader_cy

RESULTS = Path(__file__).parents[2] / "benchmarks" / "soak" / "results"
HOW = "compiled" if reader_cy.__file__.endswith((".so", ".pyd")) else "uncompiled"


def first(ordinary: int, values: Sequence[Any]) -> list[Any]:
    """Return parameters of a test: the first few for every day; the others, more of the same, for the soak."""
    return [*values[:ordinary], *(pytest.param(value, marks=pytest.mark.soak) for value in values[ordinary:])]


def keep(name: str, key: str, row: dict[str, Any]) -> None:
    """Print a row and put it in the place of the one that an earlier run left."""
    print(f"{key}: {row}")
    file = RESULTS / f"{name}.json"
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    kept[key] = {**row, "python": platform.python_version()}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n", encoding="utf-8")
