"""Explorations that take minutes, and crash executions by the ten thousand. Seeds are printed."""

from __future__ import annotations

import pytest

from whence.check.explore import explore
from whence.check.setting import Setting
from whence.check.wander import wander

MINUTES = [
    {"protocol": "ks", "processes": 3, "messages": 5},
    {"protocol": "ks", "processes": 3, "messages": 5, "fifo": True},
    {"protocol": "ks", "processes": 4, "messages": 4},
    {"protocol": "ks", "processes": 3, "messages": 4, "destinations": "any"},
    {"protocol": "ks", "processes": 3, "messages": 5, "destinations": "any"},
    {"protocol": "ks", "processes": 4, "messages": 4, "destinations": "any"},
    {"protocol": "ci-dc", "processes": 3, "messages": 5},
    {"protocol": "rst", "processes": 3, "messages": 5},
    {"protocol": "ses", "processes": 3, "messages": 5},
    {"protocol": "ech", "processes": 3, "messages": 5},
    {"protocol": "epochs", "processes": 3, "messages": 6, "fifo": True},
    {"protocol": "a-causal", "processes": 3, "messages": 3, "crashes": 1},
    {"protocol": "a-causal", "processes": 3, "messages": 2, "destinations": "any", "crashes": 1},
    {"protocol": "ks-ft", "processes": 3, "messages": 3, "crashes": 1},
    {"protocol": "ks-ft", "processes": 3, "messages": 1, "destinations": "any", "groups": "ab|c", "crashes": 2},
]
LAYOUTS = [(4, ""), (5, "ab|cd|e"), (6, "abc|def"), (4, "a|bc|d"), (7, "ab|cde|fg")]
SEEDS = 1500


@pytest.mark.timeout(0)
@pytest.mark.parametrize("size", MINUTES, ids=lambda size: "-".join(map(str, size.values())))
def test_all_executions_hold(size: dict) -> None:
    found = explore(Setting(**size))
    print(f"{found.states} states, {found.executions} executions, depth {found.depth}, {found.seconds:.0f} s")
    assert found.complete
    assert found.verdict == "holds"


@pytest.mark.timeout(0)
@pytest.mark.parametrize("protocol", ["a-fifo", "a-causal", "ks-ft"])
@pytest.mark.parametrize(("processes", "groups"), LAYOUTS)
def test_random_crashes(protocol: str, processes: int, groups: str) -> None:
    """4,500 executions for each protocol and layout: 67,500 in all."""
    print(f"seeds 0..{SEEDS - 1}")
    for seed in range(SEEDS):
        for patience in (0.1, 0.4, 0.7):
            setting = Setting(protocol, processes, 6 + seed % 8, "any", groups=groups, crashes=processes - 1)
            run = wander(setting, seed, patience=patience)
            assert not run.problems(), f"{run.problems()}\n{run}"
