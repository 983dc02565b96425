"""Journals that an earlier release left when it was killed.

`tests/data/live-0.1.0.tar.gz` holds what thence 0.1.0 left of a and b: each sent five messages to the other and to c,
who was never there; a dealt with b1 in a transaction (a row, and a reply to c) and said that b1/red is done. Then both
were ended by kill -9, after snapshots and with inputs behind them.
"""

from __future__ import annotations

import sqlite3
import tarfile
from pathlib import Path

from support.live_pair import folder, run, take, until
from support.processes import free_ports

import thence
from thence.live.init import initialise
from thence.runtime import Endpoint

assert folder is not None
DATA = Path(__file__).parents[1] / "data"


def test_journals_of_0_1_0_are_read_after_a_crash(folder: Path) -> None:
    files = initialise(folder, ["a", "b", "c"], plain=True, ports=free_ports(3))
    with tarfile.open(DATA / "live-0.1.0.tar.gz") as kept:
        members = [member for member in kept.getmembers() if not member.name.endswith(".toml")]
        kept.extractall(folder, members, filter="data")
    with sqlite3.connect(folder / "a.journal") as old:
        assert old.execute("SELECT count(*) FROM thence_snapshots").fetchone()[0] > 0
        assert {row[0] for row in old.execute("SELECT version FROM thence_inputs")} == {"0.1.0"}
    old.close()

    async def go() -> None:
        async with Endpoint(files[0]) as a, Endpoint(files[1]) as b, Endpoint(files[2]) as c:
            assert a.process.core.number > 10
            assert [(m.id, m.redelivered) for m in await take(a, 3)] == [("b2", True), ("b2/red", True), ("b3", True)]
            assert len(await take(b, 5)) == 5
            found = await take(c, 11)
            assert sorted(m.payload for m in found if m.sender == "a") == [b"a0", b"a1", b"a2", b"a3", b"a4", b"reply"]
            assert await a.send({"b"}, b"on") == "a7"
            assert (await take(b, 1))[0].payload == b"on"
            rows = a.database.execute("SELECT id FROM effects")
            assert rows == [("b1",)]
            await until(lambda: a.process.links[1].outbox.acked == a.process.links[1].outbox.sent)

    run(go())
    found = thence.audit(sorted(folder.glob("*.jsonl")))
    assert found.verdict == "causal"
    assert found.runs[0]["undelivered"] == 0
