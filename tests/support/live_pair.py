"""Endpoints of one process for tests, in a folder in memory: what is sent to them, and kills while a process joins."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from support.live import SHARED
from support.processes import free_ports
from thence.errors import MisuseError
from thence.live.changes import change
from thence.live.config import load
from thence.live.database import JournalError
from thence.live.frames import REFUSED, Framer, Hello, hello_frame
from thence.live.init import initialise
from thence.live.journal import Journal
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


class Killed:
    """Ends the endpoint of one process at one of its commits, before or after it, as a kill would."""

    def __init__(self, name: str, at: int, after: bool) -> None:
        self.name, self.left, self.after, self.reached = name, at, after, False

    def commit(self, journal: Journal, real: Callable[[int], None], number: int) -> None:
        mine = journal.mark is not None and journal.mark.path.name == f"{self.name}.journal.mark"
        self.left -= mine
        if mine and self.left == 0:
            self.reached = True
            if self.after:
                real(number)
            raise JournalError("killed")
        real(number)


async def _alive(file: Path, stop: asyncio.Event, life: dict[str, Endpoint]) -> None:
    """Run an endpoint, again whenever it is ended."""
    name = file.stem
    while not stop.is_set():
        try:
            async with Endpoint(file) as me:
                life[name] = me
                while not stop.is_set() and me.failure is None:
                    await asyncio.sleep(0.005)
        except JournalError:
            pass


async def join_and_leave(files: Sequence[Path], killed: Killed) -> None:
    """Let d join through b, send and leave through c, while a, b and c, and d itself, are started again when ended."""
    life: dict[str, Endpoint] = {}
    stop = asyncio.Event()
    tasks = [asyncio.create_task(_alive(file, stop, life)) for file in files[:3]]

    async def sent(name: str, to: set[str]) -> None:
        while True:
            try:
                await life[name].send(to, b"x")
                return
            except JournalError:  # killed; whether it was committed is not known
                await asyncio.sleep(0.01)
            except MisuseError:  # stopped, and not started again yet
                await asyncio.sleep(0.01)

    try:
        await until(lambda: len(life) == 3)
        await sent("a", {"b", "c"})
        await change(load(files[3]), "b", joins=True, waiting=lambda names: None)
        tasks.append(asyncio.create_task(_alive(files[3], stop, life)))
        await until(lambda: "d" in life)
        await sent("c", {"d", "a"})
        await sent("d", {"a", "b", "c"})
        await change(load(files[3]), "c", joins=False, waiting=lambda names: None)
        await sent("a", {"b", "c"})
        expected = {"a": 2, "b": 3, "c": 3, "d": 1}
        if not killed.reached:  # a send that was committed when its process ended is made once more
            await until(lambda: all(life[n].process.core.deliveries == k for n, k in expected.items()))
        await until(lambda: all(life[n].process.core.deliveries >= k for n, k in expected.items()))
        await until(lambda: all(len(each.process.core.membership.changes) == 2 for each in life.values()))

        def rest() -> bool:
            for p, each in enumerate(life[n] for n in "abcd"):
                for q, name in enumerate("abcd"):
                    if p != q and life[name].process.links[p].received != each.process.links[q].outbox.sent:
                        return False
            return True

        await until(rest)
    finally:
        stop.set()
        await asyncio.gather(*tasks)


def kill_at_every_commit(
    folder: Path, where: str, monkeypatch: pytest.MonkeyPatch, story: Callable[[Path, Killed], None]
) -> int:
    """Repeat a story in folders of its own, with a kill at another commit each time; return how many kills there were.

    `where` says when and who: "after a" ends a when a commit is on disk, "before a" when it is not.
    """
    when, name = where.split()
    real, kills, at = Journal.commit, 0, 2  # the first commit is that of the recovery
    while at < 40:
        killed = Killed(name, at, when == "after")
        monkeypatch.setattr(Journal, "commit", lambda j, n, k=killed: k.commit(j, lambda m: real(j, m), n))
        here = folder / f"{at}"
        here.mkdir()
        story(here, killed)
        if not killed.reached:
            break
        kills += 1
        at += 1 if at < 8 else 3
    return kills
