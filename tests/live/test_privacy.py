"""What others of the machine cannot read, and what strangers cannot take: memory, places, the log."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from support.live_pair import configure, folder, hello, run, take, talk, until

from thence.live import listener
from thence.live.config import Limits, Tls
from thence.live.frames import REFUSED, frame
from thence.live.logs import MINUTE, Warnings, printable
from thence.live.tls import context
from thence.runtime import Endpoint

assert folder is not None


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_journal_trace_and_backup_are_for_their_owner_only(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder, limits={"record_bytes": 300})
        for left in ("a.journal", "a.jsonl"):  # as the release before left them
            (folder / left).touch(0o644)
        async with Endpoint(first) as a, Endpoint(second) as b:
            for _ in range(5):
                await a.send({"b"}, b"secret")
            await take(b, 5)
            await a.backup(folder / "a.copy")
            files = [each for name in ("*.journal*", "*.jsonl", "a.copy") for each in folder.glob(name)]
            assert len(files) >= 10
            for file in files:
                assert stat.S_IMODE(file.stat().st_mode) == 0o600, file

    before = os.umask(0o022)
    try:
        run(go())
    finally:
        os.umask(before)


def certified(folder: Path, name: str) -> ssl.SSLContext:
    files = Tls(folder / f"{name}.crt", folder / f"{name}.key", folder / "authority.crt")
    return context(files, ssl.PROTOCOL_TLS_CLIENT)


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "tls"])
def test_strangers_are_few_and_keep_no_peer_out(
    folder: Path, plain: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """200 connections that say nothing, not even a first byte of TLS, and a peer that comes after them."""
    assert (listener.STRANGERS, Limits().handshake_seconds) == (64, 10.0)
    monkeypatch.setattr(listener, "TURN", 0.2)

    async def go() -> None:
        files = configure(folder, plain=plain)
        async with Endpoint(files[1]) as b:
            silent = []
            for _ in range(200):
                made = socket.socket()
                made.setblocking(False)
                await asyncio.get_running_loop().sock_connect(made, (b.config.listen.host, b.config.listen.port))
                silent.append(made)
            most = 0
            async with Endpoint(files[0]) as a:
                sending = asyncio.create_task(a.send({"b"}, b"still here"))
                taking = asyncio.create_task(take(b, 1))
                while not taking.done():
                    most = max(most, len(b.transport._listener.strangers))
                    await asyncio.sleep(0.01)
                await sending
                await taking
            assert 0 < most <= 64
            for made in silent:
                made.close()

    run(go())
    assert 1 <= sum("64 connections are unidentified" in line for line in warnings(caplog)) <= 2


def test_silent_connections_with_one_certificate_keep_no_peer_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def go() -> None:
        files = configure(folder, "abc", plain=False)
        async with Endpoint(files[2]) as c:
            address, tls = c.config.listen, certified(folder, "b")
            silent = [await asyncio.open_connection(address.host, address.port, ssl=tls) for _ in range(90)]
            await until(lambda: len(c.transport.greeting) <= listener.GREETINGS)
            async with Endpoint(files[0]) as a:
                await a.send({"c"}, b"still here")
                await take(c, 1)
            for _, writer in silent:
                writer.close()

    run(go())
    assert 1 <= sum("later connections of b have come" in line for line in warnings(caplog)) <= 2


def test_a_connection_has_so_many_seconds_in_all(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def go() -> None:
        files = configure(folder, plain=False, limits={"handshake_seconds": 0.5})
        async with Endpoint(files[1]) as b:
            address = b.config.listen
            reader, writer = await asyncio.open_connection(address.host, address.port)  # and not a byte of TLS
            with_tls = await asyncio.open_connection(address.host, address.port, ssl=certified(folder, "a"))
            assert not await reader.read(-1)
            assert not await with_tls[0].read(-1)
            for each in (writer, with_tls[1]):
                each.close()
            assert not b.transport._listener.strangers

    run(go())
    assert any("did not identify itself in time" in line for line in warnings(caplog))


def test_a_failed_handshake_is_a_warning(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def go() -> None:
        files = configure(folder, plain=False)
        async with Endpoint(files[1]) as b:
            for _ in range(5):
                reader, writer = await asyncio.open_connection(b.config.listen.host, b.config.listen.port)
                writer.write(b"GET / HTTP/1.1\r\n\r\n")
                await reader.read(-1)
                writer.close()

    run(go())
    (line,) = warnings(caplog)
    assert line.startswith("b refuses a connection from 127.0.0.1: the TLS handshake failed: ")


def test_text_of_a_peer_is_escaped(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def go() -> None:
        async with Endpoint(configure(folder)[1]) as b:
            said = "\x1b[2Jgone\nERROR forged \u202e\x9b"
            await talk(b, hello(b, "a") + frame(REFUSED, said.encode()))
            assert b.process.links[0].refusal == r"a refuses: \x1b[2Jgone\nERROR forged \u202e\x9b"
            await talk(b, hello(b, "z\r\n\x1b[31m"))

    run(go())
    assert all(line.isprintable() for line in caplog.messages)
    assert r"z\r\n\x1b[31m is not among the processes here" in " ".join(warnings(caplog))
    facts = [fact for record in caplog.records for fact in getattr(record, "facts", {}).values()]
    assert all(fact.isprintable() for fact in facts if isinstance(fact, str))
    assert printable("ä\t\udc80") == r"ä\t\udc80"


def test_a_warning_is_said_once_for_each_peer_cause_and_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    made = Warnings("me", clock=lambda: now[0])
    for number in range(50):
        made.say("refused", "a", f"a is refused: item {number} came after item 3")
        made.say("refused", "b", f"b is refused: item {number} came after item 3")
    assert warnings(caplog) == [f"{peer} is refused: item 0 came after item 3" for peer in "ab"]
    now[0] = MINUTE + 1
    made.say("refused", "a", "a is refused: item 9 came after item 3")
    assert warnings(caplog)[2] == "a is refused: item 9 came after item 3 (49 more like this in the last minute)"
    for letter in "abcdefghijklmnopqrstuvwxyz":
        made.say("refused", "c", f"c is refused: {letter}")
    assert sum(line.startswith("c") for line in warnings(caplog)) == 10


def test_a_pair_that_refuse_each_other_do_not_flood_the_log(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def go() -> None:
        first, second = configure(folder)
        second.write_text(second.read_text().replace('protocol = "ks"', 'protocol = "rst"'))
        count = 0
        async with Endpoint(first) as a, Endpoint(second) as b:
            real: Callable[[str, str, str | None], None] = b.process.notice

            def counted(event: str, peer: str, reason: str | None) -> None:
                nonlocal count
                count += event == "refused"
                real(event, peer, reason)

            b.process.notice = counted
            await until(lambda: count >= 5)
            assert a.process.links[1].refusal is not None

    run(go())
    assert len(warnings(caplog)) <= 4  # refused and refuses, by both
