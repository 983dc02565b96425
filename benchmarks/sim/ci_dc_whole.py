"""The experiment of the ci-dc paper in parts of seconds, as much of it as there is time for; goes on where it was.

The paper: n = 10 to 50, five runs in which every process receives 10,000 messages to settle and 50,000 measured, as
multicasts to n/2 on the mean and as unicasts. That is 345.6 million messages for `ks`, `ci-dc`, `rst` and `prs`. Here
the same numbers of messages are cut into replications: in each, every process receives 600 messages, a third of them
to settle (4 n² unicasts at n = 50), with a seed of its own. 500 replications are the whole. A part is one replication
of one protocol, way of sending and n. It takes less than a minute. Its row is appended when it is done, so the script
may be ended at any time and be started again. Rates are those of the fastest part of each kind, for others shared
their core with something else.

    python benchmarks/sim/ci_dc_whole.py [--minutes 30] [--replications 500] [--workers 2]
    python benchmarks/sim/ci_dc_whole.py --minutes 0       # only add up what is there
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from time import monotonic, process_time
from typing import Any

from thence.lab.papers.ci_dc import CLAIMS
from thence.lab.papers.ci_dc_runs import CI_DC_SIZES, DELAY, MODES, RECEIVED
from thence.lab.papers.estimates import MEASURED, SETTING_COLUMNS, curve, rows_with
from thence.lab.simulator import Scenario, simulate

RESULTS = Path(__file__).parent / "results"
PARTS, SUMMARY = "ci_dc_parts.jsonl", "ci_dc_whole.json"
PROTOCOLS = ("ks", "ci-dc", "rst", "prs")
SIZES = CI_DC_SIZES[2]
RECEIVED_HERE, WARMUP, RUNS = 600, 1 / 3, 5
WHOLE = RUNS * RECEIVED // RECEIVED_HERE
"""replications that have as many messages as the paper's five runs"""

Part = tuple[int, str, str, int]
"""replication, protocol, way of sending, n"""


def messages_of(mode: str, n: int) -> int:
    """Return the messages of a replication: every process receives `RECEIVED_HERE` copies on the mean."""
    return RECEIVED_HERE * n if mode == "unicast" else 2 * RECEIVED_HERE


def parts(replications: int) -> Iterator[Part]:
    """Yield all parts, one replication of everything after the other."""
    for seed in range(1, replications + 1):
        for n in SIZES:
            for mode in MODES:
                for protocol in PROTOCOLS:
                    yield seed, protocol, mode, n


def run(part: Part) -> dict[str, Any]:
    """Simulate one part; return its row."""
    seed, protocol, mode, n = part
    scenario = Scenario(protocol, n, messages_of(mode, n), fanout=MODES[mode], rate=10.0, delay=DELAY, seed=seed)
    start = process_time()
    result = simulate(scenario, warmup=WARMUP)
    assert result.measures is not None
    row = {name: getattr(scenario, name) for name in SETTING_COLUMNS}
    row |= {name: result.measures.mean(name) for name in MEASURED}
    row |= {"early": result.measures.early, "stuck": len(result.outcome.stuck)}
    row |= {"measured_copies": result.measures.copies, "cpu_seconds": round(process_time() - start, 2)}
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()}


def key(row: dict[str, Any]) -> Part:
    """Return which part a row is of."""
    mode = next(mode for mode, fanout in MODES.items() if fanout == row["fanout"])
    return row["seed"], row["protocol"], mode, row["processes"]


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of finished parts; a last line that was cut off is left out."""
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]


def go_on(path: Path, *, until: float, replications: int, workers: int) -> None:
    """Run the parts that have no row yet, until the time is over."""
    done = read(path)
    # A line that a kill cut off would make the next one unreadable.
    path.write_text("".join(json.dumps(row) + "\n" for row in done), encoding="utf-8")
    finished = {key(row) for row in done}
    left = iter([part for part in parts(replications) if part not in finished])
    with ProcessPoolExecutor(workers) as pool, path.open("a", encoding="utf-8") as out:
        running: set[Future[dict[str, Any]]] = set()
        while True:
            while len(running) < workers and monotonic() < until and (part := next(left, None)) is not None:
                running.add(pool.submit(run, part))
            if not running:
                return
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for each in ended:
                out.write(json.dumps(each.result()) + "\n")
                out.flush()


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Add up finished parts: sizes with intervals over replications, and the verdicts on the paper's sentences."""
    table = []
    for mode, fanout in MODES.items():
        for protocol in PROTOCOLS:
            some = rows_with(rows, protocol=protocol, fanout=fanout)
            if not some:
                continue
            entries, sizes = (curve(some, name) for name in ("entries_per_copy", "paper_bytes_per_message"))
            for n, found in entries.items():
                line = {"mode": mode, "protocol": protocol, "n": n, "replications": found.values}
                table.append(line | {"dependents": found.row(), "bytes_per_message": sizes[n].row()})
    fastest: dict[tuple[str, str, int], float] = {}
    for row in rows:
        _, *kind = key(row)
        fastest[*kind] = min(fastest.get((*kind,), row["cpu_seconds"]), row["cpu_seconds"])
    sent = sum(row["messages"] for row in rows)
    whole = WHOLE * sum(messages_of(mode, n) for n in SIZES for mode in MODES) * len(PROTOCOLS)
    rates = [
        {"protocol": protocol, "mode": mode, "messages": WHOLE * sum(messages_of(mode, n) for n in SIZES),
         "messages_per_s": {n: round(messages_of(mode, n) / fastest[protocol, mode, n]) for n in (10, 30, 50)},
         "hours": round(WHOLE * sum(fastest[protocol, mode, n] for n in SIZES) / 3600, 2)}
        for protocol in PROTOCOLS for mode in MODES if all((protocol, mode, n) in fastest for n in SIZES)
    ]  # fmt: skip
    return {
        "rates": rates, "longest_run_minutes": round(RECEIVED / RECEIVED_HERE * max(fastest.values(), default=0) / 60),
        "table": table, "claims": verdicts(rows), "parts": len(rows), "messages": sent, "whole": whole,
        "share": sent / whole, "early": sum(row["early"] for row in rows), "stuck": sum(row["stuck"] for row in rows),
        "longest_part_s": max((row["cpu_seconds"] for row in rows), default=0),
        "core_hours": round(sum(row["cpu_seconds"] for row in rows) / 3600, 3), "received": RECEIVED_HERE,
        "core_hours_whole": round(WHOLE * sum(fastest.values()) / 3600, 1),
        "warmup": WARMUP, "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def verdicts(rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Judge the sentences of the paper on the replications that are complete."""
    each = len(SIZES) * len(MODES) * len(PROTOCOLS)
    seeds = Counter(row["seed"] for row in rows)
    data = {"runs": [row for row in rows if seeds[row["seed"]] == each]}
    found = []
    for claim in CLAIMS:
        if claim.id == "worst-case":  # computed, not simulated: `thence reproduce ci-dc` has it
            continue
        judged = claim.find(data)
        found.append({"claim": claim.id, "published": claim.published, "ours": judged.ours, "verdict": judged.verdict})
    return found


def main() -> None:
    """Run parts for some minutes, then add up."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--replications", type=int, default=WHOLE)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    path = chosen.out / PARTS
    if chosen.minutes > 0:
        until = monotonic() + 60 * chosen.minutes
        go_on(path, until=until, replications=chosen.replications, workers=chosen.workers)
    found = summary(read(path))
    (chosen.out / SUMMARY).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print({name: value for name, value in found.items() if name not in ("rates", "table", "claims")})


if __name__ == "__main__":
    main()
