"""TLS between endpoints and NATS servers: both ends show certificates, and nothing is said in the clear."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.live_pair import folder, run, take, until
from support.processes import Server, free_ports

from thence.errors import MisuseError
from thence.live.certificates import authority, issue, load_authority
from thence.live.changes import change
from thence.live.init import HOSTS, SERVER, initialise
from thence.runtime import Endpoint, load

assert folder is not None
LIMITS = "[limits]\nstop_seconds = 0.2\nhandshake_seconds = 3.0\n"


class Set:
    """Configurations of a and b with TLS, and the server between them."""

    def __init__(self, folder: Path) -> None:
        (self.port,) = free_ports(1)
        self.folder = folder
        self.files = initialise(folder, ["a", "b"], nats="orders", ports=[self.port], keep_authority=True)
        for file in self.files:
            file.write_text(file.read_text() + LIMITS)
        self.server = Server(folder / SERVER)


@pytest.fixture
def made(folder: Path) -> Iterator[Set]:
    found = Set(folder)
    yield found
    found.server.end()


def test_a_set_talks_over_tls(made: Set) -> None:
    made.server.start()
    assert [load(file).nats.servers for file in made.files] == [(f"tls://127.0.0.1:{made.port}",)] * 2  # type: ignore[union-attr]

    async def go() -> None:
        async with Endpoint(made.files[0]) as a, Endpoint(made.files[1]) as b:
            await a.send({"b"}, b"in secret")
            assert [m.payload for m in await take(b, 1)] == [b"in secret"]
            version = a.transport.client._transport._io_writer.get_extra_info("ssl_object").version()  # type: ignore[attr-defined]
            assert version == "TLSv1.3"

    run(go())


def _other_authority(made: Set) -> str:
    """The server's certificate is of an authority that nobody here knows."""
    at = made.folder
    issue(authority(), [], at / "nats.server.crt", at / "nats.server.key", hosts=HOSTS)
    return "CERTIFICATE_VERIFY_FAILED"


def _other_host(made: Set) -> str:
    """The server's certificate is of the right authority, for another host."""
    at = made.folder
    root = load_authority(at / "authority.crt", at / "authority.key")
    issue(root, [], at / "nats.server.crt", at / "nats.server.key", hosts=["elsewhere.example"])
    return "CERTIFICATE_VERIFY_FAILED"


def _no_handshake_first(made: Set) -> str:
    """The server speaks before TLS begins, as is its default."""
    configuration = made.folder / SERVER
    configuration.write_text(configuration.read_text().replace(", handshake_first: true", ""))
    return "handshake_first: true"


@pytest.mark.parametrize("mistake", [_other_authority, _other_host, _no_handshake_first])
def test_servers_that_are_not_trusted_are_told(made: Set, mistake: object, caplog: pytest.LogCaptureFixture) -> None:
    reason = mistake(made)  # type: ignore[operator]
    made.server.start()

    async def go() -> None:
        async with Endpoint(made.files[0]) as a:
            await until(lambda: reason in str(a.process.links[1].refusal))
            assert a.transport.reachable() == set()

    with caplog.at_level(logging.WARNING, "thence.runtime"):
        run(go())
    (warning,) = [record for record in caplog.records if getattr(record, "event", "") == "unreachable"]
    assert reason in warning.getMessage()


def test_a_client_without_a_certificate_is_refused_by_the_server(made: Set) -> None:
    made.server.start()
    at = made.folder
    issue(authority(), ["a"], at / "a.crt", at / "a.key")

    async def go() -> None:
        async with Endpoint(made.files[0]) as a:
            await until(lambda: "NATS at tls://" in str(a.process.links[1].refusal))

    run(go())
    with pytest.raises(MisuseError, match=r"no server of nats\.servers .* answers"):
        asyncio.run(change(load(made.files[0]), "b", joins=False, waiting=lambda names: None))


def test_a_server_that_asks_for_no_tls_gets_no_password(made: Set) -> None:
    """An attacker in the server's place says that it needs no TLS."""
    heard: list[bytes] = []
    password = (made.folder / "a.password").read_bytes().strip()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"x","version":"2.10.0","max_payload":8388608,"auth_required":true}\r\n')
        try:
            while data := await reader.read(1 << 16):
                heard.append(data)
        except OSError:
            pass
        finally:
            writer.close()

    async def go() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", made.port), Endpoint(made.files[0]) as a:
            await until(lambda: len(heard) >= 3)  # it tries again, though this server never answers
            await until(lambda: "handshake_first" in str(a.process.links[1].refusal))

    run(go())
    assert b"CONNECT" not in b"".join(heard)
    assert password not in b"".join(heard)


def test_a_server_that_answered_no_handshake_is_used_when_it_answers_again(made: Set) -> None:
    """While it is away, its port takes connections and says nothing, as a proxy before it may do."""
    for file in made.files:
        file.write_text(file.read_text() + "heartbeat_seconds = 0.1\nsilence_seconds = 1.0\n")
    made.server.start()

    async def go() -> None:
        taken = asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            taken.set()
            await reader.read()
            writer.close()

        async with Endpoint(made.files[0]) as a, Endpoint(made.files[1]) as b:
            await a.send({"b"}, b"1")
            await take(b, 1)
            await asyncio.to_thread(made.server.kill)
            hole = await asyncio.start_server(silent, "127.0.0.1", made.port)
            await a.send({"b"}, b"2")
            async with asyncio.timeout(60):
                await taken.wait()
            await asyncio.sleep(3.0)  # longer than the client of nats-py waits
            hole.close()
            await asyncio.to_thread(made.server.start)
            async with asyncio.timeout(60):
                assert [m.payload for m in await take(b, 1)] == [b"2"]

    run(go())
