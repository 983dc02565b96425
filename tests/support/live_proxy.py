"""A proxy before every process of a fleet, in its own thread: cuts, or stands still one way or both."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from random import Random


class Pipe(asyncio.Protocol):
    """One side of a connection through the proxy."""

    def __init__(self, other: Pipe | None = None) -> None:
        self.other = other
        self.transport: asyncio.Transport | None = None
        self.kept: list[bytes] = []
        self.still = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self.other is not None:
            self.other.other = self
            self.other.flush()

    def data_received(self, data: bytes) -> None:
        self.kept.append(data)
        self.flush()

    def flush(self) -> None:
        if not self.still and self.other is not None and self.other.transport is not None:
            for data in self.kept:
                self.other.transport.write(data)
            self.kept = []

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()

    def abort(self) -> None:
        for each in (self, self.other):
            if each is not None and each.transport is not None:
                each.transport.abort()


class Proxies:
    """Forwards each of some ports to another."""

    def __init__(self, routes: Mapping[int, int]) -> None:
        self.routes, self.pipes = routes, set[Pipe]()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.ready = threading.Event()
        self.thread.start()
        assert self.ready.wait(60)

    def _run(self) -> None:
        async def listen() -> None:
            for outside, inside in self.routes.items():
                await self.loop.create_server(lambda inside=inside: self._accept(inside), "127.0.0.1", outside)
            self.ready.set()

        self.loop.run_until_complete(listen())
        self.loop.run_forever()

    def _accept(self, inside: int) -> Pipe:
        pipe = Pipe()
        self.pipes.add(pipe)

        async def dial() -> None:
            try:
                await self.loop.create_connection(lambda: Pipe(pipe), "127.0.0.1", inside)
            except OSError:
                pipe.abort()

        self.loop.create_task(dial())
        return pipe

    def cut(self, chance: Random, one_way: bool) -> None:
        """Cut a connection, or let one direction of it stand still and cut it a second later."""
        self.loop.call_soon_threadsafe(self._cut, chance.random(), one_way, chance.random() < 0.5)

    def _cut(self, which: float, one_way: bool, back: bool) -> None:
        alive = [p for p in self.pipes if p.transport is not None and not p.transport.is_closing()]
        self.pipes = set(alive)
        if not alive:
            return
        pipe = sorted(alive, key=id)[int(which * len(alive))]
        if not one_way:
            pipe.abort()
            return
        side = pipe.other if back and pipe.other is not None else pipe
        side.still = True
        self.loop.call_later(1.0, pipe.abort)

    def swallow(self) -> None:
        """Let all connections there are take bytes and give none, for ever; later ones are not touched."""
        done = threading.Event()

        def still() -> None:
            for pipe in self.pipes:
                pipe.still = True
                if pipe.other is not None:
                    pipe.other.still = True
            done.set()

        self.loop.call_soon_threadsafe(still)
        assert done.wait(60)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(60)
