"""Eight real processes over mutual TLS, killed again and again; trace, witness and effects must agree."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.live_fleet import Fleet
from support.live_pair import folder

SEED = int(os.environ.get("THENCE_SEED", "1"))


assert folder is not None


def test_2000_multicasts_and_20_kills(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fleet = Fleet(folder, list("abcdefgh"), 200, SEED)
    try:
        for name in fleet.names:
            fleet.start(name)
        fleet.mischief(20, 0.6)
        fleet.rest(300.0, within=300.0)
        fleet.stop()
        totals = fleet.check()
    finally:
        fleet.end()
    with capsys.disabled():
        print(f"\nseed {SEED}: {totals}")
    assert totals["multicasts"] >= 2000
    assert totals["kills"] >= 20
    assert totals["at named points"] >= 1
    assert totals["crash rows"] >= 3  # the others were killed before they had done anything
