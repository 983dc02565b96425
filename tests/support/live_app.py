"""The application of the tests with real processes: python live_app.py CONFIG WITNESS SENDS SEED [POINT:COUNT].

It appends what it is handed to its own file (O_APPEND), deals with half of it by `done` and with the other half in a
transaction (a row of its own, and a reply now and then), and sends messages of its own. POINT:COUNT makes it kill
itself at the COUNT-th passage of a named point.

Beside that file it notes, in words of its own, what it began to send, what was answered and what it was handed: the
lines that `live_oracle` judges. A payload says which message it is, and holds a checksum that is compared on arrival.

With THENCE_TORTURE in the environment payloads have 700 kB now and then and 10 to 30 MB rarely, some transactions send
2,000 messages and some 10 MiB, and every call is cancelled at random moments; what was cancelled is tried again, unless
it turns out to be done.
"""

from __future__ import annotations

import asyncio
import os
import secrets
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
PACE = float(os.environ.get("THENCE_TORTURE", "0.02"))
"""seconds between two waves of sends are a random part of this"""
BULK, PIECES = 2000, 12
"""sends of a large transaction; sends of 900 kB of another"""
HEAVY = 200, 113
"""a send whose number leaves this remainder has 10 to 30 MB"""

PASSED = ("commit", "acknowledgement", "hand-over", "done", "snapshot", "checkpoint")
POINTS = tuple(f"{when}-{what}" for what in PASSED for when in ("before", "after"))


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


def payload_of(kind: str, uid: str, size: int) -> bytes:
    """Return a payload that says which message it is, and what it should hold."""
    body = uid.encode() * (size // len(uid) + 1)
    return f"{kind} {uid} {zlib.crc32(body)} ".encode() + body


def uid_of(payload: bytes) -> str:
    """Return which message a payload is of; what came is what was sent."""
    _, uid, checksum, body = payload.split(b" ", 3)
    assert zlib.crc32(body) == int(checksum), f"the payload of {uid!r} was changed on the way"
    return uid.decode()


class Application:
    def __init__(self, config: str, witness: str, sends: int, seed: int, kill: KillPoint) -> None:
        self.endpoint = Endpoint(config)
        self.witness = os.open(witness, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.notes = os.open(witness + ".notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.note("start")
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
            me.database.execute("CREATE TABLE IF NOT EXISTS effects (message TEXT, transaction_key TEXT)")

    def note(self, *lines: str) -> None:
        os.write(self.notes, "".join(f"{line}\n" for line in lines).encode())

    async def read(self, me: Endpoint) -> None:
        deliveries = me.deliveries()
        while True:
            try:
                async with asyncio.timeout(self.patience()):
                    message = await anext(deliveries)
            except TimeoutError:
                deliveries = me.deliveries()
                continue
            except StopAsyncIteration:
                return
            self.kill.pass_by("before-hand-over")
            again = int(message.redelivered)
            os.write(self.witness, f"{message.id} {again}\n".encode())
            self.note(f"handed {uid_of(message.payload)} {message.id} {again}")
            self.kill.pass_by("after-hand-over")
            self.kill.pass_by("before-done")
            await self.deal(me, message)
            self.kill.pass_by("after-done")

    async def deal(self, me: Endpoint, message: Message) -> None:
        while True:
            try:
                async with asyncio.timeout(self.patience()):
                    if transactional(message.id):
                        await self.effect(me, message)
                    else:
                        await message.done()
                return
            except DoneError:  # it was committed when it was cancelled
                return
            except (RolledBackError, TimeoutError):  # suspended inside it for too long, or cancelled in time
                continue

    def patience(self) -> float | None:
        """Return the seconds after which the next step is cancelled; None for never."""
        return self.fate.random() * 0.03 if TORTURE and self.fate.random() < 0.25 else None

    async def effect(self, me: Endpoint, message: Message) -> None:
        name, chance = me.config.name, zlib.crc32(message.id.encode())
        key = f"{uid_of(message.payload)}>{name}.{secrets.token_hex(4)}"  # of this attempt: one of them happens
        sizes: list[int] = []
        if not me.config.options and message.payload.startswith(b"first"):
            if chance % 3 == 0:
                sizes = [10]
            if TORTURE and chance % 1024 == 0:
                sizes = [10] * BULK
            elif TORTURE and chance % 1024 == 512:
                sizes = [900_000] * PIECES
        uids = [f"{key}:{number}" for number in range(len(sizes))]
        self.note(*(f"begin {uid} {message.sender}" for uid in uids), *(f"within {uid} {key}" for uid in uids))
        async with message.transaction() as tx:
            tx.execute("INSERT INTO effects VALUES (?, ?)", (message.id, key))
            for number, (uid, size) in enumerate(zip(uids, sizes, strict=True)):
                tx.send({message.sender}, payload_of("reply", uid, size))
                if number % 100 == 99:
                    await asyncio.sleep(0)
        self.note(f"committed {key}")

    def destinations(self, me: Endpoint, names: list[str], chance: Random) -> list[str]:
        groups = str(me.config.options.get("groups", ""))
        if groups:
            return [name for group in chance.sample(groups.split("|"), 2) for name in group]
        return chance.sample(names, min(3, len(names)))

    async def send_one(self, me: Endpoint, to: list[str], number: int) -> None:
        size = 100
        if TORTURE and number % 40 == 7:
            size = 700_000
        elif TORTURE and number % HEAVY[0] == HEAVY[1]:
            size, to = self.fate.randrange(10_000_000, 30_000_000), to[:1]
        while True:
            uid = f"{me.config.name}.{number}.{secrets.token_hex(4)}"
            self.note(f"begin {uid} {','.join(to)}")
            try:
                async with asyncio.timeout(self.patience()):
                    await me.send(to, payload_of("first", uid, size))
                self.note(f"sent {uid}")
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
                await asyncio.sleep(chance.random() * PACE)


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
