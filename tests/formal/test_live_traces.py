"""Traces of live endpoints, killed and started again, are behaviours of the specifications; those of mutants not."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.live import SHARED, World, wander
from support.live_fleet import Fleet
from support.live_pair import folder
from support.mutant_ks import joined
from support.mutant_ks_ft import MUTANTS

from thence.core.model.events import Event
from thence.core.model.message_names import HOPS
from thence.core.model.roster import Roster
from thence.core.protocols.ks_ft import KsFt
from thence.lab.formal.conform import Conformance, conform
from thence.live import core
from thence.live.inputs import Trusted
from thence.tables.files.read import open_trace

SEED = int(os.environ.get("THENCE_SEED", "1"))
SEEDS = range(SEED, SEED + 3)
GROUPS = "abc|d"
LEGAL = ("abcd", "abd", "bcd", "ad", "abcd")
"""whom the failure detector may name: of each group at least one"""

MOST_SEEDS = 60
"""runs of one mutant before it counts as not noticed: a rare mistake shows in one run of six"""

assert folder is not None


def killed(fleet: Fleet, folder: Path) -> tuple[list[Event], int]:
    """Let the processes of a fleet be killed; return their rows, hops included, and how many crashes they recorded."""
    try:
        for name in fleet.names:
            fleet.start(name)
        fleet.mischief(4, 0.4)
        fleet.rest(200.0, within=200.0)
        fleet.stop()
        totals = fleet.check()
    finally:
        fleet.end()
    rows = list(open_trace([str(path) for path in sorted(folder.rglob("*.jsonl*"))]).events())
    assert sum(event.kind == "crash" for event in rows) == totals["crash rows"]
    return rows, totals["crash rows"]


def test_processes_that_are_killed(folder: Path) -> None:
    print(f"seed {SEED}")
    rows, crashes = killed(Fleet(folder, list("abc"), 40, SEED), folder)
    found = conform(rows)
    assert [each.sentence for each in found if not each.conforms] == []
    assert crashes >= 1


def test_processes_of_ks_ft_that_are_killed(folder: Path) -> None:
    print(f"seed {SEED}")
    fleet = Fleet(folder, list("abcd"), 20, SEED, protocol="ks-ft", options={"groups": GROUPS})
    rows, crashes = killed(fleet, folder)
    found = conform(rows, protocol="ks-ft", groups=GROUPS)
    assert [each.sentence for each in found if not each.conforms] == []
    assert crashes >= 1
    assert sum(event.run.endswith(HOPS) and event.kind == "receive" for event in rows) > 100


def lived(kind: type[KsFt], seed: int) -> list[Event]:
    """Return the rows of endpoints that crash at every boundary of a commit, under a failure detector that wanders."""

    def made(protocol: str, roster: Roster, me: str, **options: str) -> KsFt:
        return kind(roster, me, **options)

    with TemporaryDirectory(dir=SHARED) as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(core, "create", made)
        # A snapshot is read by the class of the registry.
        world = World(Path(place), 4, seed, protocol="ks-ft", options={"groups": GROUPS}, snapshot_every=10**6)
        for trusted in LEGAL:
            wander(world, 100, sends=12)
            for process in world.processes:
                if process.live is not None:
                    process.live.ask(Trusted(tuple(trusted)))
        try:
            world.heal()
        except AssertionError:
            assert kind is not KsFt
        rows = [*world.events(), *world.events(".hops")]
        world.close()
    run = f"{kind.__name__} {seed}"
    return [replace(event, run=run + (HOPS if event.run.endswith(HOPS) else "")) for event in rows]


def judged(kind: type[KsFt], seeds: Iterable[int]) -> list[Conformance]:
    rows = joined(*(lived(kind, seed) for seed in seeds))
    return list(conform(rows, protocol="ks-ft", groups=GROUPS))


def test_endpoints_of_ks_ft_that_crash_conform() -> None:
    print(f"seeds {SEEDS}")
    found = judged(KsFt, SEEDS)
    assert [each.sentence for each in found if not each.conforms] == []
    assert len(found) == len(SEEDS)
    assert all(each.rows > 50 for each in found)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_endpoints_of_mutants_are_refused(mutant: type[KsFt]) -> None:
    print(f"seeds from {SEED}")
    for seed in range(SEED, SEED + MOST_SEEDS):
        refused = [each.sentence for each in judged(mutant, [seed]) if not each.conforms]
        if refused:
            print(seed, refused)
            return
    pytest.fail(f"{MOST_SEEDS} runs of {mutant.__name__} conform")
