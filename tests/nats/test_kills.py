"""Real processes over a real NATS server, both killed again and again; trace, witnesses and effects must agree."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.live_fleet import Fleet
from support.live_pair import folder
from support.processes import Server

from thence.live.init import SERVER

assert folder is not None
SEED = int(os.environ.get("THENCE_SEED", "1"))
KILLS = 50


def test_50_kills_of_members_and_of_the_server(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fleet = Fleet(folder, list("abc"), 400, SEED, nats="orders")
    server = Server(folder / SERVER)
    server.start()

    def between() -> None:
        if fleet.kills % 2 == 0:
            server.kill()
            server.start()

    try:
        for name in fleet.names:
            fleet.start(name)
        fleet.mischief(KILLS - 20, 0.3, between)
        while server.kills < 20:
            server.kill()
            server.start()
        fleet.rest(300.0, within=300.0)
        fleet.stop()
        totals = fleet.check()
    finally:
        fleet.end()
        server.end()
    with capsys.disabled():
        print(f"\nseed {SEED}: {totals}, {server.kills} kills of the server")
    assert totals["kills"] + server.kills >= KILLS
    assert totals["multicasts"] >= 1200
    assert totals["crash rows"] >= 5
