"""Processes that join and leave while the others run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from support.live import World
from support.live_pair import LIMITS, configure, folder, run, take, until
from support.processes import free_ports
from support.soak import first

import thence
from thence.errors import MisuseError, PeerError
from thence.live.changes import change
from thence.live.config import load
from thence.live.core import Core
from thence.live.database import JournalError
from thence.live.init import add_member, initialise
from thence.live.inputs import Propose, Receive, accept_head, change_head
from thence.live.journal import Journal
from thence.live.state import dump
from thence.live.state import read_state as load_state
from thence.runtime import Endpoint

assert folder is not None
SHORT = "\n[limits]\n" + "".join(f"{key} = {value}\n" for key, value in LIMITS.items())


def newcomer(folder: Path, name: str = "d") -> Path:
    file = add_member(folder, name, port=free_ports(1)[0])
    file.write_text(file.read_text() + SHORT)
    return file


async def asked(
    file: Path, through: str, *, joins: bool, told: Callable[[list[str]], None] = lambda names: None
) -> list[str]:
    return await change(load(file), through, joins=joins, waiting=told)


def audited(folder: Path) -> None:
    found = thence.audit(sorted(folder.glob("*.jsonl")))
    assert found.verdict == "causal", found
    assert found.runs[0]["undelivered"] == 0
    assert found.runs[0]["duplicates"] == 0


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "TLS"])
def test_a_process_joins_takes_part_and_leaves(folder: Path, plain: bool) -> None:
    async def go() -> None:
        files = [*configure(folder, "abc", plain=plain, keep_authority=True), newcomer(folder)]
        async with Endpoint(files[0]) as a, Endpoint(files[1]) as b, Endpoint(files[2]) as c:
            await a.send({"b", "c"}, b"before")
            await take(b, 1)
            assert await asked(files[3], "c", joins=True) == ["a", "b", "c", "d"]
            await b.send({"c", "d"}, b"to somebody who is not there yet")
            async with Endpoint(files[3]) as d:
                assert [m.payload for m in await take(d, 1)] == [b"to somebody who is not there yet"]
                assert await d.send({"a", "b", "c"}, b"here I am") == "d1"
                assert [m.payload for m in await take(a, 1)] == [b"here I am"]
                await asyncio.gather(take(b, 1), take(c, 3))
                assert "d" in await asked(files[3], "b", joins=False)
                with pytest.raises(MisuseError, match="d left"):
                    await a.send({"d"}, b"too late")
                with pytest.raises(MisuseError, match="d has left; it sends nothing more"):
                    await d.send({"a"}, b"too late")
            await a.send({"b", "c"}, b"after")
            await asyncio.gather(take(b, 1), take(c, 1))
        async with Endpoint(files[0]) as a, Endpoint(files[2]) as c:  # their configurations know nothing of d
            assert list(a.process.core.roster) == ["a", "b", "c", "d"]
            await c.send({"a"}, b"still")
            await take(a, 1)

    run(go())
    audited(folder)
    rows = (folder / "b.jsonl").read_text()
    assert '"join d"' in rows
    assert '"leave d"' in rows


def test_it_waits_for_who_is_away_and_says_for_whom(folder: Path) -> None:
    async def go() -> None:
        files = [*configure(folder, "abc"), newcomer(folder)]
        told: list[list[str]] = []
        async with Endpoint(files[0]) as a, Endpoint(files[1]) as b:
            joining = asyncio.create_task(asked(files[3], "b", joins=True, told=told.append))
            await until(lambda: told[-1:] == [["c"]])
            with pytest.raises(MisuseError, match="join d is under way and waits for c"):
                await asked(newcomer(folder, "e"), "a", joins=True)
            assert not joining.done()
            await b.send({"a"}, b"the others go on")
            await take(a, 1)
            async with Endpoint(files[2]):
                assert await joining == ["a", "b", "c", "d"]

    run(go())


def test_what_cannot_join_is_told_why(folder: Path) -> None:
    async def go() -> None:
        files = configure(folder, "ab")
        stranger = newcomer(folder, "c")
        stranger.write_text(stranger.read_text().replace('["a", "b", "c"]', '["b", "a", "c"]'))
        async with Endpoint(files[0]), Endpoint(files[1]):
            with pytest.raises(MisuseError, match=r"processes are \['b', 'a', 'c'\].*\['a', 'b', 'c'\] is expected"):
                await asked(stranger, "a", joins=True)
            with pytest.raises(MisuseError, match="--through is 'c'; one of the other processes is expected"):
                await asked(stranger, "c", joins=True)

    run(go())
    (folder / "fixed").mkdir()
    files = initialise(folder / "fixed", ["a", "b"], protocol="history", plain=True, ports=free_ports(2))

    async def fixed() -> None:
        async with Endpoint(files[0]):
            with pytest.raises(MisuseError, match="protocol history needs a fixed membership"):
                await asked(newcomer(folder / "fixed"), "a", joins=True)

    run(fixed())


def test_with_tls_a_process_asks_for_itself_only(folder: Path) -> None:
    async def go() -> None:
        files = [*configure(folder, "ab", plain=False, keep_authority=True), newcomer(folder, "c")]
        newcomer(folder, "d")
        text = files[2].read_text()
        files[2].write_text(text.replace("c.crt", "d.crt").replace("c.key", "d.key"))
        async with Endpoint(files[0]):
            with pytest.raises(MisuseError, match="d asks for c; a process asks for itself only"):
                await asked(files[2], "a", joins=True)

    run(go())


def test_without_the_authority_s_key_no_member_is_added(folder: Path) -> None:
    configure(folder, "ab", plain=False)
    with pytest.raises(MisuseError, match="a set made with --init --keep-authority has it"):
        newcomer(folder)


class Killed:
    """Ends the endpoint of one process at one of its commits, before or after it, as a kill would."""

    def __init__(self, name: str, at: int, after: bool) -> None:
        self.name, self.left, self.after, self.reached = name, at, after, False

    def commit(self, journal: Journal, real: Callable[[int], None], number: int) -> None:
        mine = journal.mark is not None and journal.mark.path.name == f"{self.name}.journal.mark"
        self.left -= mine
        if mine and self.left == 0:
            self.reached = True
            if self.after:
                real(number)
            raise JournalError("killed")
        real(number)


async def _alive(file: Path, stop: asyncio.Event, life: dict[str, Endpoint]) -> None:
    """Run an endpoint, again whenever it is ended."""
    name = file.stem
    while not stop.is_set():
        try:
            async with Endpoint(file) as me:
                life[name] = me
                while not stop.is_set() and me.failure is None:
                    await asyncio.sleep(0.005)
        except JournalError:
            pass


async def _story(folder: Path, killed: Killed) -> None:
    files = [*configure(folder, "abc"), newcomer(folder)]
    life: dict[str, Endpoint] = {}
    stop = asyncio.Event()
    tasks = [asyncio.create_task(_alive(file, stop, life)) for file in files[:3]]

    async def sent(name: str, to: set[str]) -> None:
        while True:
            try:
                await life[name].send(to, b"x")
                return
            except JournalError:  # killed; whether it was committed is not known
                await asyncio.sleep(0.01)
            except MisuseError:  # stopped, and not started again yet
                await asyncio.sleep(0.01)

    try:
        await until(lambda: len(life) == 3)
        await sent("a", {"b", "c"})
        await asked(files[3], "b", joins=True)
        tasks.append(asyncio.create_task(_alive(files[3], stop, life)))
        await until(lambda: "d" in life)
        await sent("c", {"d", "a"})
        await sent("d", {"a", "b", "c"})
        await asked(files[3], "c", joins=False)
        await sent("a", {"b", "c"})
        expected = {"a": 2, "b": 3, "c": 3, "d": 1}
        if not killed.reached:  # a send that was committed when its process ended is made once more
            await until(lambda: all(life[n].process.core.deliveries == k for n, k in expected.items()))
        await until(lambda: all(life[n].process.core.deliveries >= k for n, k in expected.items()))
        await until(lambda: all(len(each.process.core.membership.changes) == 2 for each in life.values()))

        def rest() -> bool:
            for p, each in enumerate(life[n] for n in "abcd"):
                for q, name in enumerate("abcd"):
                    if p != q and life[name].process.links[p].received != each.process.links[q].outbox.sent:
                        return False
            return True

        await until(rest)
    finally:
        stop.set()
        await asyncio.gather(*tasks)


@pytest.mark.parametrize("where", first(1, [f"{when} {name}" for when in ("after", "before") for name in "abcd"]))
def test_a_kill_at_every_step_of_joining_and_leaving(folder: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    when, name = where.split()
    after = when == "after"
    reached, at = True, 2  # the first commit is that of the recovery
    real = Journal.commit
    while reached and at < 40:
        killed = Killed(name, at, after)
        monkeypatch.setattr(Journal, "commit", lambda j, n, k=killed: k.commit(j, lambda m: real(j, m), n))
        here = folder / f"{at}"
        here.mkdir()
        run(_story(here, killed))
        audited(here)
        reached = killed.reached
        at += 1 if at < 8 else 3
    assert at > 5


def test_what_is_made_for_a_process_that_joins_leaves_when_it_is_committed(folder: Path) -> None:
    """The link is made while the group is applied; a peer that is there already must not hear of it before."""
    world = World(folder, 2, 1)
    live = world.processes[0].live
    assert live is not None
    live.ask(Propose(True, "c", "127.0.0.1:1"))
    live.prepare(1.0)
    assert (live.links[2].outbox.sent, live.links[2].durable) == (1, 0)
    live.commit()
    live.release()
    assert live.links[2].durable == 1
    world.close()


@pytest.mark.parametrize(
    ("protocol", "item", "sentence"),
    [
        ("ks", change_head(2, True, "d", "h:1", 0), "change 2 came after change 0"),
        ("ks", change_head(1, True, "d", "h:1", 9), "change 1 came after change 0"),
        ("ks", change_head(1, False, "z", "", 0), "z leaves, but is not among the processes"),
        ("ks", change_head(1, True, "d", "h:1", 0)[:-1], "a change of"),
        ("ks", change_head(1, True, "d", "h:1", 0).replace(b"d", b"\xff"), "cannot be read"),
        ("ks", accept_head(1), "accepts change 1, which was not proposed here"),
        ("ks", accept_head(1) + b"x", "an item of kind 5"),
        ("history", change_head(1, True, "d", "h:1", 0), "needs a fixed membership"),
    ],
)
def test_changes_that_cannot_be_are_refused_and_change_nothing(protocol: str, item: bytes, sentence: str) -> None:
    core = Core.fresh(protocol, "abc", "b")
    before = dump(core)
    with pytest.raises(PeerError, match=sentence):
        core.apply(Receive(0, 1, item), 0.0)
    assert dump(core) == before


def test_a_change_that_differs_from_the_one_before_is_refused() -> None:
    core = Core.fresh("ks", "abc", "b")
    core.apply(Receive(0, 1, change_head(1, True, "d", "h:1", 0)), 0.0)
    before = dump(core)
    with pytest.raises(PeerError, match="change 1 is join d here, not join e"):
        core.apply(Receive(2, 1, change_head(1, True, "e", "h:1", 0)), 0.0)
    assert dump(core) == before
    assert dump(load_state(before)) == before
