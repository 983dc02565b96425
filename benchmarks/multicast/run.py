"""What docs/explanation/paper-genuine-multicast.md quotes: state, stamps, and how rejected designs fail.

Counts, not times: the same on any machine. Tests hold the code to them (tests/papers, tests/check).

    python benchmarks/multicast/run.py [--out FILE]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean
from typing import Any

from thence.core.protocols.ks_ft import KsFt
from thence.lab.explorer.random_walk import RandomWalk, walk
from thence.lab.explorer.setting import Setting
from thence.lab.papers.variants import setting_of

RESULTS = Path(__file__).parent / "results" / "multicast.json"
PROTOCOLS = ("a-fifo", "a-causal", "ks-ft")
MESSAGES = 2000
GROUPS = "abc|def|ghi|jkl|mno|pqr|stu|vwx"


def long_run(protocol: str, *, counts: bool, spread: bool) -> RandomWalk:
    """Three of six processes crash, early on or one after each quarter of the messages."""
    setting = Setting(
        protocol, 6, MESSAGES, "any", groups="ab|cd|ef", crashes=3, options={} if counts else {"counts": False}
    )
    return walk(setting, 11, patience=0.02, calm=True, spread=spread)


def quarters(values: list[int]) -> list[list[int]]:
    return [values[k * len(values) // 4 : (k + 1) * len(values) // 4] for k in range(4)]


def records(run: RandomWalk) -> dict[str, Any]:
    """What the living members keep: the most records in each quarter, and the bytes of their snapshots on the mean."""
    return {
        "records": [max(part) for part in quarters(run.kept)],
        "bytes": [round(mean(part)) for part in quarters(run.sizes)],
    }


def name_of(protocol: str, *, counts: bool, spread: bool) -> str:
    return f"{protocol}, {'counts' if counts else 'no counts'}, crashes {'spread' if spread else 'at once'}"


def stamps(protocol: str) -> dict[str, float]:
    """8 groups of 3, messages to one group each: entries, bytes and facts about groups of a stamp, once warm."""
    run = walk(Setting(protocol, 24, 300, "unicast", groups=GROUPS), 5, patience=0.01)
    member, late = run.members[0], run.stamps[100:]
    facts = [member.group_facts(copy.stamp[1]) for copy in late] if isinstance(member, KsFt) else [0]
    return {
        "entries": round(mean(type(member).entries(copy) for copy in late)),
        "bytes": round(mean(len(member.encode(copy)) for copy in late)),
        "group facts": round(mean(facts)),
    }


def carrying() -> dict[str, float]:
    """`a-causal-carry`: every message at risk is carried along."""
    carried: list[int] = []
    runs = failed = outsiders = longest = 0
    for seed in range(200):
        for destinations, messages in (("any", 10), ("unicast", 12), ("unicast", 6)):
            run = walk(
                setting_of("a-causal-carry", 4, messages, destinations, crashes=2),
                seed,
                patience=(0.1, 0.4, 0.7)[seed % 3],
            )
            runs, longest = runs + 1, max(longest, messages)
            failed += any(not problem.startswith("genuine") for problem in run.problems())
            carried += [len(copy.stamp[1]) for copy in run.stamps]
            outsiders += bool(run.outsiders)
    return {"runs": runs, "failed": failed, "longest run": longest, "carried": round(mean(carried), 1),
            "carried at most": max(carried), "with outsiders": outsiders}  # fmt: skip


def modulo() -> dict[str, int]:
    """`a-fifo-modulo`: numbers modulo 3."""
    setting = setting_of("a-fifo-modulo", 3, 8, groups="a|bc", crashes=1)
    return {"runs": 300, "failed": sum(bool(walk(setting, seed, patience=0.4).problems()) for seed in range(300))}


def measured() -> dict[str, Any]:
    return {
        "messages": MESSAGES,
        "groups": [len(group) for group in GROUPS.split("|")],
        "records": {
            name_of(protocol, counts=counts, spread=spread): records(long_run(protocol, counts=counts, spread=spread))
            for protocol in PROTOCOLS for spread in (False, True) for counts in (True, False)
        },
        "stamps": {protocol: stamps(protocol) for protocol in ("a-causal", "ks-ft")},
        "a-causal-carry": carrying(),
        "a-fifo-modulo": modulo(),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    chosen.out.parent.mkdir(exist_ok=True)
    chosen.out.write_text(json.dumps(measured(), indent=1) + "\n", encoding="utf-8")
    print(f"wrote {chosen.out}")


if __name__ == "__main__":
    main()
