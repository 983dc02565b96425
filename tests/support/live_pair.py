"""Endpoints of one process for tests, in a folder in memory, and bytes of a test's own sent to them."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from support.live import SHARED
from support.processes import free_ports
from thence.live.frames import REFUSED, Framer, Hello, hello_frame
from thence.live.init import initialise
from thence.runtime import Endpoint, Message

PATIENCE = 300.0
"""seconds after which what was waited for will not come, however slow the machine is"""
LIMITS = {"stop_seconds": 0.2, "handshake_seconds": 60.0, "transaction_seconds": 60.0}
"""short is only what every test waits for in vain, at its end"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(dir=SHARED) as name:
        yield Path(name)


def configure(
    folder: Path,
    names: str = "ab",
    *,
    plain: bool = True,
    limits: Mapping[str, int | float | str] | None = None,
    **options: object,
) -> list[Path]:
    """Make a set; `limits` are those of every configuration that differ from `LIMITS`."""
    files = initialise(folder, list(names), plain=plain, ports=free_ports(len(names)), **options)  # type: ignore[arg-type]
    for file in files:
        lines = [f"{key} = {json.dumps(value)}\n" for key, value in {**LIMITS, **(limits or {})}.items()]
        file.write_text(file.read_text() + "\n[limits]\n" + "".join(lines))
    return files


async def take(endpoint: Endpoint, count: int, *, done: bool = True) -> list[Message]:
    """Return the next deliveries."""
    found: list[Message] = []
    async with asyncio.timeout(PATIENCE):
        async for message in endpoint.deliveries():
            found.append(message)
            if done:
                await message.done()
            if len(found) == count:
                break
    return found


async def until(true: Callable[[], bool]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(0.01)


def run(test: Awaitable[None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(2 * PATIENCE):
            await test

    asyncio.run(bounded())


async def talk(
    endpoint: Endpoint, data: bytes, tls: ssl.SSLContext | None = None, wait: float = PATIENCE
) -> list[bytes]:
    """Send bytes to an endpoint and return the bodies of the refusals that come back."""
    address = endpoint.config.listen
    reader, writer = await asyncio.open_connection(address.host, address.port, ssl=tls)
    try:
        writer.write(data)
        async with asyncio.timeout(wait):
            answer = await reader.read(-1)
    finally:
        writer.close()
    return [body for kind, body in Framer(1 << 22).feed(answer) if kind == REFUSED]


def hello(endpoint: Endpoint, by: str, **changes: object) -> bytes:
    core = endpoint.process.core
    said = Hello(by, "0" * 32, list(core.roster), core.member.name, "[('explicit', False)]", 0, 0, 1 << 20)
    return hello_frame(said if not changes else Hello(**{**{s: getattr(said, s) for s in said.__slots__}, **changes}))
