"""Endpoints of one process for tests, in a folder in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from support.live import SHARED
from thence.runtime import Endpoint, Message
from thence.runtime.setup import initialise


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(dir=SHARED) as name:
        yield Path(name)


def configure(folder: Path, names: str = "ab", *, plain: bool = True, more: str = "", **options: object) -> list[Path]:
    """Make a set with short deadlines; `more` are lines for every configuration."""
    files = initialise(folder, list(names), plain=plain, **options)  # type: ignore[arg-type]
    for file in files:
        text = file.read_text()
        file.write_text(text + "\n[limits]\nstop_seconds = 0.2\nhandshake_seconds = 1.0\n" + more)
    return files


async def take(endpoint: Endpoint, count: int, *, done: bool = True) -> list[Message]:
    """Return the next deliveries."""
    found: list[Message] = []
    async with asyncio.timeout(20):
        async for message in endpoint.deliveries():
            found.append(message)
            if done:
                await message.done()
            if len(found) == count:
                break
    return found


async def until(true: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.01)


def run(test: Awaitable[None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await test

    asyncio.run(bounded())
