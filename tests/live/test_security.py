"""What a stranger, or an authenticated peer that lies, cannot do."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import ssl
import sys
from pathlib import Path
from random import Random

import pytest
from support.live_pair import configure, folder, hello, run, take, talk, until

from thence.errors import MisuseError
from thence.live.certificates import authority, issue
from thence.live.config import Tls
from thence.live.core import Core
from thence.live.frames import ACK, DATA, HELLO, data_frame, frame
from thence.live.init import initialise
from thence.live.inputs import Send, copy_head
from thence.live.tls import context
from thence.runtime import Endpoint

assert folder is not None


async def shut_out(endpoint: Endpoint, tls: ssl.SSLContext | None) -> bool:
    """Return whether a connection ends without a word."""
    try:
        return not await talk(endpoint, hello(endpoint, "a"), tls)
    except (ssl.SSLError, ConnectionError):  # and not that it took too long
        return True


def test_certificates_that_do_not_do(folder: Path) -> None:
    async def go() -> None:
        files = configure(folder, plain=False)
        other = authority("somebody else")
        root = authority()
        for name in "ab":
            issue(root, [name], folder / f"{name}.crt", folder / f"{name}.key")
        root.write(folder / "authority.crt")
        cases = {
            "another authority": (other, ["a"], 1.0),
            "expired": (root, ["a"], -1.0),
            "no name": (root, [], 1.0),
            "two names": (root, ["a", "c"], 1.0),
        }
        async with Endpoint(files[1]) as b:
            for by, names, days in cases.values():
                issue(by, names, folder / "x.crt", folder / "x.key", days=days)
                tls = context(
                    Tls(folder / "x.crt", folder / "x.key", folder / "authority.crt"), ssl.PROTOCOL_TLS_CLIENT
                )
                assert await shut_out(b, tls)
            bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            bare.check_hostname = False
            bare.verify_mode = ssl.CERT_NONE
            assert await shut_out(b, bare)
            assert await shut_out(b, None)
            assert not b.process.links[0].open
            assert b.process.core.number == 0

    run(go())


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["b"], "a.crt: it names thence:b; thence:a is expected"),
        ([], "a.crt: the certificate holds 0 names of the form thence:NAME"),
    ],
)
def test_an_endpoint_does_not_start_with_the_certificate_of_another(folder: Path, names: list[str], told: str) -> None:
    async def go() -> None:
        files = configure(folder, plain=False)
        root = authority()
        root.write(folder / "authority.crt")
        issue(root, names, folder / "a.crt", folder / "a.key")
        with pytest.raises(MisuseError, match=told):
            async with Endpoint(files[0]):
                pass
        issue(root, ["a"], folder / "a.crt", folder / "a.key")
        async with Endpoint(files[0]):
            pass

    run(go())


def test_a_certificate_speaks_for_its_own_name_only(folder: Path) -> None:
    async def go() -> None:
        files = configure(folder, "abc", plain=False)
        async with Endpoint(files[2]) as c:
            tls = context(Tls(folder / "b.crt", folder / "b.key", folder / "authority.crt"), ssl.PROTOCOL_TLS_CLIENT)
            (refusal,) = await talk(c, hello(c, "a"), tls)
            assert refusal == b"the certificate is of b, but the connection says it is a"

    run(go())


def test_logs_say_who_refuses_whom(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("thence.live.tcp.check_own", lambda *_: None)  # who lies does not look at its own certificate

    async def go() -> None:
        files = configure(folder, plain=False)
        for kind in ("crt", "key"):
            shutil.copy(folder / f"a.{kind}", folder / f"b.{kind}")
        async with Endpoint(files[0]) as a, Endpoint(files[1]) as b:
            await until(lambda: a.process.links[1].refusal is not None and b.process.links[0].refusal is not None)

    run(go())
    told = "the certificate is of a, but the connection says it is b"
    assert {f"b is refused: {told}", f"a refuses b: {told}"} <= set(caplog.messages)


def test_an_authority_that_does_not_fit_is_logged_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def go() -> None:
        files = configure(folder, plain=False)
        issue(authority("somebody else"), ["b"], folder / "b.crt", folder / "b.key")
        async with Endpoint(files[0]) as a, Endpoint(files[1]):
            await until(lambda: a.process.links[1].refusal is not None)
            await asyncio.sleep(0.5)

    run(go())
    (told,) = [line for line in caplog.messages if "TLS with b" in line]
    assert told.startswith("b is refused: TLS with b at ")
    assert "CERTIFICATE_VERIFY_FAILED, " in told


def test_an_authenticated_peer_cannot_forge_a_sender(folder: Path) -> None:
    async def go() -> None:
        files = configure(folder, "abc")
        async with Endpoint(files[2]) as c:
            forged = Core.fresh("ks", "abc", "a").apply(Send(4, b"forged"), 0.0).sent[0][1]
            item = data_frame(1, forged.head, b"forged")
            (refusal,) = await talk(c, hello(c, "b") + item)
            assert b"b brings a message of a" in refusal
            assert c.process.core.number == 1  # what was agreed on with b, and no receipt
            assert c.process.core.received == [0, 0, 0]

    run(go())


def test_a_replayed_item_is_passed_over(folder: Path) -> None:
    async def go() -> None:
        files = configure(folder)
        async with Endpoint(files[1]) as b:
            entry = Core.fresh("ks", "ab", "a").apply(Send(2, b"x"), 0.0).sent[0][1]
            item = data_frame(1, entry.head, b"x")
            with pytest.raises(TimeoutError):
                await talk(b, hello(b, "a") + 3 * item, wait=0.5)
            with pytest.raises(TimeoutError):
                await talk(b, hello(b, "a", sent=1) + 2 * item, wait=0.5)
            assert len(await take(b, 1)) == 1
            assert (b.process.core.deliveries, b.process.core.received[0]) == (1, 1)

    run(go())


@pytest.mark.parametrize(
    ("what", "told"),
    [
        (frame(DATA, b"12345678"), b"came first"),
        (b"\xff\xff\xff\xff\x01", b"a frame of 4294967295 bytes"),
        (frame(HELLO, b"[]"), b"cannot be read"),
        (frame(HELLO, json.dumps({"name": "a"}).encode()), b"cannot be read"),
        (frame(HELLO, b"[" * 100_000), b"cannot be read"),
    ],
)
def test_first_words_that_cannot_be_used(folder: Path, what: bytes, told: bytes) -> None:
    async def go() -> None:
        async with Endpoint(configure(folder)[1]) as b:
            (refusal,) = await talk(b, what)
            assert told in refusal

    run(go())


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": "z"}, b"z is not among the processes"),
        ({"name": "b"}, b"does not dial"),
        ({"roster": ["a"]}, b"roster differs"),
        ({"protocol": "rst"}, b"protocol differs"),
        ({"versions": (7, 9)}, b"versions 7 to 9"),
        ({"received": 5}, b"b has lost its memory"),
    ],
)
def test_terms_that_differ(folder: Path, changes: dict[str, object], told: bytes) -> None:
    async def go() -> None:
        async with Endpoint(configure(folder)[1]) as b:
            refusals = await talk(b, hello(b, "a", **changes))
            assert any(told in refusal for refusal in refusals), refusals

    run(go())


def test_frames_beyond_the_terms(folder: Path) -> None:
    async def go() -> None:
        async with Endpoint(configure(folder)[1]) as b:
            for bad, told in (
                (frame(ACK, (5).to_bytes(8, "big") + bytes(8)), b"acknowledges item 5"),
                (data_frame(9, copy_head(0, b"", with_payload=True), b""), b"item 9 of a came after item 0"),
                (data_frame(1, copy_head(0, b"", with_payload=True), b""), b"too short"),
                (data_frame(1, b"\x09", b""), b"kind 9"),
                (data_frame(1, copy_head(1 << 60, b"", with_payload=True), b""), b"order"),
                (frame(99), b"kind 99"),
                (b"\x00\xff\xff\xff\x02", b"a frame of 16777215 bytes"),
            ):
                (refusal,) = await talk(b, hello(b, "a") + bad)
                assert told in refusal
            assert b.process.core.number == 1  # what was agreed on with a, and no receipt
            assert b.process.core.received == [0, 0]

    run(go())


def test_who_says_nothing_is_shown_the_door(folder: Path) -> None:
    async def go() -> None:
        async with Endpoint(configure(folder, limits={"handshake_seconds": 1.0})[1]) as b:
            address = b.config.listen
            slow = [await asyncio.open_connection(address.host, address.port)]
            slow[0][1].write(b"\x00\x00")
            slow += [await asyncio.open_connection(address.host, address.port) for _ in range(79)]
            await until(lambda: not b.transport.greeting)
            assert all([not await reader.read(-1) for reader, _ in slow])
            for _, writer in slow:
                writer.close()
            async with Endpoint(folder / "a.toml") as a:
                await a.send({"b"}, b"still here")
                await take(b, 1)

    run(go())


def test_noise_changes_nothing(folder: Path) -> None:
    seed = int(os.environ.get("THENCE_SEED", "1"))

    async def go() -> None:
        chance = Random(seed)
        async with Endpoint(configure(folder)[1]) as b:
            entry = Core.fresh("ks", "ab", "a").apply(Send(2, b"x"), 0.0).sent[0][1]
            good = data_frame(1, entry.head, b"x")
            for _ in range(60):
                noise = bytearray(good)
                for _ in range(chance.randrange(1, 6)):
                    noise[chance.randrange(4, len(noise))] = chance.randrange(256)
                data = bytes(noise[: chance.choice((len(noise), chance.randrange(1, len(noise))))])
                if data == good:
                    continue
                try:
                    await talk(b, hello(b, "a", sent=b.process.core.received[0]) + data, wait=0.05)
                except TimeoutError:
                    pass
            assert b.failure is None
            assert b.journal.failed is None

    print(f"seed {seed}")
    run(go())


def test_nothing_is_half_made_without_cryptography(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "thence.live.certificates", None)
    with pytest.raises(ImportError):
        initialise(folder, ["a", "b"])
    assert list(folder.iterdir()) == []


def test_certificates_are_renewed_without_a_restart(folder: Path) -> None:
    async def go() -> None:
        files = initialise(folder, ["a", "b"])
        async with Endpoint(files[0]) as a, Endpoint(files[1]) as b:
            await a.send({"b"}, b"1")
            await take(b, 1)
            root = authority("the next one")
            for name in "ab":
                issue(root, [name], folder / f"{name}.crt", folder / f"{name}.key")
            root.write(folder / "authority.crt")
            assert a.transport.renew()
            assert b.transport.renew()
            for channel in list(a.transport.channels):
                channel.abort()
            await a.send({"b"}, b"2")
            assert [m.payload for m in await take(b, 1)] == [b"2"]
            assert not a.transport.renew()

    run(go())
