"""Members that read stamps of wire version 2 and members that do not, also when one is upgraded or goes back."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest
from support.live import World, wander
from support.live_pair import configure, folder, run, take, until
from support.soak import first

import thence
from thence.live import process as process_module
from thence.live.core import Core
from thence.live.inputs import COPY, RECEIVE, Agreed, Propose, Receive, Send, read_input, stamp_in
from thence.live.journal import Journal
from thence.live.process import LiveProcess
from thence.live.session import Carrier
from thence.runtime import Endpoint

assert folder is not None
OLD, BEATS, NEW = (1, 1), (1, 2), (1, 3)


def version_of(item: bytes) -> int:
    """Return the wire version of the stamp in an item; 0 if it has none."""
    return stamp_in(item)[2][0] if item[0] == COPY else 0


def received(journal: Journal) -> Counter[int]:
    """Count the versions of the stamps that a journal has received."""
    rows = journal.database.execute("SELECT data FROM thence_inputs WHERE kind = ?", (RECEIVE,))
    inputs = [read_input(RECEIVE, data) for (data,) in rows]  # type: ignore[arg-type]
    return Counter(version_of(given.item) for given in inputs if isinstance(given, Receive))


class Dated(LiveProcess):
    """A process of some release: another one, perhaps, whenever it starts."""

    drawn: ClassVar = Random()
    seen: ClassVar[Counter[tuple[int, int]]] = Counter()

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.versions = self.drawn.choice((OLD, BEATS, NEW, NEW, NEW))

    def item(self, session: Carrier, number: int, item: bytes) -> None:
        version = version_of(item)
        self.seen[self.versions[1], version] += 1
        assert version < 2 or self.versions == NEW, "a release before version 2 got a stamp of it"
        super().item(session, number, item)


@pytest.mark.parametrize("protocol", ["ks", "ci-dc", "ks-ft"])
@pytest.mark.parametrize("seeds", first(1, [range(start, start + 25) for start in range(0, 500, 25)]), ids=str)
def test_releases_change_at_every_restart_and_nothing_is_lost(folder: Path, protocol: str, seeds: range) -> None:
    options: dict[str, int | str | bool] = {"groups": "abc"} if protocol == "ks-ft" else {}
    Dated.seen = Counter()
    for seed in seeds:
        print(f"seed {seed}")
        here = folder / str(seed)
        here.mkdir()
        Dated.drawn = Random(seed)
        world = World(here, 3, seed, protocol=protocol, process=Dated, options=options)
        wander(world, 300)
        world.heal()
        world.check()
        world.close()
    assert Dated.seen[3, 2] > 20
    assert Dated.seen[3, 1] > 20
    assert Dated.seen[2, 1] > 20
    assert Dated.seen[1, 1] > 20


def test_a_peer_that_goes_back_gets_what_was_stored_for_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored in version 2, the sender ends without a stop, the peer comes back with a release that knows version 1."""
    first_file, second_file = configure(folder)

    def release(versions: tuple[int, int]) -> None:
        monkeypatch.setattr(process_module, "WIRE_VERSIONS", versions)

    def stored(a: Endpoint) -> list[int]:
        return [version_of(entry.head) for entry in a.process.links[1].outbox.front]

    async def go() -> None:
        release(NEW)
        async with Endpoint(first_file) as a:
            release(OLD)
            async with Endpoint(second_file) as b:
                await a.send({"b"}, b"1")
                assert [m.payload for m in await take(b, 1)] == [b"1"]
                assert received(b.journal) == {1: 1}
                assert not a.process.links[1].in_bits
            release(NEW)
            async with Endpoint(second_file) as b:
                await until(lambda: a.process.core.stamps.in_bits == 2)
                await a.send({"b"}, b"2")
                assert [m.payload for m in await take(b, 1)] == [b"2"]
                assert received(b.journal)[2] == 1
            await a.send({"b"}, b"3")
            assert stored(a) == [2]
            a.journal.failed = "killed"
        async with Endpoint(first_file) as a:
            assert stored(a) == [2]
            await a.send({"b"}, b"4")
            assert stored(a) == [2, 2]
            release(OLD)
            async with Endpoint(second_file) as b:
                assert [m.payload for m in await take(b, 2)] == [b"3", b"4"]
                await until(lambda: a.process.core.stamps.in_bits == 0)
                await a.send({"b"}, b"5")
                await take(b, 1)
                assert received(b.journal)[2] == 1

    run(go())
    found = thence.audit(sorted(folder.glob("*.jsonl")))
    assert found.verdict == "causal"
    assert (found.runs[0]["undelivered"], found.runs[0]["duplicates"]) == (0, 0)


def test_a_stamp_from_before_a_join_is_rewritten_under_the_roster_it_had() -> None:
    plain, core, peer = Core.fresh("ks", "ab", "a"), Core.fresh("ks", "ab", "a"), Core.fresh("ks", "ab", "b")
    core.apply(Agreed(1, True), 0.0)
    expected = plain.apply(Send(2, b"x"), 0.0).sent[0][1].head
    made = core.apply(Send(2, b"x"), 0.0).sent[0][1].head
    assert (version_of(expected), version_of(made)) == (1, 2)
    core.apply(Propose(True, "c", "h:1"), 0.0)
    assert core.stamps.readable(made, True) == made
    assert core.stamps.readable(made, False) == expected
    peer.apply(Receive(0, 1, expected + b"x"), 0.0)


def test_a_protocol_without_a_dependency_log_agrees_on_nothing(folder: Path) -> None:
    async def go() -> None:
        first_file, second_file = configure(folder, protocol="rst")
        async with Endpoint(first_file) as a, Endpoint(second_file) as b:
            await a.send({"b"}, b"x")
            await take(b, 1)
            assert a.process.links[1].in_bits
            assert a.process.core.stamps.in_bits == 0
            assert received(b.journal) == {1: 1}

    run(go())
