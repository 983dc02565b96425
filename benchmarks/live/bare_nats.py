"""One process of the benchmark beside NATS, without an endpoint: python bare_nats.py CONFIG LOOP.

Publishes the same copies to the same JetStream as an endpoint, each with an id, and counts a send as made when the
server has acknowledged all of them. Reads with a durable pull consumer and acknowledges each message. No causal order,
no journal, no removal of duplicates beyond the server's window.
"""

import asyncio
import json
import os
import sys

from nats.aio.client import Client
from nats.errors import TimeoutError as NothingCame
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig
from process import Phase

from thence.live.jetstream import ACK_WAIT, FETCHED_AT_ONCE
from thence.live.nats_server import Subjects, connection_settings, read_password, stream_settings
from thence.runtime import load


class Bare:
    """What `Phase` needs of an endpoint."""

    def __init__(self, js: JetStreamContext, config: object) -> None:
        self.js, self.config, self.count = js, config, 0
        self.names = Subjects(config.nats.stream)

    async def send(self, destinations: list[str], payload: bytes) -> None:
        self.count += 1
        number, me = self.count, self.config.name
        await asyncio.gather(
            *(
                self.js.publish(self.names.item(me, to), payload, headers={"Nats-Msg-Id": f"{me}.{to}.{number}"})
                for to in destinations
            )
        )


async def main() -> None:
    config = load(sys.argv[1])
    client = Client()
    await client.connect(**connection_settings(config, read_password(config.nats), None))
    js = client.jetstream(timeout=60)
    me = Bare(js, config)
    for wanted in stream_settings(config.nats):
        try:
            await js.add_stream(wanted)
        except Exception as error:
            if "different configuration" not in str(error):
                raise
    token = me.names.token(config.name)
    await js.add_consumer(
        config.nats.stream,
        ConsumerConfig(
            name=token,
            durable_name=token,
            filter_subject=me.names.item("*", config.name),
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=ACK_WAIT,
            max_ack_pending=2 * FETCHED_AT_ONCE * len(config.processes),
        ),
    )
    subscription = await js.pull_subscribe_bind(token, config.nats.stream)
    phase: Phase | None = None
    lines: asyncio.Queue[str] = asyncio.Queue()
    asyncio.get_running_loop().add_reader(0, lambda: lines.put_nowait(os.read(0, 1 << 16).decode()))

    async def read() -> None:
        while True:
            try:
                messages = await subscription.fetch(FETCHED_AT_ONCE, timeout=5)
            except NothingCame:
                continue
            for message in messages:
                if phase is not None:
                    phase.deliver(message.data)
                await message.ack()

    reader = asyncio.create_task(read())
    print("ready", flush=True)
    while line := await lines.get():
        phase = Phase(me, json.loads(line))
        print(json.dumps(await phase.run()), flush=True)
    while (
        not reader.done()
    ):  # again and again: `wait_for` of Python 3.11, which the client uses, may lose a cancellation
        reader.cancel()
        await asyncio.wait([reader], timeout=0.2)
    await client.close()


if __name__ == "__main__":
    if sys.argv[2] == "uvloop":
        import uvloop

        uvloop.run(main())
    else:
        asyncio.run(main())
