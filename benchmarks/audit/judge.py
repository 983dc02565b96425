"""CPU seconds of judging coded rows, this code and another checkout in turn: whole runs, chunks, the scan alone.

    python benchmarks/audit/judge.py [--before FOLDER --before-python PYTHON] [--rounds 3]

Each figure is the least of the rounds. The other checkout runs in processes of its own, between those of this one.
Writes results/judge.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

HERE = Path(__file__).parent
SIZES = ((5_000, 8), (20_000, 8), (1_000_000, 64))


def measure() -> dict[str, float]:
    """Return CPU seconds of this process for each size."""
    from generate import names, simulate, table
    from kernel import normal, payloads

    from thence.tables.judge.chunk import summarise, summary_of
    from thence.tables.judge.coded_rows import code
    from thence.tables.judge.label_scan import meet, open_copies, rows_by_label, run_clocks
    from thence.tables.judge.merge_chunks import ChunkMerger
    from thence.tables.judge.usable_in_run import GOOD, fates
    from thence.tables.judge.whole_run import in_order, judge_run

    found: dict[str, float] = {}
    for events, processes in SIZES:
        arrays = simulate(events, processes, 2, 20, 0.08, 1)
        rows = normal(table(arrays, names(processes), 0, events, "run"))
        coded = code(rows)

        def scan(coded=coded) -> None:  # type: ignore[no-untyped-def]
            for of_label in rows_by_label(coded, fates(coded) == GOOD):
                ordered, _ = in_order(of_label)
                matched = meet(ordered)
                run_clocks(ordered, matched, open_copies(ordered, matched))

        def chunks(rows=rows, events=events) -> None:  # type: ignore[no-untyped-def]
            merger = ChunkMerger("run")
            for number in range(4):
                part = rows.slice(number * events // 4, events // 4)
                merger.add(summary_of(payloads(summarise("run", number, part))))
            merger.finish()

        work = {
            "code": partial(code, rows), "scan": scan, "judge": partial(judge_run, "run", rows), "chunks": chunks
        }  # fmt: skip
        for name, function in work.items():
            function()
            taken = []
            for _ in range(3 if events > 100_000 else 20):
                began = time.process_time()
                function()
                taken.append(time.process_time() - began)
            found[f"{name} {events}"] = min(taken)
    return found


def elsewhere(source: Path, python: str) -> dict[str, float]:
    """Return the figures of a checkout."""
    environment = {**os.environ, "PYTHONPATH": str(source / "src"), "OMP_NUM_THREADS": "1"}
    made = subprocess.run([python, __file__, "--one"], env=environment, stdout=subprocess.PIPE, check=True, timeout=600)
    read: dict[str, float] = json.loads(made.stdout)
    return read


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--one", action="store_true")
    parser.add_argument("--before", type=Path)
    parser.add_argument("--before-python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure()))
        return
    versions = {"now": (HERE.parents[1], sys.executable)}
    if given.before:
        versions["before"] = (given.before, given.before_python)
    taken: dict[str, list[dict[str, float]]] = {name: [] for name in versions}
    for _ in range(given.rounds):
        for name, (source, python) in versions.items():
            taken[name].append(elsewhere(source, python))
    best = {name: {key: min(each[key] for each in own) for key in own[0]} for name, own in taken.items()}
    (HERE / "results" / "judge.json").write_text(json.dumps(best, indent=2) + "\n")
    for key, now in best["now"].items():
        before = best.get("before", {}).get(key)
        print(f"{key:16} {now * 1e3:9.2f} ms" + (f"  before {before * 1e3:9.2f} ms" if before else ""))


if __name__ == "__main__":
    main()
