"""Chapter 7 of Rodrigues and Veríssimo: sizes of stamps and histories in elements, published values beside ours.

Every placement that fits the text, every open reading; see docs/explanation/paper-separators.md. Counts, not times:
the same on any machine.

    python benchmarks/topology/run.py [--quick] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from thence.lab.papers.chapter7.experiments import PUBLISHED, PUBLISHED_7_5, SCENARIOS, stamp_sizes, table_7_1
from thence.lab.papers.chapter7.networks import broadcasts, gateway, office

RESULTS = Path(__file__).parent / "results" / "topology.json"
DELAYS = (0.005, 0.025, 0.05, 0.1, 0.5)


def table(messages: int, seeds: tuple[int, ...]) -> list[dict[str, object]]:
    return [
        {
            "processes": cell.processes,
            "placement": cell.placement,
            "hops": "together" if cell.together else "apart",
            "R6.3": "to the letter" if cell.literal else "as ech-r9",
            "scenario": cell.scenario,
            "average": round(cell.average, 3),
            "seeds": [round(value, 3) for value in cell.averages],
            "published": cell.published,
        }
        for cell in table_7_1(seeds=seeds, messages=messages)
    ]


def delays(messages: int) -> list[dict[str, object]]:
    return [
        {
            "delay": delay,
            **{
                scenario: round(stamp_sizes(office(), names, messages=messages, delay=delay).average, 3)
                for scenario, names in SCENARIOS.items()
            },
        }
        for delay in DELAYS
    ]


def beside(networks: list, messages: int) -> list[dict[str, object]]:
    rows = []
    for network in networks:
        for names in ((), tuple(network.extended.separators)):
            found = stamp_sizes(network, names, messages=messages)
            rows.append(
                {
                    "network": network.name,
                    "separators": list(names),
                    "stamps of G1": round(found.focus_average, 3),
                    "all stamps": round(found.average, 3),
                    "histories": {name: round(size, 2) for name, size in found.history_averages.items()},
                    "stamps of G1, histogram": dict(sorted(found.focus.items())),
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages, one seed")
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    messages, seeds = (50, (1,)) if chosen.quick else (500, (1, 2))
    results = {
        "messages": messages,
        "published": {"table 7.1": PUBLISHED, "figure 7.5": PUBLISHED_7_5},
        "table 7.1": table(messages, seeds),
        "delays, office ring 2-2-2": delays(messages),
        "figure 7.5": beside([gateway(4, large) for large in (16, 32, 64)], 3 * messages),
        "figure 7.6": beside([broadcasts(kind, size) for kind in ("pairs", "ring") for size in (4, 8)], 2 * messages),
    }
    chosen.out.parent.mkdir(exist_ok=True)
    chosen.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {len(results['table 7.1'])} cells of table 7.1 and the figures to {chosen.out.name}")


if __name__ == "__main__":
    main()
