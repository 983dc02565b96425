"""Core, links and journal under random steps: crashes at every boundary of a commit, cuts, one-way stillness."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.live import SHARED, World, wander

from thence.runtime.inputs import PAYLOAD, RECEIVE, WANT, Receive, read_input


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), count=st.integers(2, 4), steps=st.integers(10, 250))
def test_nothing_is_lost_doubled_or_early(seed: int, count: int, steps: int) -> None:
    with TemporaryDirectory(dir=SHARED) as folder:
        world = World(Path(folder), count, seed)
        wander(world, steps)
        world.heal()
        world.check()
        world.close()


@pytest.mark.parametrize("protocol", ["ks-hardware", "ci-dc", "rst", "ses", "prs", "history", "gossip", "fifo"])
def test_other_protocols(protocol: str, tmp_path: Path) -> None:
    for seed in range(3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        world = World(folder, 3, seed, protocol=protocol)
        wander(world, 150)
        world.heal()
        world.check()
        world.close()


@pytest.mark.parametrize("protocol", ["ks-ft", "a-causal", "a-fifo"])
def test_protocols_with_groups(protocol: str, tmp_path: Path) -> None:
    for seed in range(4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        world = World(folder, 3, seed, protocol=protocol, options={"groups": "ab|c"})
        wander(world, 150, sends=15)
        world.heal()
        world.check()
        world.close()


def test_large_payloads_travel_once_and_by_reference_after_that(tmp_path: Path) -> None:
    kinds: Counter[int] = Counter()
    carried = 0
    for seed in range(6):
        folder = tmp_path / str(seed)
        folder.mkdir()
        world = World(folder, 4, seed, protocol="ks-ft", options={"groups": "abc|d"}, snapshot_every=10**6)
        payload = b"p" * 5000
        for position in range(4):
            world.send(position, 0b1111, payload)
            world.work(position)
        wander(world, 60, sends=0, stills=False)
        world.heal()
        world.check()
        for process in world.processes:
            assert process.station is not None
            for (data,) in process.station.journal.database.execute(
                "SELECT data FROM thence_inputs WHERE kind = ?", (RECEIVE,)
            ):
                given = read_input(RECEIVE, data)  # type: ignore[arg-type]
                assert isinstance(given, Receive)
                kinds[given.item[0]] += 1
                carried += payload in given.item
        world.close()
    assert kinds[WANT] > 0
    assert kinds[PAYLOAD] > 0
    assert carried <= 6 * 4 * 4 + kinds[PAYLOAD]
