"""What a restart finds: a torn trace, rows of another release, rows that set something else free."""

from __future__ import annotations

import asyncio
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from support.live import World, needed, wander
from support.live_pair import PATIENCE, configure, folder, run, take, until

import thence
from thence.live import core, journal, recovery
from thence.live.core import Core
from thence.live.database import StandardDatabase
from thence.live.group import InputResult
from thence.live.journal import InputRow
from thence.runtime import Endpoint, JournalError

assert folder is not None


@pytest.mark.parametrize("cut", [1, 30, 400, 10**6])
def test_a_torn_trace_is_written_anew_from_the_journal(folder: Path, cut: int) -> None:
    async def exchange(first: Path, second: Path) -> None:
        async with Endpoint(first) as a, Endpoint(second) as b:
            for _ in range(10):
                await a.send({"b"}, b"x")
            await take(b, 10)

    async def go() -> None:
        first, second = configure(folder)
        await exchange(first, second)
        whole = (folder / "b.jsonl").read_bytes()
        (folder / "b.jsonl").write_bytes(whole[: max(0, len(whole) - cut)])
        await exchange(first, second)
        assert (folder / "b.jsonl").read_bytes().startswith(whole)

    run(go())
    found = thence.audit([folder / "a.jsonl", folder / "b.jsonl"])
    assert (found.verdict, found.messages) == ("causal", 20)


def pretend(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    for module in (journal, recovery, core):
        monkeypatch.setattr(module, "RELEASE", release)


DATA = Path(__file__).parents[1] / "data" / "journals"
BEFORE = json.loads((DATA / "expected.json").read_text())


@pytest.mark.parametrize("name", [name for name in BEFORE if name.endswith(".journal")])
def test_a_journal_that_the_release_before_left_after_a_kill_is_read(folder: Path, name: str) -> None:
    wanted = BEFORE[name]
    shutil.copy(DATA / name, folder)
    for _ in range(2):  # the second start reads what the first one has written
        database = StandardDatabase(folder / name)
        assert {row[0] for row in database.execute("SELECT version FROM thence_inputs")} >= {BEFORE["release"]}
        found = recovery.recover(
            journal.Journal(database), wanted["protocol"], "abc", wanted["name"], options=wanted["options"]
        )
        core = found.core
        assert [[d.number, core.name(d.key), d.ref] for d in core.inbox.values()] == wanted["inbox"]
        assert [[o.sent, o.acked, len(o.front)] for o in core.outboxes] == wanted["outboxes"]
        assert core.held == wanted["held"]
        assert needed(core) - {0} <= {row[0] for row in database.execute("SELECT number FROM thence_inputs")}
        database.close()


def test_inputs_of_another_release_are_replayed_if_they_have_the_same_effects(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(folder, 2, 1)
    world.send(0, 0b10, b"x")
    world.work(0)
    world.crash(0)
    pretend(monkeypatch, "9.9")
    world.start(0)
    world.crash(0)
    seal = Core.seal
    monkeypatch.setattr(Core, "seal", lambda self, *given: seal(self, *given)._replace(digest=bytes(8)))
    with pytest.raises(JournalError, match=r"was written by thence .*, this is 9\.9: start it once more with .*, stop"):
        world.start(0)


def test_an_upgrade_goes_through_a_clean_stop(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        first, second = configure(folder)
        async with Endpoint(first) as a:
            await a.send({"b"}, b"before")
        pretend(monkeypatch, "9.9")
        async with Endpoint(first) as a, Endpoint(second) as b:
            await a.send({"b"}, b"after")
            assert [m.payload for m in await take(b, 2)] == [b"before", b"after"]

    run(go())


def test_rows_that_set_something_else_free_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(folder, 2, 1)
    world.send(0, 0b10, b"x")
    world.work(0)
    world.crash(0)
    seal = Core.seal

    def other(self: Core, step: InputResult) -> InputRow:
        for _, entry, _ in step.sent:
            entry.head += b"!"
        return seal(self, step)

    monkeypatch.setattr(Core, "seal", other)
    with pytest.raises(JournalError, match=r"input 1 .send. has other effects when it is replayed"):
        world.start(0)


def test_many_messages_freed_at_once_are_handed_over_in_slices(folder: Path) -> None:
    """c lacks a1 and holds 600 answers to it; when it comes, one input frees them all."""

    async def go() -> None:
        files = configure(folder, "abc")
        async with Endpoint(files[1]) as b:
            async with Endpoint(files[0]) as a:
                await a.send({"b", "c"}, b"question")
                await take(b, 1)
            await asyncio.gather(*(b.send({"c"}, b"answer") for _ in range(600)))
            async with Endpoint(files[2]) as c:
                await until(lambda: c.process.core.held == 600)
                async with Endpoint(files[0]):
                    await until(lambda: c.process.core.deliveries == 601)
                turns = 0

                async def other() -> None:
                    nonlocal turns
                    while True:
                        turns += 1
                        await asyncio.sleep(0)

                task = asyncio.create_task(other())
                handed = 0
                async for _ in c.deliveries():
                    handed += 1
                    if handed == 601:
                        break
                task.cancel()
                assert turns >= 601 // 64

    run(go())


def test_a_world_is_the_same_for_the_same_seed(folder: Path) -> None:
    traces = []
    for number in range(2):
        target = folder / str(number)
        target.mkdir()
        world = World(target, 3, 5)
        wander(world, 120)
        world.heal()
        traces.append(world.check())
        world.close()
    assert traces[0] == traces[1]


def test_a_reader_in_one_thread_does_not_disturb_a_checkpoint_in_another(tmp_path: Path) -> None:
    """The event loop reads payloads while the writer's thread commits and checkpoints, all on one connection."""
    database = StandardDatabase(tmp_path / "journal")
    database.execute("CREATE TABLE payloads (data BLOB)")
    database.begin()
    for _ in range(2000):
        database.execute("INSERT INTO payloads VALUES (?)", (bytes(500),))
    database.commit()
    begun, ended = Event(), Event()

    def read() -> int:
        times = 0
        while not ended.is_set():
            assert len(database.execute("SELECT data FROM payloads")) >= 2000
            times += 1
            begun.set()
        return times

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(read)
        try:
            assert begun.wait(PATIENCE)
            for _ in range(200):
                database.begin()
                database.execute("INSERT INTO payloads VALUES (?)", (bytes(500),))
                database.commit()
                database.checkpoint()
        finally:
            ended.set()
        assert reader.result() > 0
    database.close()
