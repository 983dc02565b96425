"""Stamps and snapshots written by version 1 are read by every later version."""

from __future__ import annotations

import json

import pytest
from unit.protocols.version_1_script import FILE, record

from thence.core.model.roster import Roster
from thence.core.protocols.wire import decode, encode
from thence.protocols import REGISTRY

GOLDEN = json.loads(FILE.read_text())


def test_every_protocol_is_there() -> None:
    assert set(GOLDEN) == {n for n, e in REGISTRY.items() if "failure detector" not in e.needs}


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_old_stamps_and_snapshots_are_read(name: str) -> None:
    protocol = REGISTRY[name].protocol
    roster = Roster(GOLDEN[name]["roster"])
    for text in GOLDEN[name]["stamps"]:
        data = bytes.fromhex(text)
        assert encode(protocol, decode(protocol, data, roster, destination=0, source=0), roster) == data
    for text in GOLDEN[name]["snapshots"]:
        data = bytes.fromhex(text)
        assert protocol.restore(data).snapshot() == data


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_this_version_still_writes_them(name: str) -> None:
    assert record(name) == GOLDEN[name]
