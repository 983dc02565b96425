"""Explorations that take minutes, and crash executions by the ten thousand.

Coverage and seeds are printed, and kept in benchmarks/soak/results/explore.json and crashes.json. THENCE_MINUTES bounds
each exploration (25 unless set), THENCE_SEED is the first seed of the crash executions (0 unless set).
"""

from __future__ import annotations

import json
import os
import resource
from time import process_time
from typing import Any

import pytest
from support.soak import RESULTS, keep

from thence.lab.explorer.random_walk import walk
from thence.lab.explorer.search import explore
from thence.lab.explorer.setting import Setting

MINUTES = float(os.environ.get("THENCE_MINUTES", "25"))
ANYWHERE = (
    "ci-dc", "rst", "ses", "prs", "ech", "ech-r9", "ks-hardware", "history", "gossip", "epochs", "bounded",
    "serial-multicast",
)  # fmt: skip
"""causal protocols that take any destinations, beside `ks`: 4 processes with 4 messages to any.

Not among them, for want of memory: `central` (209,798 states with 3 messages, some twenty million with 4) and
`hierarchy`, whose receptions emit; `a-causal` and `ks-ft`, of which 3 processes with 2 messages have millions.
"""
WHOLE: list[dict[str, Any]] = [
    {"protocol": "ks", "processes": 3, "messages": 5},
    {"protocol": "ks", "processes": 3, "messages": 5, "fifo": True},
    {"protocol": "ks", "processes": 4, "messages": 4},
    {"protocol": "ks", "processes": 3, "messages": 4, "destinations": "any"},
    {"protocol": "ks", "processes": 3, "messages": 5, "destinations": "any"},
    {"protocol": "ks", "processes": 3, "messages": 5, "destinations": "any", "fifo": True},
    {"protocol": "ks", "processes": 4, "messages": 4, "destinations": "any"},
    {"protocol": "ks", "processes": 4, "messages": 4, "destinations": "any", "fifo": True},
    {"protocol": "ci-dc", "processes": 3, "messages": 5},
    {"protocol": "ci-dc", "processes": 3, "messages": 4, "destinations": "any"},
    {"protocol": "rst", "processes": 3, "messages": 5},
    {"protocol": "ses", "processes": 3, "messages": 5},
    {"protocol": "ech", "processes": 3, "messages": 5},
    {"protocol": "epochs", "processes": 3, "messages": 6, "fifo": True},
    {"protocol": "a-causal", "processes": 3, "messages": 3, "crashes": 1},
    {"protocol": "a-causal", "processes": 3, "messages": 3, "crashes": 1, "options": {"counts": False}},
    {"protocol": "a-causal", "processes": 3, "messages": 3, "crashes": 1, "detector": "falling"},
    {"protocol": "a-causal", "processes": 3, "messages": 2, "destinations": "any", "crashes": 1},
    {"protocol": "ks-ft", "processes": 3, "messages": 3, "crashes": 1},
    {"protocol": "ks-ft", "processes": 3, "messages": 3, "crashes": 1, "detector": "falling"},
    {"protocol": "ks-ft", "processes": 3, "messages": 1, "destinations": "any", "groups": "ab|c", "crashes": 2},
    {
        "protocol": "ks-ft",
        "processes": 3,
        "messages": 1,
        "destinations": "any",
        "groups": "ab|c",
        "crashes": 1,
        "detector": "any",
    },
    *({"protocol": name, "processes": 4, "messages": 4, "destinations": "any"} for name in ANYWHERE),
    {
        "protocol": "ech-r9",
        "processes": 4,
        "messages": 4,
        "destinations": "any",
        "options": {"separators": "b:a|cd;b:cd|a"},
    },
    {"protocol": "central", "processes": 4, "messages": 3, "destinations": "any"},
    {
        "protocol": "hierarchy",
        "processes": 4,
        "messages": 2,
        "destinations": "any",
        "options": {"zones": "ab|cd"},
    },
]
"""explored to the end"""
SPENT: list[dict[str, Any]] = [
    {
        "protocol": "ks-ft",
        "processes": 3,
        "messages": 2,
        "destinations": "any",
        "crashes": 1,
        "options": {"counts": False},
    },
]
"""explored to the end without copies that are spent"""
LAYOUTS = [(4, ""), (5, "ab|cd|e"), (6, "abc|def"), (4, "a|bc|d"), (7, "ab|cde|fg")]
SEEDS = 1500


def name_of(size: dict[str, Any]) -> str:
    """Name a setting by what it says: ks-3-5-any, ks-3-5-any-fifo, a-causal-3-3-1-no-counts."""
    said = {**size, **size.get("options", {})}
    words = [(key if value else f"no-{key}") if isinstance(value, bool) else value for key, value in said.items()]
    return "-".join(str(word) for word in words if not isinstance(word, dict))


def kept(size: dict[str, Any]) -> dict[str, Any] | None:
    """Return what an earlier soak found, if it went to the end; THENCE_AGAIN=1 does everything once more."""
    file = RESULTS / "explore.json"
    rows = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    row = rows.get(name_of(size), {})
    return row if row.get("covered") == "all" and not os.environ.get("THENCE_AGAIN") else None


def explored(size: dict[str, Any], minutes: float, *, drop_spent: bool = False) -> dict[str, Any]:
    """Explore, print, keep and return what was covered."""
    started = process_time()
    found = explore(Setting(**size), time_limit=60 * minutes, drop_spent=drop_spent)
    row = {
        "setting": size,
        "verdict": found.verdict,
        "covered": "all" if found.complete else f"a part: {found.stopped}",
        "states": found.states,
        "executions": found.executions if found.complete else None,
        "depth": found.depth,
        "processor_seconds": round(process_time() - started, 1),
        **({"left out": "spent copies"} if drop_spent else {}),
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    keep("explore", name_of(size), row)
    return row


@pytest.mark.timeout(0)
@pytest.mark.parametrize("size", WHOLE, ids=name_of)
def test_all_executions_hold(size: dict[str, Any]) -> None:
    """A soak that was interrupted goes on with what is not in the results yet."""
    row = kept(size) or explored(size, MINUTES)
    assert (row["verdict"], row["covered"]) == ("holds", "all")


@pytest.mark.timeout(0)
@pytest.mark.parametrize("size", SPENT, ids=name_of)
def test_all_executions_hold_without_spent_copies(size: dict[str, Any]) -> None:
    row = kept(size) or explored(size, MINUTES, drop_spent=True)
    assert (row["verdict"], row["covered"]) == ("holds", "all")


@pytest.mark.timeout(0)
@pytest.mark.parametrize("protocol", ["a-fifo", "a-causal", "ks-ft"])
@pytest.mark.parametrize(("processes", "groups"), LAYOUTS)
def test_random_crashes(protocol: str, processes: int, groups: str) -> None:
    """4,500 executions for each protocol and layout, every second one with delivery counts: 67,500 in all."""
    first = int(os.environ.get("THENCE_SEED", "0"))
    started, executions, crashed = process_time(), 0, 0
    print(f"{protocol} {groups or processes}: seeds {first}..{first + SEEDS - 1}")
    for seed in range(first, first + SEEDS):
        options = {"counts": True} if seed % 2 else {}
        for patience in (0.1, 0.4, 0.7):
            setting = Setting(
                protocol, processes, 6 + seed % 8, "any", groups=groups, crashes=processes - 1, options=options
            )
            run = walk(setting, seed, patience=patience)
            assert not run.problems(), f"{run.problems()}\n{run}"
            executions += 1
            crashed += run.faulty.bit_count()
    row = {
        "executions": executions,
        "crashes": crashed,
        "seeds": f"{first}..{first + SEEDS - 1}",
        "failures": 0,
        "processor_seconds": round(process_time() - started, 1),
    }
    keep("crashes", f"{protocol}-{processes}-{groups or 'alone'}", row)
