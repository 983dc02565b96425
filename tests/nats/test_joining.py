"""Processes that join and leave over NATS while the others run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import nats
import pytest
from nats.aio.msg import Msg
from support.live_pair import Killed, folder, join_and_leave, kill_at_every_commit, run, take, until
from support.processes import Server, free_ports
from support.soak import first

import thence
from thence.errors import MisuseError
from thence.live import jetstream
from thence.live.changes import change
from thence.live.init import SERVER, add_member, initialise
from thence.runtime import Endpoint, load

assert folder is not None
LIMITS = "[limits]\nstop_seconds = 0.2\n"


class Trio:
    """Configurations of a, b and c, and the server between them."""

    def __init__(self, folder: Path, plain: bool) -> None:
        (port,) = free_ports(1)
        self.folder, self.url = folder, f"nats://127.0.0.1:{port}"
        self.files = initialise(folder, list("abc"), nats="orders", ports=[port], plain=plain, keep_authority=True)
        for file in self.files:
            file.write_text(file.read_text() + LIMITS)
        self.server = Server(folder / SERVER)

    def add(self, name: str) -> Path:
        """Do what an operator does: write the new user into the server's configuration, and reload it."""
        file = add_member(self.folder, name)
        file.write_text(file.read_text() + LIMITS)
        self.server.reload()
        return file


@pytest.fixture(params=["plain", "TLS"])
def trio(folder: Path, request: pytest.FixtureRequest) -> Iterator[Trio]:
    made = Trio(folder, request.param == "plain")
    made.server.start()
    yield made
    made.server.end()


@pytest.fixture
def plain_trio(folder: Path) -> Iterator[Trio]:
    made = Trio(folder, True)
    made.server.start()
    yield made
    made.server.end()


async def asked(
    file: Path, through: str, *, joins: bool, waiting: Callable[[list[str]], None] = lambda names: None
) -> list[str]:
    async with asyncio.timeout(120):
        return await change(load(file), through, joins=joins, waiting=waiting)


def audited(folder: Path) -> None:
    found = thence.audit(sorted(folder.glob("*.jsonl")))
    assert found.verdict == "causal", found
    assert (found.runs[0]["undelivered"], found.runs[0]["duplicates"]) == (0, 0)


def test_a_process_joins_over_nats_takes_part_and_leaves(trio: Trio) -> None:
    async def go() -> None:
        async with Endpoint(trio.files[0]) as a, Endpoint(trio.files[1]) as b, Endpoint(trio.files[2]) as c:
            await a.send({"b", "c"}, b"before")
            await asyncio.gather(take(b, 1), take(c, 1))
            new = trio.add("d")
            assert await asked(new, "c", joins=True) == ["a", "b", "c", "d"]
            await b.send({"c", "d"}, b"before d has started")
            async with Endpoint(new) as d:
                assert [m.payload for m in await take(d, 1)] == [b"before d has started"]
                assert await d.send({"a", "b", "c"}, b"here I am") == "d1"
                assert [m.payload for m in await take(a, 1)] == [b"here I am"]
                await asyncio.gather(take(b, 1), take(c, 2))
                assert "d" in await asked(new, "b", joins=False)
                with pytest.raises(MisuseError, match="d left"):
                    await a.send({"d"}, b"too late")
                with pytest.raises(MisuseError, match="d has left; it sends nothing more"):
                    await d.send({"a"}, b"too late")
            assert not [link.refusal for each in (a, b, c) for link in each.process.links if link.refusal]
        async with Endpoint(trio.files[0]) as a, Endpoint(trio.files[2]) as c:  # their configurations know nothing of d
            assert list(a.process.core.roster) == ["a", "b", "c", "d"]
            await c.send({"a"}, b"still")
            await take(a, 1)

    run(go())
    audited(trio.folder)
    rows = (trio.folder / "b.jsonl").read_text()
    assert '"join d"' in rows
    assert '"leave d"' in rows


def test_a_user_that_the_servers_do_not_know_is_told_so(plain_trio: Trio) -> None:
    new = add_member(plain_trio.folder, "d")
    with pytest.raises(MisuseError, match="the NATS servers refuse user 'd'; add it to their configuration, reload"):
        run(asked(new, "a", joins=True))  # type: ignore[arg-type]


def test_joining_over_nats_waits_for_members_and_servers_that_are_away(plain_trio: Trio) -> None:
    trio = plain_trio

    async def go() -> None:
        late: list[list[str]] = []
        async with Endpoint(trio.files[0]), Endpoint(trio.files[1]) as b:
            new = trio.add("d")
            joining = asyncio.create_task(asked(new, "b", joins=True, waiting=late.append))
            await until(lambda: late[-1:] == [["c"]])
            joining.cancel()  # as when the command is interrupted: asked again, it goes on
            await asyncio.gather(joining, return_exceptions=True)
            await asyncio.to_thread(trio.server.kill)
            with pytest.raises(MisuseError, match=r"no server of nats\.servers .* answers"):
                await asked(new, "b", joins=True)
            await asyncio.to_thread(trio.server.start)
            async with Endpoint(trio.files[2]) as c:
                assert await asked(new, "b", joins=True) == ["a", "b", "c", "d"]
                await c.send({"b"}, b"after")
                assert [m.payload for m in await take(b, 1)] == [b"after"]

    run(go())


def test_over_nats_a_process_asks_and_answers_for_itself_only(plain_trio: Trio) -> None:
    trio = plain_trio

    async def go() -> None:
        refused: list[str] = []

        async def note(error: Exception) -> None:
            refused.append(str(error))

        password = (trio.folder / "b.password").read_text().strip()
        liar = await nats.connect(trio.url, user="b", password=password, inbox_prefix=b"_INBOX_b", error_cb=note)
        for subject in ("orders-ask.a.c", "orders-answer.a.c"):
            await liar.publish(subject, b"{}")
        for subject in ("orders-ask.*.a", "orders-answer.*.a", "orders-ask.>"):
            await liar.subscribe(subject)
        await liar.flush()
        await until(lambda: len(refused) == 5)
        assert all("permissions violation" in text.lower() for text in refused)
        async with Endpoint(trio.files[0]) as a:
            await until(lambda: a.process.links[1].open)
            answers: asyncio.Queue[Msg] = asyncio.Queue()
            await liar.subscribe("orders-answer.*.b", cb=answers.put)
            question = b'{"joins": false, "name": "c", "address": "", "processes": ["a", "b", "c"]}'
            for body, sentence in (
                (question, b"b asks for c; a process asks for itself only"),
                (b"[", b"a question that cannot be read"),
                (question.replace(b'""', b'"h:1"').replace(b'"c", "a', b'"b", "a'), b"a question that cannot be read"),
            ):
                await liar.publish("orders-ask.b.a", b"mark " + body)
                async with asyncio.timeout(60):
                    assert sentence in (await answers.get()).data
            assert a.process.core.membership.changes == []
            assert a.failure is None
        await liar.close()

    run(go())


def test_a_process_that_did_not_join_is_told_so(plain_trio: Trio) -> None:
    trio = plain_trio

    async def go() -> None:
        async with Endpoint(trio.files[0]), Endpoint(trio.add("d")) as d:
            await until(lambda: "roster differs: d has" in str(d.process.links[0].refusal))

    run(go())


@pytest.mark.parametrize("where", first(1, [f"{when} {name}" for when in ("after", "before") for name in "badc"]))
def test_a_kill_at_every_step_of_joining_and_leaving_over_nats(
    folder: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jetstream, "ACK_WAIT", 0.3)  # what a killed process had fetched comes again after that

    def story(here: Path, killed: Killed) -> None:
        trio = Trio(here, True)
        trio.server.start()
        try:
            run(join_and_leave([*trio.files, trio.add("d")], killed))
        finally:
            trio.server.end()
        audited(here)

    assert kill_at_every_commit(folder, where, monkeypatch, story) > 3
