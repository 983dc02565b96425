"""Live endpoints beside an earlier version: the same multicasts, both versions in turn.

    python benchmarks/live/before.py --before CHECKOUT [--rounds 3] [--seconds 3] [--settings 8/normal/plain,...]

CHECKOUT is a working tree of the earlier version, with its own `benchmarks/live`. Both versions run under this
interpreter, with the same installed packages, and each uses its own `run.py` and `process.py`. `ratio` is the median
over the rounds of the earlier figure divided by ours for CPU, and of ours divided by the earlier one for multicasts a
second, so above 1 we are better. CPU a copy depends less on the load of the machine than multicasts a second do.
Writes results/before.json after every round.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

RESULT = Path(__file__).parent / "results" / "before.json"
HERE = Path(__file__).parents[2]
SETTINGS = "8/normal/plain,32/normal/plain,8/full/tls"
AIMS = {"8/normal/plain": 1.5, "32/normal/plain": 2.0, "8/full/tls": 1.4}
WORK = """
import json, sys
import run
count, journal, connection, seconds = sys.argv[1:]
print(json.dumps(run.measure(int(count), ("ks", journal, connection, "uvloop"), float(seconds), None)))
"""


def measured(checkout: Path, setting: str, seconds: float) -> dict[str, Any]:
    """Return the row that the benchmark of one version measures."""
    paths = f"{checkout / 'src'}{os.pathsep}{checkout / 'benchmarks' / 'live'}"
    done = subprocess.run(
        [sys.executable, "-c", WORK, *setting.split("/"), str(seconds)],
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def compared(rounds: list[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, Any]:
    """Return medians of both versions and of their ratios, round by round."""

    def figure(row: dict[str, Any], name: str) -> float:
        return max(1.0, row["busy"][name])

    return {
        "cpu us a copy": [median(figure(row, "cpu us a copy") for row in side) for side in zip(*rounds, strict=True)],
        "copies a second": [
            median(figure(row, "copies a second") for row in side) for side in zip(*rounds, strict=True)
        ],
        "p50 ms": [median(row["calm"]["p50 ms"] for row in side) for side in zip(*rounds, strict=True)],
        "ratio of cpu": round(median(figure(a, "cpu us a copy") / figure(b, "cpu us a copy") for a, b in rounds), 2),
        "ratio of copies a second": round(
            median(figure(b, "copies a second") / figure(a, "copies a second") for a, b in rounds), 2
        ),
        "rounds": len(rounds),
        "cores used": [[row["busy"]["cores used"] for row in pair] for pair in rounds],
        "load of others": [pair[0]["load of others before"] for pair in rounds],
    }


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--before", type=Path, required=True, help="working tree of the earlier version")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--seconds", type=float, default=3.0)
    arguments.add_argument("--settings", default=SETTINGS, help="processes/journal/connection, with commas between")
    asked = arguments.parse_args()
    before = asked.before.resolve()
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=before, stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()
    rows: dict[str, Any] = json.loads(RESULT.read_text())["rows"] if RESULT.exists() else {}
    rounds: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for _ in range(asked.rounds):
        for setting in asked.settings.split(","):
            pair = measured(before, setting, asked.seconds), measured(HERE, setting, asked.seconds)
            rounds.setdefault(setting, []).append(pair)
            rows[setting] = {"aim": AIMS.get(setting), **compared(rounds[setting])}
            print(setting, rows[setting], flush=True)
            RESULT.write_text(
                json.dumps(
                    {
                        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
                        "before": commit,
                        "each pair": "before, now",
                        "rows": rows,
                    },
                    indent=1,
                )
                + "\n"
            )


if __name__ == "__main__":
    main()
