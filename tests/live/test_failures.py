"""Whatever goes wrong in a task of an endpoint ends it with the reason, for everyone who waits, logged once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from support.live_pair import PATIENCE, configure, folder, run, take, until

from thence.errors import MisuseError, ThenceError
from thence.live import endpoint, tcp
from thence.live.frames import ACK, BEAT, DATA, HELLO, data_frame, frame
from thence.live.listener import Listener
from thence.live.process import LiveProcess
from thence.runtime import Endpoint, FailedError, JournalError

assert folder is not None


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]


async def everyone_hears(me: Endpoint, kind: type[ThenceError], reason: str) -> None:
    """Everything that can be asked of an endpoint raises the reason, and nothing waits."""

    async def read() -> None:
        async for _ in me.deliveries():
            pass

    asked: list[Callable[[], Awaitable[object]]] = [
        lambda: me.send({"a"}, b"x"),
        read,
        lambda: me.abandon("a"),
        lambda: me.backup(me.config.journal.with_suffix(".copy")),
    ]
    for each in asked:
        with pytest.raises(kind, match=reason):
            async with asyncio.timeout(PATIENCE):
                await each()
    assert not any(link.open for link in me.process.links)
    assert not me.transport.channels


def test_a_full_trace_disk_ends_the_endpoint(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def go() -> None:
        first, second = configure(folder)
        (folder / "b.jsonl").symlink_to("/dev/full")
        async with Endpoint(first) as a, Endpoint(second) as b:
            waiting = asyncio.create_task(take(b, 1))
            await a.send({"b"}, b"x")
            with pytest.raises(JournalError, match=r"the trace .*b\.jsonl cannot be written: No space left"):
                await waiting
            await everyone_hears(b, JournalError, "No space left")
            assert await a.send({"b"}, b"y") == "a2"
        (folder / "b.jsonl").unlink()
        async with Endpoint(first) as a, Endpoint(second) as b:
            assert [m.payload for m in await take(b, 2)] == [b"x", b"y"]

    run(go())
    assert len(told(caplog)) == 1, told(caplog)


def test_who_waits_hears_of_it(folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """send, deliveries, done and a transaction wait, in both states, when the writer breaks."""

    async def go() -> None:
        first, second = configure(folder)
        async with Endpoint(first) as a, Endpoint(second) as b:
            for _ in range(3):
                await a.send({"b"}, b"x")
            one, two, three = await take(b, 3, done=False)
            reading = asyncio.create_task(take(b, 1))
            opened = asyncio.Event()

            async def deal() -> None:
                async with one.transaction() as tx:
                    opened.set()
                    await until(lambda: b.failure is not None)
                    tx.send({"a"}, b"too late")

            async def deal_next() -> None:
                await opened.wait()
                async with two.transaction():
                    pass

            tasks = [asyncio.create_task(each) for each in (deal(), deal_next())]
            await opened.wait()
            tasks += [asyncio.create_task(each) for each in (three.done(), b.send({"a"}, b"y"))]  # type: ignore[arg-type]
            await asyncio.sleep(0.05)
            b.process.broken(RuntimeError("boom"))
            for error in await asyncio.gather(reading, *tasks, return_exceptions=True):
                assert isinstance(error, FailedError), error
                assert "RuntimeError: boom" in str(error)
            await everyone_hears(b, FailedError, "boom")

    run(go())
    assert len(told(caplog)) == 1


async def _break(*args: object, **options: object) -> None:
    raise RuntimeError("boom")


def _raise(*args: object, **options: object) -> None:
    raise RuntimeError("boom")


BROKEN: dict[str, tuple[object, str, object]] = {
    "applying": (LiveProcess, "_apply_group", _raise),
    "committing": (LiveProcess, "commit", _raise),
    "releasing": (LiveProcess, "release", _raise),
    "renewing": (tcp.TcpTransport, "renew", _raise),
    "the heartbeat": (tcp.TcpTransport, "beat", _raise),
    "listening": (Listener, "_place", _break),
    "dialling": (tcp.TcpTransport, "_connect", _break),
    "an item": (LiveProcess, "item", _raise),
    "an acknowledgement": (LiveProcess, "acknowledged", _raise),
    "the first words": (LiveProcess, "meet", _raise),
    "the end of a connection": (LiveProcess, "lost", _raise),
}


@pytest.mark.parametrize("synchronous", ["full", "normal"])
@pytest.mark.parametrize("what", BROKEN)
def test_an_exception_in_any_task_ends_the_endpoint(
    folder: Path, what: str, synchronous: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def go() -> None:
        first, second = configure(folder)
        for file in (first, second):
            file.write_text(file.read_text().replace('"full"', f'"{synchronous}"'))
        monkeypatch.setattr(endpoint, "RENEW_SECONDS", 0.01)
        async with Endpoint(first) as a, Endpoint(second) as b:
            await a.send({"b"}, b"x")
            await take(b, 1)
            owner, name, broken = BROKEN[what]
            monkeypatch.setattr(owner, name, broken)
            for each in list(a.transport.channels):
                each.abort()
            sends = [asyncio.ensure_future(a.send({"b"}, b"y")) for _ in range(3)]
            await until(lambda: a.failure is not None or b.failure is not None)
            failed, other = (a, "b") if a.failure is not None else (b, "a")
            with pytest.raises(FailedError, match="RuntimeError: boom"):
                await failed.send({other}, b"z")
            for error in await asyncio.gather(*sends, return_exceptions=True):
                assert error in ("a2", "a3", "a4") or isinstance(error, FailedError)
            await until(lambda: not failed.transport.channels)

    run(go())
    assert len(told(caplog)) <= 2  # one for each endpoint
    assert all("RuntimeError: boom" in line for line in told(caplog))


def test_after_a_stop_nothing_waits(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder)
        async with Endpoint(first) as a, Endpoint(second) as b:
            await a.send({"b"}, b"x")
            (message,) = await take(b, 1, done=False)
        for asked in (message.done, lambda: b.abandon("a"), lambda: message.transaction().__aenter__()):
            with pytest.raises(MisuseError, match="b has stopped"):
                async with asyncio.timeout(PATIENCE):
                    await asked()

    run(go())


def test_hostile_frames_of_every_kind_do_not_end_an_endpoint(folder: Path) -> None:
    """After a proper hello: every kind of frame, with every kind of body."""
    from support.live_pair import hello, talk

    bodies = [b"", b"\x00", b"\xff" * 8, bytes(16), b"\xff" * 16, b"{}", b"[]", b"\xff\xfe", b"x" * 5000]

    async def go() -> None:
        async with Endpoint(configure(folder)[1]) as b:
            for kind in (HELLO, DATA, ACK, 4, BEAT, 6, 0, 7, 255):
                for body in bodies:
                    try:
                        await talk(b, hello(b, "a") + frame(kind, body), wait=0.02)
                    except TimeoutError:
                        pass
            for item in (b"", b"\x01", b"\x02", b"\x03", b"\x01\x01" + bytes(12), b"\x02" + bytes(20)):
                await talk(b, hello(b, "a") + data_frame(1, item, b""))
            assert b.failure is None

    run(go())
