"""One large transaction, and the end of the process right after it: python live_burst.py CONFIG SENDS BYTES."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from thence.runtime import Endpoint


async def main(config: str, sends: int, size: int) -> None:
    async with Endpoint(config) as me:
        async for message in me.deliveries():
            async with message.transaction() as tx:
                tx.execute("CREATE TABLE IF NOT EXISTS effects (message TEXT)")
                tx.execute("INSERT INTO effects VALUES (?)", (message.id,))
                for number in range(sends):
                    tx.send({"a"}, b"%d " % number + b"x" * size)
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
