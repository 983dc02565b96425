"""Live processes for hours: kills, stops, cuts, power cuts, lasting crashes. Resumable: a seed that is done is not done
again; benchmarks/soak/results/live.json holds a row for each and says what was run.

THENCE_SEEDS (20), THENCE_SENDS (1250 for each of 8 processes: 10,000 multicasts a seed), THENCE_KILLS (50),
THENCE_STOPS (15), THENCE_CUTS (25), THENCE_WORLDS (10000), THENCE_IMAGES (5000).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from support.live import SHARED, World, wander
from support.live_fleet import Fleet
from support.soak import RESULTS, keep

sys.path.insert(0, str(Path(__file__).parents[1] / "runtime"))
from test_power import cut_power


def asked(name: str, default: int) -> int:
    return int(os.environ.get(f"THENCE_{name}", default))


def done(key: str) -> bool:
    file = RESULTS / "live.json"
    return file.exists() and key in json.loads(file.read_text(encoding="utf-8"))


def test_killed_stopped_and_cut() -> None:
    for seed in range(1, asked("SEEDS", 20) + 1):
        sends, kills = asked("SENDS", 1250), asked("KILLS", 50)
        key = f"fleet of 8, ks, TLS, seed {seed}, {sends} sends each"
        if done(key):
            continue
        print(f"seed {seed}")
        with TemporaryDirectory(dir=SHARED) as folder:
            fleet = Fleet(Path(folder), list("abcdefgh"), sends, seed, proxied=True)
            try:
                for name in fleet.names:
                    fleet.start(name)
                pauses, cuts = asked("STOPS", 15), asked("CUTS", 25)
                for number in range(max(kills // 2, 1)):
                    fleet.mischief(2, 1.0)
                    for _ in range(pauses * (number + 1) // (kills // 2) - fleet.stops):
                        fleet.pause(fleet.chance.choice(fleet.names))
                    for _ in range(cuts * (number + 1) // (kills // 2) - fleet.cuts):
                        fleet.cut()
                fleet.rest(600)
                fleet.stop()
                totals = fleet.check(define=sends <= 500)
            finally:
                fleet.end()
        keep("live", key, {**totals, "judge": "thence.audit" + ", and by definition" * (sends <= 500)})


def test_a_minority_of_each_group_dies_for_good() -> None:
    for seed in range(1, asked("SEEDS", 20) + 1):
        sends = asked("FT_SENDS", 60)
        key = f"ks-ft, 9 in 3 groups, a minority of each killed for good, seed {seed}, {sends} sends each"
        if done(key):
            continue
        with TemporaryDirectory(dir=SHARED) as folder:
            fleet = Fleet(
                Path(folder), list("abcdefghi"), sends, seed, protocol="ks-ft", options={"groups": "abc|def|ghi"}
            )
            try:
                for name in fleet.names:
                    fleet.start(name)
                fleet.wait_for_life()
                for group in ("abc", "def", "ghi"):
                    dead = fleet.chance.choice(group)
                    fleet.kill(dead)
                    del fleet.running[dead]
                alive = list(fleet.running)
                fleet.rest(280)
                fleet.stop()
                totals = fleet.check_survivors()
            finally:
                fleet.end()
        keep("live", key, {**totals, "survivors": "".join(alive), "judge": "by definition"})


def test_worlds() -> None:
    worlds = asked("WORLDS", 10_000)
    key = f"core, links and journal in memory, {worlds} seeds"
    if done(key):
        return
    events = 0
    for seed in range(worlds):
        with TemporaryDirectory(dir=SHARED) as folder:
            world = World(Path(folder), 2 + seed % 3, seed)
            wander(world, 200)
            world.heal()
            events += len(world.check())
            world.close()
    keep("live", key, {"seeds": worlds, "events": events})


def test_power_cuts() -> None:
    images = asked("IMAGES", 5000)
    key = f"power cuts, {images} images each"
    if done(key):
        return
    found = {}
    for synchronous in ("full", "normal"):
        with TemporaryDirectory(dir=SHARED) as folder:
            found[synchronous] = cut_power(Path(folder), synchronous, images, 7)
    assert found["full"]["forgot"] == 0
    keep("live", key, found)
