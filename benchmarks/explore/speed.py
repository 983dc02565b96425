"""How fast the explorer is, and what the reductions save against naive enumeration on the same system.

    python benchmarks/explore/speed.py benchmarks/explore/results/speed.json

`states` and `executions` do not depend on the machine; seconds are processor seconds of this one.
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path
from time import process_time
from typing import Any

from thence.lab.explorer.search import explore
from thence.lab.explorer.setting import Setting

AGAINST_NAIVE = [
    {"protocol": "ks", "processes": 3, "messages": 3},
    {"protocol": "ks", "processes": 3, "messages": 4},
    {"protocol": "ks", "processes": 3, "messages": 4, "fifo": True},
    {"protocol": "ks", "processes": 3, "messages": 3, "destinations": "any"},
    {"protocol": "ks", "processes": 4, "messages": 3},
    {"protocol": "rst", "processes": 3, "messages": 4},
    {"protocol": "a-causal", "processes": 3, "messages": 2, "crashes": 1},
    {"protocol": "ks-ft", "processes": 3, "messages": 1, "destinations": "any", "crashes": 1},
]
ALONE = [
    {"protocol": "ks", "processes": 3, "messages": 5},
    {"protocol": "ks", "processes": 3, "messages": 5, "fifo": True},
    {"protocol": "ks", "processes": 4, "messages": 4},
    {"protocol": "ks", "processes": 4, "messages": 4, "fifo": True},
    {"protocol": "ks", "processes": 3, "messages": 4, "destinations": "any"},
    {"protocol": "ks", "processes": 3, "messages": 4, "destinations": "any", "fifo": True},
    {"protocol": "ks", "processes": 3, "messages": 3, "destinations": "any", "to_self": True},
    {"protocol": "ci-dc", "processes": 3, "messages": 5},
    {"protocol": "rst", "processes": 3, "messages": 5},
    {"protocol": "epochs", "processes": 3, "messages": 5},
    {"protocol": "a-causal", "processes": 3, "messages": 3, "crashes": 1},
    {"protocol": "ks-ft", "processes": 3, "messages": 3, "crashes": 1},
    {"protocol": "ks-ft", "processes": 3, "messages": 1, "destinations": "any", "groups": "ab|c", "crashes": 1},
]


def run(size: dict[str, Any], *, reduce: bool) -> dict[str, Any]:
    started = process_time()
    found = explore(Setting(**size), reduce=reduce)
    seconds = process_time() - started
    return {
        "verdict": found.verdict,
        "states": found.states,
        "executions": found.executions,
        "depth": found.depth,
        "seconds": round(seconds, 2),
        "states_per_second": round(found.states / seconds) if seconds else None,
    }


def main(target: Path) -> None:
    rows = []
    for size in AGAINST_NAIVE:
        reduced, naive = run(size, reduce=True), run(size, reduce=False)
        factor = {what: round(naive[what] / reduced[what], 1) for what in ("states", "executions")}
        rows.append({"setting": size, "reduced": reduced, "naive": naive, "reduction": factor})
        print(size, reduced, naive, factor, flush=True)
    for size in ALONE:
        rows.append({"setting": size, "reduced": run(size, reduce=True)})
        print(size, rows[-1]["reduced"], flush=True)
    result = {"python": platform.python_version(), "machine": platform.machine(), "rows": rows}
    target.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "results" / "speed.json")
