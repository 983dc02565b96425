"""How long the whole experiment of the ci-dc paper would take here: messages per second, and what they add up to.

The paper: n = 10 to 50, five runs each, in which every process receives 60,000 messages, as multicasts to n/2 on the
mean and as unicasts. For `ks`, `ci-dc`, `rst` and `prs`, both ways of sending, and n = 10, 30 and 50, a run is timed
once logs are warm, with measures (what the experiment needs) and without (the bare simulator). Costs of a message at
other n lie on the power of n between the measured ones. Processor time of the thread; the machine may be loaded.

    python benchmarks/sim/ci_dc_rate.py [--seconds 1.5] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import os
from math import exp, log
from pathlib import Path
from time import thread_time
from typing import Any

from thence.lab.papers.ci_dc_runs import CI_DC_SIZES, MODES, RECEIVED
from thence.lab.simulator import Scenario, simulate

RESULTS = Path(__file__).parent / "results" / "ci_dc_rate.json"
PROTOCOLS = ("ks", "ci-dc", "rst", "prs")
MEASURED = (10, 30, 50)
RUNS, HOURS, CORES = 5, 1, 2


def seconds_of(scenario: Scenario, messages: int, *, measure: bool) -> float:
    """Return the processor time of a run."""
    start = thread_time()
    simulate(scenario.with_(messages=messages), measure=measure)
    return thread_time() - start


def cost(scenario: Scenario, seconds: float, *, measure: bool) -> float:
    """Return seconds a message once logs are warm: the difference between a run and one half as long."""
    messages = 40
    while (took := seconds_of(scenario, messages, measure=measure)) < seconds / 3:
        messages *= 2
    return (took - seconds_of(scenario, messages // 2, measure=measure)) / (messages - messages // 2)


def between(costs: dict[int, float], n: int) -> float:
    """Return the cost at n, on the power of n through the measured sizes around it."""
    low = max(size for size in costs if size <= n)
    high = min(size for size in costs if size >= n)
    if low == high:
        return costs[n]
    share = log(n / low) / log(high / low)
    return exp(log(costs[low]) * (1 - share) + log(costs[high]) * share)


def messages_of(mode: str, n: int) -> int:
    """Return the messages of one run in the paper: every process receives `RECEIVED` copies."""
    return RECEIVED * n if mode == "unicast" else 2 * RECEIVED


def measured(seconds: float) -> dict[str, Any]:
    """Time, and add up."""
    rows, hours, total, longest = [], {True: 0.0, False: 0.0}, 0, 0.0
    for protocol in PROTOCOLS:
        for mode, fanout in MODES.items():
            row: dict[str, Any] = {"protocol": protocol, "mode": mode}
            for measure in (True, False):
                costs = {
                    n: cost(Scenario(protocol, n, 0, fanout), seconds, measure=measure) for n in MEASURED
                }  # fmt: skip
                name = "measured" if measure else "bare"
                row |= {f"{name}_messages_per_s": {n: round(1 / each) for n, each in costs.items()}}
                spent = sum(RUNS * messages_of(mode, n) * between(costs, n) for n in CI_DC_SIZES[2]) / 3600
                row[f"{name}_hours"] = round(spent, 2)
                hours[measure] += spent
                parts = (messages_of(mode, n) * between(costs, n) / 60 for n in CI_DC_SIZES[2])
                longest = max(longest, *parts) if measure else longest
            row["messages"] = sum(RUNS * messages_of(mode, n) for n in CI_DC_SIZES[2])
            total += row["messages"]
            rows.append(row)
            print(row, flush=True)
    return {
        "rows": rows, "messages": total, "core_hours": round(hours[True], 1), "bare_core_hours": round(hours[False], 1),
        "longest_part_minutes": round(longest), "falls_short_by": round(hours[True] / (HOURS * CORES), 1),
        "bare_falls_short_by": round(hours[False] / (HOURS * CORES), 1), "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    found = measured(chosen.seconds)
    chosen.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print({key: value for key, value in found.items() if key != "rows"})


if __name__ == "__main__":
    main()
