"""A connection that is dead and says nothing of it is noticed, ended and dialled anew."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path

import pytest
from support.live_pair import configure, folder, hello, run, take, talk, until
from support.live_proxy import Proxies
from support.processes import free_ports

from thence.errors import MisuseError
from thence.live.config import Limits
from thence.live.tcp import LAST_PAUSE
from thence.runtime import Endpoint, load

assert folder is not None
QUICK = {"heartbeat_seconds": 0.1, "silence_seconds": 1.0}


def behind_a_proxy(first: Path, second: Path) -> Proxies:
    """Let the first find the second behind a proxy."""
    inside, (outside,) = load(second).listen.port, free_ports(1)
    first.write_text(first.read_text().replace(f'127.0.0.1:{inside}"', f'127.0.0.1:{outside}"'))
    return Proxies({outside: inside})


def test_by_default_a_dead_link_is_dialled_anew_within_fifteen_seconds() -> None:
    limits = Limits()
    assert limits.silence_seconds + limits.heartbeat_seconds + 1.5 * LAST_PAUSE <= 15


@pytest.mark.parametrize(("protocol", "options"), [("ks", {}), ("ks-ft", {"groups": "ab"})])
@pytest.mark.parametrize("plain", [True, False], ids=["plain", "tls"])
def test_a_link_that_swallows_everything_is_dialled_anew(
    folder: Path, caplog: pytest.LogCaptureFixture, protocol: str, options: dict[str, str], plain: bool
) -> None:
    caplog.set_level(logging.INFO, "thence.runtime")

    async def go() -> None:
        first, second = configure(folder, plain=plain, limits=QUICK, protocol=protocol, options=options)
        proxies = behind_a_proxy(first, second)
        try:
            async with Endpoint(first) as a, Endpoint(second) as b:
                everyone = {"a", "b"} if options else {"b"}
                for number in range(3):
                    await a.send(everyone, b"%d" % number)
                    assert [m.payload for m in await take(b, 1)] == [b"%d" % number]
                    await asyncio.to_thread(proxies.swallow)
        finally:
            proxies.close()

    run(go())
    lost = [r.getMessage() for r in caplog.records if getattr(r, "event", "") == "lost"]
    assert sum("nothing was heard for 1 s" in line for line in lost) >= 2


def test_a_quiet_link_stays(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "thence.runtime")

    async def go() -> None:
        first, second = configure(folder, limits={"heartbeat_seconds": 0.2, "silence_seconds": 1.0})
        async with Endpoint(first) as a, Endpoint(second) as b:
            await a.send({"b"}, b"x")
            await take(b, 1)
            beats = max(channel.quiet for channel in b.transport.channels)
            assert beats <= 5
            await asyncio.sleep(3)
            assert a.process.links[1].open

    run(go())
    assert sum(getattr(record, "event", "") == "connected" for record in caplog.records) == 2


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "tls"])
def test_both_ends_of_a_connection_keep_the_socket_alive(folder: Path, plain: bool) -> None:
    """The operating system gives up a dead connection too, within the time that an endpoint takes by default."""

    async def go() -> None:
        first, second = configure(folder, plain=plain)
        async with Endpoint(first) as a, Endpoint(second) as b:
            await until(lambda: a.process.links[1].open and b.process.links[0].open)
            for each in (a, b):
                (channel,) = each.transport.channels
                assert channel.transport is not None
                made = channel.transport.get_extra_info("socket")
                assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                idle, interval, probes = (
                    made.getsockopt(socket.IPPROTO_TCP, option)
                    for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
                )
                assert idle + interval * probes <= 15
                assert 0 < made.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) <= 15_000

    run(go())


def test_a_peer_of_the_release_before_may_be_quiet(folder: Path) -> None:
    async def go() -> None:
        async with Endpoint(configure(folder, limits=QUICK)[1]) as b:
            with pytest.raises(TimeoutError):
                await talk(b, hello(b, "a", versions=(1, 1)), wait=3.0)

            async def silent() -> None:
                await talk(b, hello(b, "a"))

            await silent()  # ends, since it sends no heartbeats though it speaks version 2

    run(go())


def test_silence_is_longer_than_a_few_heartbeats(folder: Path) -> None:
    with pytest.raises(MisuseError, match=r"limits\.silence_seconds is 1; at least three times heartbeat_seconds, 3,"):
        load(configure(folder, limits={"heartbeat_seconds": 1.0, "silence_seconds": 1})[0])
