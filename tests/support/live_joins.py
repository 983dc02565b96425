"""A process joins, takes part and leaves, while one process after the other is ended at each of its commits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from support.live_pair import until
from thence.errors import MisuseError
from thence.live.changes import change
from thence.live.config import load
from thence.live.database import JournalError
from thence.live.journal import Journal
from thence.runtime import Endpoint


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
