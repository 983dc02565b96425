"""What benchmarks/multicast/run.py found; docs/explanation/paper-genuine-multicast.md is made from it."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

PLACE = Path(__file__).parents[2] / "benchmarks" / "multicast"
MEASURE: dict[str, Any] = runpy.run_path(str(PLACE / "run.py"))
"""the functions, by name"""
FOUND: dict[str, Any] = json.loads((PLACE / "results" / "multicast.json").read_text(encoding="utf-8"))
