"""Eight real processes over mutual TLS, killed again and again; trace, witness and effects must agree."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.live_fleet import Fleet

SEED = int(os.environ.get("THENCE_SEED", "1"))


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where there is such a place: kill -9 does not ask for a disk."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None) as name:
        yield Path(name)


def test_2000_multicasts_and_20_kills(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fleet = Fleet(folder, list("abcdefgh"), 200, SEED)
    try:
        for name in fleet.names:
            fleet.start(name)
        fleet.mischief(24, 2.0)
        fleet.rest()
        fleet.stop()
        totals = fleet.check()
    finally:
        fleet.end()
    with capsys.disabled():
        print(f"\nseed {SEED}: {totals}")
    assert totals["multicasts"] >= 2000
    assert totals["kills"] >= 20
    assert totals["crash rows"] >= 10
