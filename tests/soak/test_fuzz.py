"""A million hostile stamps and snapshots over every protocol; THENCE_FUZZ and THENCE_SEED set number and seed."""

from __future__ import annotations

import os
from collections import Counter
from random import Random

import pytest
from support.hostile import Hostile, Scene, mutated, names, versions
from support.soak import HOW, keep

from thence.errors import PeerError

TOTAL = int(os.environ.get("THENCE_FUZZ", "1000000"))
SEED = int(os.environ.get("THENCE_SEED", "1"))
SIZES = (3, 5, 8, 20)
SCENES = 10
"""systems in mid-run that the cases of a protocol are spread over, times four sizes"""


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", names())
def test_no_stamp_and_no_snapshot_breaks_a_member(name: str) -> None:
    each = -(-TOTAL // len(names()) // SCENES)
    worst: dict[str, float] = {}
    cases: dict[str, int] = {}
    for scene in range(SCENES):
        hostile = Hostile(name, 100 * SEED + scene, memory=500)
        while hostile.worst.cases["stamp"] + hostile.worst.cases["snapshot"] < each:
            hostile.case()
        for kind, count in hostile.worst.cases.items():
            cases[kind] = cases.get(kind, 0) + count
        for key in ("microseconds", "microseconds_per_byte", "memory_per_byte"):
            worst[key] = max(worst.get(key, 0), round(getattr(hostile.worst, key), 1))
    assert cases["stamp"] + cases["snapshot"] >= each * SCENES
    keep(
        "hostile", f"{name}, {HOW}", {"seed": SEED, **cases, **{f"worst {key}": value for key, value in worst.items()}}
    )


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", names())
def test_every_mutated_stamp_is_refused_or_encodes_back(name: str) -> None:
    """A million stamps with changed bytes, for each protocol: a reader that takes one has read all that it says.

    The first byte is the version of the wire, and a change of it alone may make a stamp of the other version.
    """
    random, ended = Random(f"{name} {SEED}"), Counter[str]()
    for processes in SIZES:
        scene = Scene(name, processes, SEED)
        stamps = [
            (copy, scene.run.members[copy.source].encode(copy, version=version))
            for copy in scene.flight
            for version in versions(name, copy.kind)
        ]
        for _ in range(TOTAL // len(SIZES) if stamps else 0):
            copy, stamp = random.choice(stamps)
            changed, member = mutated(stamp, random), scene.run.members[copy.destination]
            try:
                taken = member.decode(changed, source=copy.source)
            except PeerError:
                ended["refused"] += 1
                continue
            ended["taken"] += 1
            assert member.encode(taken, version=changed[0]) == changed, (
                f"{name} of {processes}, seed {SEED}: {changed.hex()}"
            )
    assert ended.total() >= TOTAL // 2
    keep("decoded", f"{name}, {HOW}", {"seed": SEED, **dict(sorted(ended.items()))})
