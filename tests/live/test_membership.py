"""Processes that join and leave while the others run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from support.live import World
from support.live_pair import (
    LIMITS,
    Killed,
    configure,
    folder,
    hello,
    join_and_leave,
    kill_at_every_commit,
    run,
    take,
    talk,
    until,
)
from support.processes import free_ports
from support.soak import first

import thence
from thence.errors import MisuseError, PeerError
from thence.live.changes import ASK_AGAIN_SECONDS, change, read_answer
from thence.live.config import load
from thence.live.core import Core
from thence.live.frames import data_frame
from thence.live.init import add_member, initialise
from thence.live.inputs import Propose, Receive, accept_head, change_head
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
            with pytest.raises(MisuseError, match="d has left; its name cannot come back, choose another"):
                await asked(files[3], "c", joins=True)
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
            rows = a.process.core.number
            await asyncio.sleep(3 * ASK_AGAIN_SECONDS)
            assert a.process.core.number == rows  # asked again and again, and written down once
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


@pytest.mark.parametrize("where", first(1, [f"{when} {name}" for when in ("after", "before") for name in "abcd"]))
def test_a_kill_at_every_step_of_joining_and_leaving(folder: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def story(here: Path, killed: Killed) -> None:
        run(join_and_leave([*configure(here, "abc"), newcomer(here)], killed))
        audited(here)

    assert kill_at_every_commit(folder, where, monkeypatch, story) > 3


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
        ("ks", accept_head(0), "accepts change 0, which was not proposed here"),
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


@pytest.mark.parametrize("address", ["", "nowhere", "h:99999"])
def test_a_process_that_joins_without_an_address_ends_no_endpoint(folder: Path, address: str) -> None:
    """A member may say what it likes of the one that joins; the others go on, and its link says why."""

    async def go() -> None:
        async with Endpoint(configure(folder)[1]) as b:
            change = change_head(1, True, "c", address, 0)
            with suppress(TimeoutError):
                await talk(b, hello(b, "a", sent=1) + data_frame(1, change, b""), wait=0.2)
            await until(lambda: "c has joined without an address" in str([link.refusal for link in b.process.links]))
            assert b.failure is None

    run(go())


def test_a_change_that_differs_from_the_one_before_is_refused() -> None:
    core = Core.fresh("ks", "abc", "b")
    core.apply(Receive(0, 1, change_head(1, True, "d", "h:1", 0)), 0.0)
    before = dump(core)
    with pytest.raises(PeerError, match="change 1 is join d here, not join e"):
        core.apply(Receive(2, 1, change_head(1, True, "e", "h:1", 0)), 0.0)
    assert dump(core) == before
    assert dump(load_state(before)) == before


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b"{}", b'{"waiting": 3, "roster": []}', b"[" * 60_000])
def test_an_answer_that_cannot_be_read_is_said_to_be_so(body: bytes) -> None:
    with pytest.raises(PeerError, match=f"an answer of {len(body)} bytes that cannot be read"):
        read_answer(body)
