"""One process of the live benchmark: python process.py CONFIG START SECONDS IN_FLIGHT; prints one JSON line."""

import asyncio
import json
import sys
import time
from random import Random
from struct import Struct

from thence.runtime import Endpoint

AT = Struct(">d")


async def main() -> None:
    config, start, seconds, in_flight = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    begin, end = start, start + seconds
    latencies: list[float] = []
    sent = delivered = 0
    async with Endpoint(config) as me:
        names = [name for name in me.config.processes if name != me.config.name]
        chance = Random(me.config.name)

        async def send() -> None:
            nonlocal sent
            while (now := time.monotonic()) < end:
                await me.send(chance.sample(names, min(3, len(names))), AT.pack(now) + b"x" * 92)
                sent += begin <= now

        async def read() -> None:
            nonlocal delivered
            async for message in me.deliveries():
                now = time.monotonic()
                if begin <= now < end:
                    delivered += 1
                    latencies.append(now - AT.unpack_from(message.payload)[0])
                message.finish()

        reader = asyncio.create_task(read())
        await asyncio.sleep(max(0.0, begin - 1.0 - time.monotonic()))
        senders = [asyncio.create_task(send()) for _ in range(in_flight)]
        await asyncio.sleep(max(0.0, begin - time.monotonic()))
        cpu = time.process_time()
        await asyncio.gather(*senders)
        cpu = time.process_time() - cpu
        await asyncio.sleep(0.3)
        reader.cancel()
    print(json.dumps({"sent": sent, "delivered": delivered, "cpu": cpu, "latencies": latencies[::7]}))


asyncio.run(main())
