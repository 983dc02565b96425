"""Live processes for hours: kills, stops, cuts, power cuts, lasting crashes. Resumable: a seed that is done is not done
again; benchmarks/soak/results/live.json holds a row for each and says what was run.

THENCE_SEEDS (20), THENCE_SENDS (1250 for each of 8 processes: 10,000 multicasts a seed), THENCE_KILLS (50),
THENCE_STOPS (15), THENCE_CUTS (25), THENCE_WORLDS (10000), THENCE_IMAGES (5000), THENCE_WITHIN (30: seconds after which
everything must be delivered once nobody is tormented any more; more where the machine does other things).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from support.live import SHARED, World, wander
from support.live_fleet import Fleet
from support.soak import RESULTS, keep

sys.path.insert(0, str(Path(__file__).parents[1] / "live"))
from test_explored_endpoints import explored
from test_power_cuts import cut_power


def asked(name: str, default: int) -> int:
    return int(os.environ.get(f"THENCE_{name}", default))


def kept() -> dict[str, dict[str, int]]:
    file = RESULTS / "live.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def done(key: str) -> bool:
    return key in kept()


def test_killed_stopped_and_cut() -> None:
    for seed in range(asked("FIRST", 1), asked("SEEDS", 20) + 1):
        sends = asked("SENDS", 1250)
        key = f"fleet of 8, ks, TLS, seed {seed}, {sends} sends each"
        if done(key):
            continue
        print(f"seed {seed}")
        with TemporaryDirectory(dir=SHARED) as folder:
            fleet = Fleet(Path(folder), list("abcdefgh"), sends, seed, proxied=True, run=f"seed {seed}")
            try:
                for name in fleet.names:
                    fleet.start(name)
                torment(fleet, asked("KILLS", 50), asked("STOPS", 15), asked("CUTS", 25))
                took = fleet.rest(1200, within=asked("WITHIN", 30))
                fleet.stop()
                totals = fleet.check(define=sends <= 500)
                keep_traces(fleet, seed)
            finally:
                fleet.end()
        judge = "thence.audit" + ", and by definition" * (sends <= 500)
        keep("live", key, {**totals, "all delivered after (s)": round(took, 1), "judge": judge})
        keep_sums()


def torment(fleet: Fleet, kills: int, stops: int, cuts: int) -> None:
    """Kill, stop and cut, evenly spread."""

    def between() -> None:
        while fleet.stops * kills < stops * fleet.kills:
            fleet.pause(fleet.chance.choice(fleet.names))
        while fleet.cuts * kills < cuts * fleet.kills:
            fleet.cut()

    fleet.mischief(kills, 1.0, between, patience=10.0)
    between()


def traces() -> Path:
    """Where the traces of the seeds wait for Spark: THENCE_TRACES, or a folder of the machine's own."""
    return Path(os.environ.get("THENCE_TRACES", Path(gettempdir()) / "thence-soak-live"))


def keep_traces(fleet: Fleet, seed: int) -> None:
    target = traces() / f"seed-{seed}"
    target.mkdir(parents=True, exist_ok=True)
    for name in fleet.names:
        shutil.copy(fleet.folder / f"{name}.jsonl", target)


def keep_sums() -> None:
    rows = {k: v for k, v in kept().items() if k.startswith("fleet of 8, ks, TLS, seed ")}
    told = ("multicasts", "deliveries", "crash rows", "kills", "at named points", "stops", "cuts", "redelivered")
    sums = {what: sum(row.get(what, 0) for row in rows.values()) for what in told}
    keep("live", "fleet of 8, all seeds", {"seeds": len(rows), **sums})


def test_what_the_fleets_left_is_causal_on_spark_too() -> None:
    from thence.spark.session import local_session
    from thence.tables.engines import spark

    folders = sorted(traces().glob("seed-*")) if traces().exists() else []
    assert folders, "run test_killed_stopped_and_cut first; it leaves the traces"
    session = local_session()
    with spark.audit_files(session, [str(folder) for folder in folders]) as found:
        judged = {row["run"]: row for row in found.runs}
    assert {row["verdict"] for row in judged.values()} == {"causal"}, judged
    sums = {"runs": len(judged), "events": int(sum(row["events"] for row in judged.values()))}
    keep("live", "fleet of 8, judged on Spark", sums)


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
                fleet.rest(1200, within=max(60, asked("WITHIN", 30)))
                fleet.stop()
                totals = fleet.check_survivors()
            finally:
                fleet.end()
        keep("live", key, {**totals, "survivors": "".join(alive), "judge": "by definition"})


def test_worlds() -> None:
    worlds, block = asked("WORLDS", 10_000), 1000
    for first in range(0, worlds, block):
        key = f"core, links and journal in memory, seeds {first} to {first + block - 1}"
        if done(key):
            continue
        events = 0
        for seed in range(first, first + block):
            with TemporaryDirectory(dir=SHARED) as folder:
                world = World(Path(folder), 2 + seed % 3, seed)
                wander(world, 200, labels=(None,) if seed % 4 else (None, "red"))
                world.heal()
                events += len(world.check())
                world.close()
        keep("live", key, {"seeds": block, "events": events})


def test_explored_cores() -> None:
    settings = ((3, "any"), (4, "unicast"))
    keys = [f"core and link under the explorer, 3 processes, {count} messages, {to}" for count, to in settings]
    for key, (messages, destinations) in zip(keys, settings, strict=True):
        if not done(key):
            found = explored(protocol="ks", messages=messages, destinations=destinations)
            assert (found.complete, found.failures) == (True, [])
            keep("live", key, {"states": found.states, "executions": found.executions})
    assert all(kept()[key]["states"] > 0 for key in keys)


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
