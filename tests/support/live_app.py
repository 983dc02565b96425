"""The application of the tests with real processes: python live_app.py CONFIG WITNESS SENDS SEED [POINT:COUNT].

It appends what it is handed to its own file (O_APPEND), deals with half of it by `done` and with the other half in a
transaction (a row of its own, and a reply now and then), and sends messages of its own. POINT:COUNT makes it kill
itself at the COUNT-th passage of a named point.

With THENCE_TORTURE in the environment some payloads have 700 kB, some transactions send 700 messages, and sends and
transactions are cancelled at random moments; what was cancelled is tried again, unless it turns out to be done.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random

from thence.live.journal import Journal
from thence.live.process import LiveProcess
from thence.runtime import DoneError, Endpoint, Message, RolledBackError

TORTURE = "THENCE_TORTURE" in os.environ

POINTS = (
    "before-commit",
    "after-commit",
    "before-acknowledgement",
    "after-acknowledgement",
    "before-hand-over",
    "after-hand-over",
    "before-done",
    "after-done",
    "before-snapshot",
    "after-snapshot",
    "before-checkpoint",
    "after-checkpoint",
)


class KillPoint:
    """Ends this process, as kill -9 does, at a point's n-th passage."""

    def __init__(self, text: str) -> None:
        self.point, _, count = text.partition(":")
        self.left = int(count or 0)

    def pass_by(self, point: str) -> None:
        if point == self.point:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def around(self, owner: type, method: str, what: str) -> None:
        real: Callable[..., object] = getattr(owner, method)

        def wrapped(*args: object, **options: object) -> object:
            self.pass_by(f"before-{what}")
            result = real(*args, **options)
            self.pass_by(f"after-{what}")
            return result

        setattr(owner, method, wrapped)


def transactional(message: str) -> bool:
    return zlib.crc32(message.encode()) % 2 == 0


class Application:
    def __init__(self, config: str, witness: str, sends: int, seed: int, kill: KillPoint) -> None:
        self.endpoint = Endpoint(config)
        self.witness = os.open(witness, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.progress = Path(witness + ".sent")
        self.sends, self.seed, self.kill = sends, seed, kill
        self.fate = Random(f"{seed} {config} {os.getpid()}")

    async def run(self) -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        async with self.endpoint as me:
            await self.prepare(me)
            tasks = [asyncio.create_task(self.read(me)), asyncio.create_task(self.send(me))]
            ended = asyncio.create_task(stop.wait())
            done, _ = await asyncio.wait([*tasks, ended], return_when=asyncio.FIRST_COMPLETED)
            while not stop.is_set() and all(task.exception() is None for task in done):
                done, _ = await asyncio.wait([tasks[0], ended], return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, Exception):
                    raise result

    async def prepare(self, me: Endpoint) -> None:
        async with me.writer.turn:
            me.database.execute("CREATE TABLE IF NOT EXISTS effects (message TEXT, process TEXT)")

    async def read(self, me: Endpoint) -> None:
        async for message in me.deliveries():
            self.kill.pass_by("before-hand-over")
            os.write(self.witness, f"{message.id} {int(message.redelivered)}\n".encode())
            self.kill.pass_by("after-hand-over")
            self.kill.pass_by("before-done")
            await self.deal(me, message)
            self.kill.pass_by("after-done")

    async def deal(self, me: Endpoint, message: Message) -> None:
        if not transactional(message.id):
            await message.done()
            return
        while True:
            try:
                async with asyncio.timeout(self.patience()):
                    await self.effect(me, message)
                return
            except DoneError:  # it was committed when it was cancelled
                return
            except (RolledBackError, TimeoutError):  # suspended inside it for too long, or cancelled in time
                continue

    def patience(self) -> float | None:
        """Return the seconds after which the next step is cancelled; None for never."""
        return self.fate.random() * 0.03 if TORTURE and self.fate.random() < 0.25 else None

    async def effect(self, me: Endpoint, message: Message) -> None:
        async with message.transaction() as tx:
            tx.execute("INSERT INTO effects VALUES (?, ?)", (message.id, me.config.name))
            if (
                not me.config.options
                and message.payload.startswith(b"first")
                and zlib.crc32(message.id.encode()) % 3 == 0
            ):
                tx.send({message.sender}, b"reply " + me.config.name.encode() + b" " + message.id.encode())
            if TORTURE and message.payload.startswith(b"first") and zlib.crc32(message.id.encode()) % 128 == 0:
                for number in range(700):
                    tx.send({message.sender}, b"bulk %d" % number)
                    if number % 100 == 0:
                        await asyncio.sleep(0)

    def destinations(self, me: Endpoint, names: list[str], chance: Random) -> list[str]:
        groups = str(me.config.options.get("groups", ""))
        if groups:
            return [name for group in chance.sample(groups.split("|"), 2) for name in group]
        return chance.sample(names, min(3, len(names)))

    async def send_one(self, me: Endpoint, to: list[str], number: int) -> None:
        size = 700_000 if TORTURE and number % 40 == 7 else 100
        while True:
            try:
                async with asyncio.timeout(self.patience()):
                    await me.send(to, b"first %d " % number + b"x" * size)
                return
            except TimeoutError:  # withdrawn, or committed whole: then it is sent twice, as two messages
                continue

    async def send(self, me: Endpoint) -> None:
        names = [name for name in me.config.processes if name != me.config.name]
        begun = len(self.progress.read_bytes()) if self.progress.exists() else 0
        chance = Random(f"{self.seed} {me.config.name} {begun}")
        with self.progress.open("ab", buffering=0) as progress:
            for number in range(begun, self.sends, 5):
                wave = range(number, min(number + 5, self.sends))
                await asyncio.gather(*(self.send_one(me, self.destinations(me, names, chance), each) for each in wave))
                progress.write(b"." * len(wave))
                await asyncio.sleep(chance.random() * 0.02)


def main() -> None:
    config, witness, sends, seed, *rest = sys.argv[1:]
    kill = KillPoint(rest[0] if rest else "")
    kill.around(Journal, "commit", "commit")
    kill.around(LiveProcess, "_acknowledge", "acknowledgement")
    kill.around(LiveProcess, "snapshot", "snapshot")
    from thence.live.database import StandardDatabase

    kill.around(StandardDatabase, "checkpoint", "checkpoint")
    from thence.live import process as process

    process.SNAPSHOT_EVERY = 200
    LiveProcess.__init__.__kwdefaults__["snapshot_every"] = 200  # type: ignore[index]
    asyncio.run(Application(config, witness, int(sends), int(seed), kill).run())


if __name__ == "__main__":
    main()
