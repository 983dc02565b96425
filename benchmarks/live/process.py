"""One process of the live benchmark: python process.py CONFIG LOOP [PROFILE].

Says `ready` once it is connected to everybody; then every line of standard input asks for a phase, as JSON: when it
starts (seconds of the monotonic clock), how long it lasts, how many sends are kept under way, or how many sends a
second are made at random moments. Answers with one line of JSON each.
"""

import asyncio
import json
import os
import sys
import time
from random import Random
from struct import Struct

from thence.runtime import Endpoint

AT = Struct(">d")
FAN_OUT = 3


class Phase:
    def __init__(self, me: Endpoint, asked: dict) -> None:
        self.me, self.begin, self.end = me, asked["start"], asked["start"] + asked["seconds"]
        self.in_flight, self.rate = asked.get("in_flight", 0), asked.get("rate", 0.0)
        self.names = [name for name in me.config.processes if name != me.config.name]
        self.chance = Random(me.config.name)
        self.latencies: list[float] = []
        self.sent = self.delivered = 0

    async def send(self) -> None:
        now = time.monotonic()
        destinations = self.chance.sample(self.names, min(FAN_OUT, len(self.names)))
        await self.me.send(destinations, AT.pack(now) + b"x" * 92)
        self.sent += self.begin <= now < self.end

    async def keep_sending(self) -> None:
        while time.monotonic() < self.end:
            await self.send()

    async def send_at_random(self) -> None:
        tasks, at = set(), time.monotonic()
        while (at := at + self.chance.expovariate(self.rate)) < self.end:
            await asyncio.sleep(max(0.0, at - time.monotonic()))
            task = asyncio.create_task(self.send())
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)

    def deliver(self, payload: bytes) -> None:
        now = time.monotonic()
        if self.begin <= now < self.end:
            self.delivered += 1
            self.latencies.append(now - AT.unpack_from(payload)[0])

    async def run(self) -> dict:
        await asyncio.sleep(max(0.0, self.begin - 1.0 - time.monotonic()))
        work = [self.send_at_random()] if self.rate else [self.keep_sending() for _ in range(self.in_flight)]
        senders = [asyncio.create_task(each) for each in work]
        await asyncio.sleep(max(0.0, self.begin - time.monotonic()))
        cpu, delivered = time.process_time(), self.delivered
        await asyncio.sleep(max(0.0, self.end - time.monotonic()))
        cpu, delivered = time.process_time() - cpu, self.delivered - delivered
        await asyncio.gather(*senders)
        await asyncio.sleep(0.5)
        every = max(1, len(self.latencies) // 3000)
        return {"sent": self.sent, "delivered": delivered, "cpu": cpu, "latencies": self.latencies[::every]}


async def main() -> None:
    phase: Phase | None = None
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    async with Endpoint(sys.argv[1]) as me:
        loop.add_reader(0, lambda: lines.put_nowait(os.read(0, 1 << 16).decode()))

        async def read() -> None:
            async for message in me.deliveries():
                if phase is not None:
                    phase.deliver(message.payload)
                message.finish()

        reader = asyncio.create_task(read())
        while not all(link.open for position, link in enumerate(me.process.links) if position != me.process.core.me):
            await asyncio.sleep(0.05)
        print("ready", flush=True)
        while line := await lines.get():
            phase = Phase(me, json.loads(line))
            print(json.dumps(await phase.run()), flush=True)
        reader.cancel()


def start() -> None:
    if sys.argv[2] == "uvloop":
        import uvloop

        uvloop.run(main())
    else:
        asyncio.run(main())


if __name__ == "__main__":
    if len(sys.argv) > 3:
        import cProfile

        cProfile.run("start()", sys.argv[3])
    else:
        start()
