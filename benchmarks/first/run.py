"""CPU seconds until the first answer, from the shell, with bytecode cached; beside an earlier version if one is given.

    python benchmarks/first/run.py [--before SRC [--python PYTHON]] [--rounds 7] [--out FILE]

`SRC` holds an earlier package `thence`; `PYTHON` is an interpreter with its dependencies (default: this one). Both
versions run in turn, each command in a process of its own; the median over the rounds counts, user and system time
together. Inputs: simulated traces of about 5,000 and 20,000 events, and arrivals of 50 keys in which each row names the
row before it of its key as its cause, shuffled within 20 rows. The floor is the import of Arrow and typer alone.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "results" / "first.json"
KEYS, SHUFFLED = 50, 20
COMMAND = ["-c", "import sys; from thence.cli import main; sys.exit(main())"]
"""what the installed script `thence` does"""
FLOOR = "import os; os.environ['OPENBLAS_NUM_THREADS'] = '1'; import pyarrow.compute, typer, gc; gc.freeze()"
SEED = 1


def arrivals(path: Path, rows: int) -> None:
    """Write rows with explicit causes, out of order."""
    rng = random.Random(SEED)
    made = []
    for number in range(rows):
        key, count = number % KEYS, number // KEYS
        causes = [f"{key}-{count - 1}"] if count else []
        made.append(
            {"run": "r", "destination": f"k{key}", "message": f"{key}-{count}", "sender": "s", "depends_on": causes}
        )
    made = [row for _, row in sorted(enumerate(made), key=lambda each: each[0] + rng.uniform(0, SHUFFLED * KEYS))]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in made))


def inputs(folder: Path) -> dict[str, list[str]]:
    """Make the inputs, and return the arguments of Python for each thing measured."""
    from thence.cli import main as thence

    found = {
        "floor: import pyarrow.compute, typer": ["-c", FLOOR],
        "thence --version": [*COMMAND, "--version"],
        "import thence": ["-c", "import thence"],
    }
    for messages in (556, 2_247):
        jsonl, parquet = folder / f"trace{messages}.jsonl", folder / f"trace{messages}.parquet"
        for path in (jsonl, parquet):
            asked = ["simulate", "--messages", str(messages), "--seed", str(SEED), "--trace", str(path), "--quiet"]
            assert thence(asked) == 0
            events = len(jsonl.read_text().splitlines())
            found[f"audit, {events:,} events, {path.suffix}"] = [*COMMAND, "audit", str(path)]
    for rows in (5_000, 200_000):
        path = folder / f"arrivals{rows}.jsonl"
        arrivals(path, rows)
        command = [*COMMAND, "deliver", str(path), "--by", "depends_on", "--engine", "local", "--out"]
        found[f"deliver, {rows:,} rows, .jsonl"] = command
    return found


def seconds(python: str, source: Path, arguments: list[str], folder: Path) -> float:
    """Return the CPU seconds of one process."""
    env = os.environ | {"PYTHONPATH": str(source), "PYTHONPYCACHEPREFIX": f"{folder}/cache{source}"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    if arguments[-1] == "--out":
        arguments = [*arguments, str(Path(tempfile.mkdtemp(dir=folder)) / "out")]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run([python, *arguments], env=env, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ran.returncode:
        sys.exit(f"{' '.join(arguments)}: exit code {ran.returncode}\n{ran.stderr}")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    """Measure in turn, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, help="folder that holds an earlier package")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the earlier package")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    versions = {"now": (sys.executable, ROOT / "src")}
    if asked.before:
        versions["before"] = (asked.python, asked.before)
    rows = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for what, arguments in inputs(folder).items():
            found: dict[str, list[float]] = {name: [] for name in versions}
            for turn in range(asked.rounds + 1):
                for name, (python, source) in versions.items():
                    taken = seconds(python, source, arguments, folder)
                    if turn:  # the first one writes the bytecode
                        found[name].append(taken)
            row = {"what": what, **{f"cpu_seconds_{name}": round(median(each), 2) for name, each in found.items()}}
            print(row, flush=True)
            rows.append(row)
    about = {"about": __doc__.splitlines()[0], "python": platform.python_version(), "rounds": asked.rounds}
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(
        json.dumps({**about, "load_average_at_end": os.getloadavg()[0], "rows": rows}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
