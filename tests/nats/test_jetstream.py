"""Endpoints over a real NATS server with JetStream."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from support.live_pair import LIMITS, folder, run, take, until
from support.processes import Server, free_ports

from thence.errors import MisuseError
from thence.live import jetstream_link
from thence.live.init import SERVER, initialise
from thence.live.nats_server import ANY, Subjects
from thence.runtime import Endpoint, load

assert folder is not None
SHORT = "[limits]\n" + "".join(f"{key} = {value}\n" for key, value in LIMITS.items())


class Pair:
    """Configurations of a and b, and the server between them."""

    def __init__(self, folder: Path, names: str = "ab", monitor: bool = False, plain: bool = True) -> None:
        port, watch = free_ports(2)
        self.files = initialise(folder, list(names), nats="orders", ports=[port], plain=plain, keep_authority=not plain)
        for file in self.files:
            text = file.read_text() + SHORT
            if monitor:
                text = text.replace('stream = "orders"', f'stream = "orders"\nmonitor = "http://127.0.0.1:{watch}"')
            file.write_text(text)
        configuration = folder / SERVER
        if monitor:
            configuration.write_text(configuration.read_text() + f"http: 127.0.0.1:{watch}\n")
        self.server = Server(configuration)
        self.url = f"nats://127.0.0.1:{port}"
        self.folder = folder

    async def client(self, name: str) -> nats.NATS:
        """Connect as a member, by its password, without an endpoint."""
        password = (self.folder / f"{name}.password").read_text().strip()
        return await nats.connect(self.url, user=name, password=password, inbox_prefix=f"_INBOX_{name}".encode())


@pytest.fixture
def pair(folder: Path) -> Iterator[Pair]:
    made = Pair(folder)
    made.server.start()
    yield made
    made.server.end()


def test_messages_arrive_in_order_and_are_removed_from_the_stream(pair: Pair) -> None:
    async def go() -> None:
        async with Endpoint(pair.files[0]) as a, Endpoint(pair.files[1]) as b:
            for number in range(300):
                await a.send({"b"}, b"%d" % number)
            assert [m.payload for m in await take(b, 300)] == [b"%d" % n for n in range(300)]
            assert a.process.core.stamps.in_bits == 2  # b gets stamps of wire version 2
            await until(lambda: a.transport.reachable() == {1})
            client = await pair.client("a")

            async def left() -> int:
                return (await client.jetstream().stream_info("orders")).state.messages

            await until(lambda: a.process.links[1].outbox.acked == 300)
            async with asyncio.timeout(60):
                while await left():
                    await asyncio.sleep(0.05)
            await client.close()

    run(go())


def test_a_destination_that_is_away_finds_its_messages_when_the_sender_is_gone(pair: Pair) -> None:
    async def go() -> None:
        async with Endpoint(pair.files[0]) as a:
            await a.send({"b"}, b"while b is away")
            await until(lambda: a.process.links[1].outbox.acked == 1)
        async with Endpoint(pair.files[1]) as b:
            (message,) = await take(b, 1)
            assert message.payload == b"while b is away"

    run(go())


def test_what_is_sent_while_the_server_is_away_arrives_when_it_is_back(pair: Pair) -> None:
    async def go() -> None:
        async with Endpoint(pair.files[0]) as a, Endpoint(pair.files[1]) as b:
            await a.send({"b"}, b"1")
            await take(b, 1)
            await asyncio.to_thread(pair.server.kill)
            await a.send({"b"}, b"2")
            await until(lambda: not a.transport.reachable())
            await asyncio.to_thread(pair.server.start)
            assert [m.payload for m in await take(b, 1)] == [b"2"]

    run(go())


def test_a_member_may_publish_on_subjects_of_its_own_name_only(pair: Pair) -> None:
    async def go() -> None:
        refused: list[str] = []

        async def note(error: Exception) -> None:
            refused.append(str(error))

        async with Endpoint(pair.files[0]) as a, Endpoint(pair.files[1]) as b:
            await a.send({"b"}, b"1")
            await take(b, 1)
        password = (pair.folder / "b.password").read_text().strip()
        liar = await nats.connect(pair.url, user="b", password=password, inbox_prefix=b"_INBOX_b", error_cb=note)
        forbidden = [
            "orders.a.b",
            "orders-beat.a",
            "orders-state.a",
            "$JS.API.STREAM.DELETE.orders",
            "$JS.API.STREAM.UPDATE.orders",
            "$JS.API.STREAM.PURGE.orders",
            "$JS.API.CONSUMER.DELETE.orders.a",
            "$JS.API.CONSUMER.MSG.NEXT.orders.a",
            "$JS.ACK.orders.a.1.1.1.1.1",
        ]
        for subject in forbidden:
            await liar.publish(subject, b"{}")
        await liar.subscribe("orders.>")
        await liar.subscribe("_INBOX_a.>")
        await liar.flush()
        await until(lambda: len(refused) == len(forbidden) + 2)
        assert all("permissions violation" in text.lower() for text in refused)
        await liar.close()

    run(go())


def test_the_receiver_removes_duplicates_itself(pair: Pair) -> None:
    """The server's window ends: an item is stored a second time, under an id that the server has forgotten."""

    async def go() -> None:
        async with Endpoint(pair.files[0]) as a, Endpoint(pair.files[1]) as b:
            stored: list[tuple[str, bytes, dict[str, str]]] = []
            client = a.transport.client  # type: ignore[attr-defined]
            await until(lambda: a.process.links[1].open)
            client = a.transport.client  # type: ignore[attr-defined]
            real = client.publish

            async def twice(
                subject: str, data: bytes = b"", reply: str = "", headers: dict[str, str] | None = None
            ) -> None:
                await real(subject, data, reply=reply, headers=headers)
                if headers:
                    stored.append((subject, data, headers))

            client.publish = twice
            for number in range(20):
                await a.send({"b"}, b"%d" % number)
            assert [m.payload for m in await take(b, 20)] == [b"%d" % n for n in range(20)]
            info = await client.jetstream().stream_info("orders")
            before = info.state.last_seq
            assert len({headers["Nats-Msg-Id"] for _, _, headers in stored}) == 20
            for subject, data, headers in stored:  # a zero in front: another text for the server, the same number here
                name, _, number_ = headers["Nats-Msg-Id"].rpartition(".")
                await real(subject, data, headers={"Nats-Msg-Id": f"{name}.0{number_}"})
            await a.send({"b"}, b"last")
            assert [m.payload for m in await take(b, 1)] == [b"last"]
            assert (await client.jetstream().stream_info("orders")).state.last_seq == before + 21
            assert b.process.core.deliveries == 21

    run(go())


def test_an_item_that_is_lost_on_the_way_is_published_anew(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jetstream_link, "RESEND", 0.3)

    async def go() -> None:
        async with Endpoint(pair.files[0]) as a, Endpoint(pair.files[1]) as b:
            await until(lambda: a.process.links[1].open)
            client = a.transport.client  # type: ignore[attr-defined]
            real, lost = client.publish, []

            async def lossy(
                subject: str, data: bytes = b"", reply: str = "", headers: dict[str, str] | None = None
            ) -> None:
                if headers and headers["Nats-Msg-Id"].endswith(".3") and not lost:
                    lost.append(data)
                    return
                await real(subject, data, reply=reply, headers=headers)

            client.publish = lossy
            for number in range(6):
                await a.send({"b"}, b"%d" % number)
            assert [m.payload for m in await take(b, 6)] == [b"%d" % n for n in range(6)]
            assert lost

    run(go())


def test_the_journal_commits_before_the_server_hears_so(pair: Pair) -> None:
    async def go() -> None:
        async with Endpoint(pair.files[0]) as a, Endpoint(pair.files[1]) as b:
            await until(lambda: b.process.links[0].open)
            client, real = b.transport.client, b.transport.client.publish  # type: ignore[attr-defined]
            early = []

            async def watched(subject: str, data: bytes = b"", *rest: object, **more: object) -> None:
                if data == b"+ACK":
                    early.append(b.process.links[0].received)
                await real(subject, data, *rest, **more)

            client.publish = watched
            commits = []
            commit = b.journal.commit
            b.journal.commit = lambda number: (commits.append(len(early)), commit(number))[1]  # type: ignore[method-assign]
            await a.send({"b"}, b"1")
            await take(b, 1)
            await until(lambda: bool(early))
            assert commits[0] == 0
            assert early[0] == 1

    run(go())


@pytest.mark.parametrize("copy", ["deleted", "old"])
def test_a_journal_that_forgot_is_refused(pair: Pair, copy: str) -> None:
    async def go() -> None:
        async with Endpoint(pair.files[0]) as a, Endpoint(pair.files[1]) as b:
            await a.send({"b"}, b"1")
            await take(b, 1)
        kept = pair.folder / "kept"
        shutil.copy(pair.folder / "a.journal", kept)
        async with Endpoint(pair.files[0]) as a:
            await a.send({"b"}, b"2")
            await until(lambda: a.process.links[1].outbox.acked == 2)
        for each in pair.folder.glob("a.journal*"):
            each.unlink()
        (pair.folder / "a.jsonl").unlink()
        if copy == "old":
            shutil.copy(kept, pair.folder / "a.journal")
        async with Endpoint(pair.files[0]) as a:
            await until(lambda: a.failure is not None)
            assert "lost its memory" in str(a.failure)

    run(go())


def test_a_user_with_a_wrong_password_ends_with_a_sentence(pair: Pair) -> None:
    async def go() -> None:
        (pair.folder / "a.password").write_text("wrong\n")
        async with Endpoint(pair.files[0]) as a:
            await until(lambda: a.failure is not None)
            assert "nats.password" in str(a.failure)

    run(go())


def test_a_stream_that_keeps_less_is_refused(pair: Pair) -> None:
    async def go() -> None:
        client = await pair.client("a")
        from nats.js.api import StorageType

        await client.jetstream().add_stream(name="orders", subjects=["orders.*.*"], storage=StorageType.MEMORY)
        await client.close()
        async with Endpoint(pair.files[0]) as a:
            await until(lambda: a.failure is not None)
            assert "stream 'orders' has storage 'memory'; 'file' is expected" in str(a.failure)

    run(go())


def test_no_more_is_promised_than_the_server_keeps(folder: Path) -> None:
    pair = Pair(folder, monitor=True)
    text = pair.files[0].read_text()
    pair.files[0].write_text(text.replace('sync_interval = "always"', 'sync_interval = "2m"'))
    with pytest.raises(MisuseError, match=r'synchronous is "full", but nats.sync_interval is "2m"'):
        load(pair.files[0])
    pair.files[0].write_text(re.sub("sync_interval.*\n", "", text))
    with pytest.raises(MisuseError, match=r"nats.sync_interval is missing"):
        load(pair.files[0])
    pair.files[0].write_text(text)
    configuration = pair.server.configuration
    configuration.write_text(configuration.read_text().replace("sync_interval: always", 'sync_interval: "2m"'))
    pair.server.start()

    async def go() -> None:
        async with Endpoint(pair.files[0]) as a:
            await until(lambda: a.failure is not None)
            assert "nats.sync_interval is 'always', but the server at" in str(a.failure)
            assert "has '2m'" in str(a.failure)

    try:
        run(go())
    finally:
        pair.server.end()


def test_an_endpoint_stops_though_its_client_loses_a_cancellation(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """`wait_for` of Python 3.11 returns what came at the same moment, and forgets that it was cancelled."""
    subscription = JetStreamContext.PullSubscription
    real, lost, begun = subscription.fetch, [], asyncio.Event()

    async def fetch(*given: Any, **named: Any) -> list[Msg]:
        begun.set()
        try:
            return await real(*given, **named)
        except asyncio.CancelledError:
            if lost:
                raise
            lost.append(1)
            return []

    monkeypatch.setattr(subscription, "fetch", fetch)

    async def go() -> None:
        async with Endpoint(pair.files[0]) as a:
            await until(lambda: a.process.links[1].open)
            await begun.wait()
            await asyncio.sleep(0.2)  # within a fetch
            async with asyncio.timeout(60):
                await a.stop()

    run(go())
    assert lost


def test_names_of_any_kind_are_subjects() -> None:
    names = Subjects("s")
    for name in ("a", "a.b", "*", ">", "=2A", "ä ö", "a-b_c", "x=y"):
        token = names.token(name)
        assert names.name(token) == name
        assert re.fullmatch(r"[A-Za-z0-9_=-]+", token)
        assert names.beat(name) != names.beat(ANY) == "s-beat.*"
    for token in ("=", "=4", "=zz", "ä=ff", "%", "%61"):  # what no process has written is read, and names no process
        assert names.token(names.name(token)) != token
    assert names.name("%61") == "%61" != "a"  # an escape begins with = alone
